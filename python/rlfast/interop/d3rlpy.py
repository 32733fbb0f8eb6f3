"""rlfast's replay buffer for d3rlpy 2.8::

- dataset = d3rlpy.dataset.create_fifo_replay_buffer(100_000, env=env)
+ dataset = rlfast.interop.d3rlpy.ReplayBuffer(100_000, env=env)
"""

from __future__ import annotations

from collections import deque
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
    raise missing(__name__, "d3rlpy", 'pip install "d3rlpy>=2.8,<2.9"') from error

__all__ = ["ReplayBuffer"]

Index = NDArray[np.int64]


def _ours(observation: Any, signature: host.Signature) -> Any:
    """Copies an observation of d3rlpy to an array, or, if it is a tuple, to a dict of arrays."""
    several = isinstance(observation, list | tuple)
    parts = [
        np.array(np.broadcast_to(np.asarray(part, dtype), shape))
        for part, dtype, shape in zip(
            observation if several else [observation], signature.dtype, signature.shape, strict=True
        )
    ]
    return {str(i): part for i, part in enumerate(parts)} if several else parts[0]


def _array(value: object, signature: host.Signature) -> Any:
    """Converts a number to an array ``[1]``, as d3rlpy's writer does before it calls the preprocessor."""
    return value if isinstance(value, np.ndarray) and value.ndim else np.array([value], signature.dtype[0])


def _theirs(column: Any, dtype: object = None) -> Any:
    if isinstance(column, Batch):
        return [_theirs(column[str(i)], dtype) for i in range(len(column.keys()))]
    return column if dtype is None else column.astype(dtype)


class _Rows(host.BufferProtocol):
    """The storage of d3rlpy's buffer, with one row of rlfast's engine for each step.

    d3rlpy has no transition for the last step of a truncated episode, which has no next observation. Such a row has
    the priority 0, so that it is never drawn; all others have the priority 1.

    :ivar steps: the steps of the running episode that have no row yet: observation, action and reward.
    """

    def __init__(self, limit: int, seed: int | None) -> None:
        self.steps: deque[tuple[Any, Any, Any]] = deque()
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

    def write_steps(self) -> None:
        """Appends rows for all steps that have a next step."""
        while len(self.steps) > 1:
            self.write(self.steps.popleft(), self.steps[0], terminated=False)

    def end(self, terminated: bool) -> None:
        """Appends rows for all steps, the last of which ends the episode.

        :param terminated: whether the environment terminated the episode; else it is truncated.
        """
        self.write_steps()
        if self.steps:
            self.write(self.steps.pop(), None, terminated=terminated)

    def append(self, episode: object, index: int) -> None:
        """Not supported: :class:`ReplayBuffer` adds episodes and steps.

        :raises NotImplementedError: always.
        """
        raise NotImplementedError("append steps or episodes to the replay buffer, not to its storage")

    @property
    def transition_count(self) -> int:
        return round(self.rows.weight.reduce())

    def __len__(self) -> int:
        return self.transition_count

    def rewards(self, rows: Index) -> NDArray[np.float32]:
        """Returns the rewards ``[T, 1]`` of an episode's last rows, and of the step that has no row yet."""
        rewards: NDArray[np.float64] = self.rows.rew[rows]
        if not self.rows.done[rows[-1]]:
            rewards = np.append(rewards, self.steps[0][2])
        return rewards.astype(np.float32)[:, None]

    def _episode(self, rows: Index) -> Any:
        fields = self.rows[rows]
        steps = Batch(obs=fields.obs, act=fields.act)
        if not fields.done[-1]:
            obs, act, _ = self.steps[0]
            newest = Batch(obs=obs, act=act)
            steps = tree.map_leaves(lambda column, last: np.concatenate((column, last[None])), steps, newest)
        return host.Episode(
            observations=_theirs(steps.obs),
            actions=steps.act,
            rewards=self.rewards(rows),
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

    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        row = self._batch[place]
        rows, at = self._rows.around(int(self._index[place]))
        rewards = self._rows.rewards(rows[at:])
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


class ReplayBuffer(host.ReplayBuffer):
    """d3rlpy's ``ReplayBuffer`` on rlfast's engine: it holds the newest ``limit`` steps, and each observation once.

    A mini-batch is copied from the engine in one call; its list of transitions, with their rewards to go, is made when
    it is accessed. A transition picker other than d3rlpy's basic one makes the transitions one by one. ``episodes`` are
    made of the stored rows, so the oldest may lack its beginning.

    :param limit: the capacity in steps. Each takes a row, also the last one of a truncated episode.
    :param seed: the seed of the draws; None draws one from ``np.random``.
    :param writer_preprocessor: as in d3rlpy's class.
    :param write_at_termination: whether the steps of an episode are added when it ends.
    :param kwargs: further arguments of d3rlpy's class except ``buffer``: ``env``, ``episodes``, ``transition_picker``,
        ``trajectory_slicer``, signatures, ``action_space`` and ``action_size``.
    """

    def __init__(
        self,
        limit: int,
        *,
        seed: int | None = None,
        writer_preprocessor: host.WriterPreprocessProtocol | None = None,
        write_at_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        self._rows = _Rows(limit, seed)
        self._preprocessor = writer_preprocessor or host.BasicWriterPreprocess()
        self._at_once = not write_at_termination
        super().__init__(self._rows, writer_preprocessor=self._preprocessor, **kwargs)
        made = self._writer  # it has the signatures of what the preprocessor returns
        self._processed = made._observation_signature, made._action_signature, made._reward_signature

    # -- writing -----------------------------------------------------------------------------------------------------
    def append(self, observation: object, action: object, reward: object) -> None:
        """Adds a step to the running episode.

        :param observation: the observation that the action was chosen for; a tuple of arrays if it has several parts.
        :param action: the action.
        :param reward: the reward.
        """
        prepare, (observed, acted, rewarded) = self._preprocessor, self._processed
        act = prepare.process_action(_array(action, acted))
        rew = prepare.process_reward(_array(reward, rewarded))
        self._rows.steps.append(self._step(prepare.process_observation(observation), act, rew, observed, acted))
        if self._at_once:
            self._rows.write_steps()

    def _step(
        self, observation: object, action: object, reward: object, observed: object, acted: host.Signature
    ) -> tuple[Any, Any, Any]:
        act = np.array(action, acted.dtype[0]).reshape(acted.shape[0] or (1,))
        return _ours(observation, observed), act, float(np.asarray(reward).reshape(()))

    def clip_episode(self, terminated: bool) -> None:
        """Ends the running episode.

        :param terminated: whether the environment terminated it; else it is truncated.
        """
        self._rows.end(terminated)

    def append_episode(self, episode: host.EpisodeBase) -> None:
        """Adds a complete episode, after the running one was ended as truncated.

        :param episode: the episode.
        """
        self.clip_episode(terminated=False)
        observations, several = episode.observations, isinstance(episode.observations, list | tuple)
        info = self._dataset_info
        signatures = info.observation_signature, info.action_signature
        for i in range(episode.size()):
            shown = tuple(part[i] for part in observations) if several else observations[i]
            self._rows.steps.append(self._step(shown, episode.actions[i], episode.rewards[i], *signatures))
            self._rows.write_steps()
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
    def from_episode_generator(
        cls, episode_generator: host.EpisodeGeneratorProtocol, limit: int, **kwargs: Any
    ) -> ReplayBuffer:
        """Makes a buffer of the episodes of a generator; the newest ``limit`` steps are kept.

        :param episode_generator: a function that returns episodes.
        :param limit: the capacity in steps.
        :param kwargs: as in the constructor.
        """
        return cls(limit, episodes=episode_generator(), **kwargs)

    @classmethod
    def load(cls, f: BinaryIO, limit: int, episode_cls: object = host.Episode, **kwargs: Any) -> ReplayBuffer:
        """Makes a buffer of a file that ``dump`` of this class or of d3rlpy's class wrote.

        :param f: the open file.
        :param limit: the capacity in steps.
        :param episode_cls: the class of the episodes.
        :param kwargs: as in the constructor.
        """
        return cls(limit, episodes=host.load(episode_cls, f), **kwargs)
