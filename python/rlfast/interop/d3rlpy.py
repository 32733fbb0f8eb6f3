"""rlfast's replay buffer for d3rlpy 2.8::

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
from rlfast.utils import tree

try:
    from d3rlpy import dataset as host
except ImportError as error:
    raise missing(__name__, "d3rlpy", "d3rlpy>=2.8,<2.9") from error

__all__ = ["ReplayBuffer"]

Index = NDArray[np.int64]


def _ours(observation: Any, dtypes: Sequence[Any]) -> Any:
    """Converts an observation of d3rlpy to an array, or, if it is a tuple, to a dict of arrays."""
    if isinstance(observation, list | tuple):
        return {str(i): np.asarray(part, dtypes[i]) for i, part in enumerate(observation)}
    return np.asarray(observation, dtypes[0])


def _theirs(column: Any, dtype: Any = None) -> Any:
    if isinstance(column, Batch):
        return [_theirs(column[str(i)], dtype) for i in range(len(column.keys()))]
    return column if dtype is None else column.astype(dtype)


class _Rows(host.BufferProtocol):  # type: ignore[misc]
    """The storage of d3rlpy's buffer, with one row of rlfast's engine for each step.

    d3rlpy has no transition for the last step of a truncated episode, which has no next observation. Such a row has
    the priority 0, so that it is never drawn; all others have the priority 1.
    """

    def __init__(self, limit: int, seed: int | None) -> None:
        self.rows = PrioritizedReplayBuffer(limit, alpha=1.0, beta=0.0, weight_norm=False, seed=seed)

    def write(self, step: tuple[Any, Any, Any], following: tuple[Any, Any, Any] | None, terminated: bool) -> None:
        """Appends a row.

        :param step: observation, action and reward.
        :param following: those of the next step; None at the end of an episode.
        :param terminated: whether the environment terminated the episode with this step.
        """
        obs, act, rew = step
        row = {"obs": obs, "act": act, "rew": rew, "terminated": terminated, "truncated": not (following or terminated)}
        row["obs_next"], row["act_next"] = (tree.zeros(obs), np.zeros_like(act)) if following is None else following[:2]
        index = self.rows.add(Batch(row))[0]
        if row["truncated"]:
            self.rows.weight[index] = 0.0

    def append(self, episode: Any, index: int) -> None:
        """Not supported: :class:`ReplayBuffer` adds episodes and steps.

        :raises NotImplementedError: always.
        """
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
        """The episodes of the stored rows, oldest first; the running one is the last."""
        return [self._episode(rows) for rows in self._parts()]

    def around(self, row: int) -> tuple[Index, int]:
        """Returns the rows of the episode that a row belongs to, and the position of the row among them."""
        reach = 64
        while True:
            rows, mask = self.rows.window(np.array([row]), reach, reach)
            if not (mask[0, 0] or mask[0, -1]) or reach > self.rows.maxsize:
                return rows[0][mask[0]], int(mask[0, :reach].sum())
            reach *= 4

    def __getitem__(self, index: int) -> tuple[Any, int]:
        """Returns the ``index``-th transition of the storage, as an episode and a position in it."""
        rows = np.sort(self.rows.sample_indices(0))
        rows, place = self.around(int(rows[self.rows.weight[rows] > 0.0][index]))
        return self._episode(rows), place


class _Transitions(Sequence[Any]):
    """The transitions of a mini-batch, each of which is made when it is accessed."""

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
    """d3rlpy's ``ReplayBuffer`` on rlfast's engine: it holds the newest ``limit`` steps, and each observation once.

    A mini-batch is copied from the engine in one call; its list of transitions, with their rewards to go, is made when
    it is accessed. A transition picker other than d3rlpy's basic one makes the transitions one by one. ``episodes`` are
    made of the stored rows, so the oldest may lack its beginning.

    :param limit: the capacity in steps. Each takes a row, also the last one of a truncated episode.
    :param seed: the seed of the draws; None draws one from ``np.random``.
    :param writer_preprocessor: as in d3rlpy's class.
    :param kwargs: further arguments of d3rlpy's class except ``buffer``: ``env``, ``episodes``, ``transition_picker``,
        ``trajectory_slicer``, signatures, ``action_space`` and ``action_size``.
    """

    def __init__(self, limit: int, *, seed: int | None = None, writer_preprocessor: Any = None, **kwargs: Any) -> None:
        self._rows = _Rows(limit, seed)
        self._preprocessor = writer_preprocessor or host.BasicWriterPreprocess()
        self._pending: tuple[Any, Any, Any] | None = None
        super().__init__(self._rows, writer_preprocessor=self._preprocessor, **kwargs)

    # -- writing -----------------------------------------------------------------------------------------------------
    def append(self, observation: Any, action: Any, reward: Any) -> None:
        """Adds a step to the running episode.

        :param observation: the observation that the action was chosen for; a tuple of arrays if it has several parts.
        :param action: the action.
        :param reward: the reward.
        """
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

        :param terminated: whether the environment terminated it; else it is truncated.
        """
        if self._pending is not None:
            self._rows.write(self._pending, None, terminated=terminated)
        self._pending = None

    def append_episode(self, episode: Any) -> None:
        """Adds a complete episode, after the running one was ended as truncated.

        :param episode: the episode.
        """
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
        """Draws one transition, which the transition picker makes."""
        rows, place = self._rows.around(int(self._rows.rows.sample_indices(1)[0]))
        return self._transition_picker(self._rows._episode(rows), place)

    def sample_transition_batch(self, batch_size: int) -> Any:
        """Draws a mini-batch of transitions, uniformly and with replacement.

        :param batch_size: how many.
        :return: d3rlpy's ``TransitionMiniBatch``.
        """
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
        """Draws a part of an episode that ends at a drawn transition, which the trajectory slicer makes.

        :param length: the number of steps.
        """
        rows, place = self._rows.around(int(self._rows.rows.sample_indices(1)[0]))
        return self._trajectory_slicer(self._rows._episode(rows), place, length)

    @classmethod
    def from_episode_generator(cls, episode_generator: Any, limit: int, **kwargs: Any) -> ReplayBuffer:
        """Makes a buffer of the episodes of a generator; the newest ``limit`` steps are kept.

        :param episode_generator: a function that returns episodes.
        :param limit: the capacity in steps.
        :param kwargs: as in the constructor.
        """
        return cls(limit, episodes=episode_generator(), **kwargs)

    @classmethod
    def load(cls, f: BinaryIO, limit: int, episode_cls: Any = host.Episode, **kwargs: Any) -> ReplayBuffer:
        """Makes a buffer of a file that ``dump`` of this class or of d3rlpy's class wrote.

        :param f: the open file.
        :param limit: the capacity in steps.
        :param episode_cls: the class of the episodes.
        :param kwargs: as in the constructor.
        """
        return cls(limit, episodes=host.load(episode_cls, f), **kwargs)
