"""rlfast's storage and draws inside d3rlpy 2.8::

- dataset = d3rlpy.dataset.create_fifo_replay_buffer(100_000, env=env)
+ dataset = rlfast.interop.d3rlpy.ReplayBuffer(100_000, env=env)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from rlfast.data import Batch, PrioritizedReplayBuffer
from rlfast.interop._hosts import missing

try:
    from d3rlpy import dataset as host
except ImportError as error:
    raise missing(__name__, "d3rlpy", "d3rlpy>=2.8,<2.9") from error

__all__ = ["ReplayBuffer"]

Index = NDArray[np.int64]


def _ours(observation: Any, dtypes: Sequence[Any]) -> Any:
    """An observation as a column: an array, or a dict of the arrays of a tuple."""
    if isinstance(observation, list | tuple):
        return {str(i): np.asarray(part, dtypes[i]) for i, part in enumerate(observation)}
    return np.asarray(observation, dtypes[0])


def _theirs(column: Any, dtype: Any = None) -> Any:
    if isinstance(column, Batch):
        return [_theirs(column[str(i)], dtype) for i in range(len(column.keys()))]
    return column if dtype is None else column.astype(dtype)


def _zeros(observation: Any) -> Any:
    if isinstance(observation, dict):
        return {key: np.zeros_like(part) for key, part in observation.items()}
    return np.zeros_like(observation)


class _Rows(host.BufferProtocol):  # type: ignore[misc]
    """Steps in rlfast's engine. All steps of an episode are rows, and those without a next observation are never drawn.

    d3rlpy has no transition from the last step of an episode that was cut off: its leaf in the sum tree is 0, and all
    others are 1.
    """

    def __init__(self, limit: int, seed: int | None) -> None:
        self.rows = PrioritizedReplayBuffer(limit, alpha=1.0, beta=0.0, weight_norm=False, seed=seed)

    def write(self, step: tuple[Any, Any, Any], following: tuple[Any, Any, Any] | None, terminated: bool) -> None:
        """Appends a step and what came next: nothing at the end of an episode."""
        obs, act, rew = step
        row = {"obs": obs, "act": act, "rew": rew, "terminated": terminated, "truncated": not (following or terminated)}
        row["obs_next"], row["act_next"] = (_zeros(obs), np.zeros_like(act)) if following is None else following[:2]
        index = self.rows.add(Batch(row))[0]
        if row["truncated"]:
            self.rows.weight[index] = 0.0

    def append(self, episode: Any, index: int) -> None:
        """Whole episodes and steps go through :class:`ReplayBuffer`."""
        raise NotImplementedError("append steps or episodes to the replay buffer, not to its storage")

    @property
    def transition_count(self) -> int:
        return round(self.rows.weight.reduce())

    def __len__(self) -> int:
        return self.transition_count

    def _episode(self, rows: Index) -> Any:
        fields = self.rows[rows]
        return host.Episode(
            observations=_theirs(fields.obs),
            actions=fields.act,
            rewards=fields.rew.astype(np.float32)[:, None],
            terminated=bool(fields.terminated[-1]),
        )

    def _parts(self) -> Iterator[Index]:
        rows = self.rows.sample_indices(0)
        if len(rows):
            ends = np.flatnonzero(self.rows.done[rows]) + 1
            yield from (part for part in np.split(rows, ends) if len(part))

    @property
    def episodes(self) -> Sequence[Any]:
        """Made of the rows that are there, oldest first; the running one is the last."""
        return [self._episode(rows) for rows in self._parts()]

    def around(self, row: int) -> tuple[Index, int]:
        """The rows of a row's episode, and its place among them."""
        reach = 64
        while True:
            rows, mask = self.rows.window(np.array([row]), reach, reach)
            if not (mask[0, 0] or mask[0, -1]) or reach > self.rows.maxsize:
                return rows[0][mask[0]], int(mask[0, :reach].sum())
            reach *= 4

    def __getitem__(self, index: int) -> tuple[Any, int]:
        """The transition that is the ``index``-th in the storage, as an episode and a place in it."""
        rows = np.sort(self.rows.sample_indices(0))
        rows, place = self.around(int(rows[self.rows.weight[rows] > 0.0][index]))
        return self._episode(rows), place


class _Transitions(Sequence[Any]):
    """The transitions of a mini-batch, each made when it is looked at."""

    def __init__(self, rows: _Rows, batch: Batch, index: Index) -> None:
        self._rows, self._batch, self._index = rows, batch, index

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        row = self._batch[place]
        rows, at = self._rows.around(int(self._index[place]))
        rewards = self._rows.rows.rew[rows[at:]].astype(np.float32)[:, None]
        return host.Transition(
            observation=_theirs(row.obs),
            action=row.act,
            reward=rewards[0],
            next_observation=_theirs(row.obs_next),
            next_action=row.act_next,
            terminal=float(row.terminated),
            interval=1,
            rewards_to_go=rewards,
        )


class ReplayBuffer(host.ReplayBuffer):  # type: ignore[misc]
    """d3rlpy's ``ReplayBuffer`` over rlfast's engine: the newest ``limit`` steps, observations stored once.

    A mini-batch of transitions is one copy out of the engine; its list of transitions, with the rewards to go, is made
    where an algorithm looks at it. With a transition picker other than d3rlpy's basic one, transitions are made one by
    one, by it. ``episodes`` are made of the rows that are there: the oldest may have lost its beginning.

    :param limit: steps at most. Each takes a row, also the last one of an episode that was cut off.
    :param seed: of the draws; None draws one from ``np.random``.
    :param kwargs: what d3rlpy's takes beside ``buffer``: ``env``, ``episodes``, ``transition_picker``,
        ``trajectory_slicer``, ``writer_preprocessor``, signatures, ``action_space`` and ``action_size``.
    """

    def __init__(self, limit: int, *, seed: int | None = None, writer_preprocessor: Any = None, **kwargs: Any) -> None:
        self._rows = _Rows(limit, seed)
        self._preprocessor = writer_preprocessor or host.BasicWriterPreprocess()
        self._pending: tuple[Any, Any, Any] | None = None
        super().__init__(self._rows, writer_preprocessor=self._preprocessor, **kwargs)

    # -- writing -----------------------------------------------------------------------------------------------------
    def append(self, observation: Any, action: Any, reward: Any) -> None:
        """Adds a step to the running episode."""
        shown = self._preprocessor.process_observation(observation)
        step = self._step(shown, self._preprocessor.process_action(action), self._preprocessor.process_reward(reward))
        if self._pending is not None:
            self._rows.write(self._pending, step, terminated=False)
        self._pending = step

    def _step(self, observation: Any, action: Any, reward: Any) -> tuple[Any, Any, Any]:
        info = self._dataset_info
        act = np.asarray(action, info.action_signature.dtype[0]).reshape(info.action_signature.shape[0] or (1,))
        return _ours(observation, info.observation_signature.dtype), act, float(np.asarray(reward).reshape(()))

    def clip_episode(self, terminated: bool) -> None:
        """Ends the running episode.

        :param terminated: by the environment; else it was cut off.
        """
        if self._pending is not None:
            self._rows.write(self._pending, None, terminated=terminated)
        self._pending = None

    def append_episode(self, episode: Any) -> None:
        """Adds a whole episode."""
        self.clip_episode(terminated=False)
        observations, several = episode.observations, isinstance(episode.observations, list | tuple)
        for i in range(episode.size()):
            shown = tuple(part[i] for part in observations) if several else observations[i]
            step = self._step(shown, episode.actions[i], episode.rewards[i])
            if self._pending is not None:
                self._rows.write(self._pending, step, terminated=False)
            self._pending = step
        self.clip_episode(episode.terminated)

    # -- reading -----------------------------------------------------------------------------------------------------
    def sample_transition(self) -> Any:
        """One transition, as the picker makes it."""
        rows, place = self._rows.around(int(self._rows.rows.sample_indices(1)[0]))
        return self._transition_picker(self._rows._episode(rows), place)

    def sample_transition_batch(self, batch_size: int) -> Any:
        """Transitions drawn uniformly, with replacement."""
        if type(self._transition_picker) is not host.BasicTransitionPicker:
            return super().sample_transition_batch(batch_size)
        batch, index = self._rows.rows.sample(batch_size)
        return host.TransitionMiniBatch(
            observations=_theirs(batch.obs, np.float32),
            actions=batch.act.astype(np.float32),
            rewards=batch.rew.astype(np.float32)[:, None],
            next_observations=_theirs(batch.obs_next, np.float32),
            next_actions=batch.act_next.astype(np.float32),
            terminals=batch.terminated.astype(np.float32)[:, None],
            intervals=np.ones((batch_size, 1), np.float32),
            transitions=_Transitions(self._rows, batch, index),
        )

    def sample_trajectory(self, length: int) -> Any:
        """A stretch of an episode that ends at a drawn transition, as the slicer makes it."""
        rows, place = self._rows.around(int(self._rows.rows.sample_indices(1)[0]))
        return self._trajectory_slicer(self._rows._episode(rows), place, length)

    @classmethod
    def from_episode_generator(cls, episode_generator: Any, limit: int, **kwargs: Any) -> ReplayBuffer:
        """A buffer of what a generator gives, which is all that ``limit`` has room for."""
        return cls(limit, episodes=episode_generator(), **kwargs)

    @classmethod
    def load(cls, f: BinaryIO, limit: int, episode_cls: Any = host.Episode, **kwargs: Any) -> ReplayBuffer:
        """The episodes that ``dump``, of this class or of d3rlpy's own, wrote to a file."""
        return cls(limit, episodes=host.load(episode_cls, f), **kwargs)
