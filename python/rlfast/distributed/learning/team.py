"""The learners of a run beside the one in this process."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeVar

import gymnasium as gym
import torch

from rlfast.distributed.cluster.actors import Actor, ActorLost, Call, Cluster, Shared
from rlfast.distributed.learning.group import Group, free_address, share_gradients
from rlfast.distributed.replay.sharded_buffer import PrioritizedShardedBuffer, ShardedBuffer
from rlfast.experiment.build import before_collect
from rlfast.experiment.config import OffPolicyConfig, QLearningConfig, RunWarning, SequenceConfig, stream_seed
from rlfast.experiment.declaration import Declaration
from rlfast.experiment.schedules import LearningRates
from rlfast.policy import BasePolicy

T = TypeVar("T")

_LOSSES = 5
"""How often in a row learners may be lost before the run fails."""


class LearnerLost(RuntimeError):
    """A learner's process has ended, so the others cannot continue."""


@dataclass(frozen=True, kw_only=True)
class LearnerConfig:
    """What one of several learners is for."""

    run: OffPolicyConfig
    rank: int
    """The number of the learner; 0 is the one in the process of the run."""
    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]

    @property
    def rows(self) -> int:
        """Number of rows of its part of a batch."""
        return self.run.batch_size // self.run.learners


def make_policy(config: OffPolicyConfig, obs_space: gym.Space[Any], act_space: gym.Space[Any]) -> BasePolicy:
    """Returns a policy that learns from shards, which sum rewards themselves.

    :param config: the settings of the run.
    :param obs_space: observation space of one environment.
    :param act_space: action space of one environment.
    """
    policy = Declaration().policy(config, obs_space, act_space)
    policy.to(config.device)
    if not isinstance(config, SequenceConfig):
        policy.n_step = 1
    return policy


def make_buffer(
    config: OffPolicyConfig, shards: Sequence[Actor], seed: int, ahead: int, largest: Callable[[float], float] | None
) -> ShardedBuffer:
    """Returns the shards as the buffer of a learner.

    :param config: the settings of the run.
    :param shards: the shards.
    :param seed: seed of the draws of shards.
    :param ahead: number of batches that are asked for ahead.
    :param largest: see :class:`PrioritizedShardedBuffer`.
    """
    if isinstance(config, QLearningConfig) and config.prioritized:
        return PrioritizedShardedBuffer(shards, seed=seed, ahead=ahead, beta=config.beta, largest=largest)
    return ShardedBuffer(shards, seed=seed, ahead=ahead)


class LearnerWorker:
    """A learner that follows the one in the process of the run, step by step. It is the object of an actor.

    :param config: what it is for.
    """

    def __init__(self, config: LearnerConfig) -> None:
        self._config, run = config, config.run
        torch.set_num_threads(run.threads)
        self._seed("torch", torch.manual_seed)
        self.policy = make_policy(run, config.observation_space, config.action_space)
        self.policy.train()
        self._rates = LearningRates(run, self.policy)
        self._group: Group | None = None
        self._buffer: ShardedBuffer | None = None

    def _seed(self, name: str, seed: Callable[[int], Any]) -> None:
        seed(stream_seed(self._config.run.seed, f"{name}/learner/{self._config.rank}"))

    def join(self, address: str) -> None:
        """Joins the other learners; returns once all are there.

        :param address: where rank 0 listens.
        """
        run = self._config.run
        self._group = Group(self._config.rank, run.learners, address, run.device)
        share_gradients(self.policy, self._group)

    def take(self, state: Shared, shards: Sequence[Actor]) -> None:
        """Takes the state of the learner of rank 0, but for its random streams, and the shards.

        :param state: the state of its policy.
        :param shards: the shards.
        """
        self.policy.load_state_dict(state.get())
        self._seed("policy", self.policy.seed)
        assert self._group is not None  # noqa: S101 (joined before)
        seed = stream_seed(self._config.run.seed, f"sampler/learner/{self._config.rank}")
        buffer = make_buffer(self._config.run, shards, seed, 1, self._group.largest)
        buffer.supervise(on_lost=lambda number: buffer.shards[number], on_empty=_no_rows)  # nothing is drawn from it
        self._buffer = buffer

    def update(self, times: int, env_step: int, shards: Sequence[Actor] | None) -> None:
        """Makes gradient steps together with the other learners.

        :param times: how many.
        :param env_step: environment steps of the run so far, for schedules.
        :param shards: the shards, if one was replaced.
        """
        assert self._buffer is not None  # noqa: S101 (taken before)
        try:
            if shards is not None:
                self._buffer.forget()
                self._buffer.shards[:] = shards
            self._buffer.refresh()
            before_collect(self._config.run, self.policy, self._buffer, self._rates, 0, env_step)
            for _ in range(times):
                self.policy.update(sample_size=self._config.rows, buffer=self._buffer)  # type: ignore[arg-type]
        except BaseException:
            self.close()  # the others would wait for this one
            raise

    def ready(self) -> bool:
        """Returns True; whoever waits for it knows that the policy exists."""
        return True

    def close(self) -> None:
        """Leaves the group."""
        if self._group is not None:
            self._group.close()
            self._group = None


def _no_rows() -> None:
    raise ActorLost("all replay shards are gone")


class Team:
    """The learners beside the one in this process, which is rank 0.

    All have the same weights, as they begin with the same and average their gradients. Each samples its part of a batch
    itself.

    :param cluster: where they are.
    :param start: starts one, by its rank.
    :param policy: the policy of rank 0.
    :param size: number of learners, rank 0 included.
    :param device: the device of the policies.
    """

    def __init__(
        self, cluster: Cluster, start: Callable[[int], Actor], policy: BasePolicy, size: int, device: str
    ) -> None:
        self._cluster, self._start, self._policy = cluster, start, policy
        self._size, self._device = size, device
        self.workers = [start(rank) for rank in range(1, size)]
        self._group: Group | None = None
        self._kept: Shared | None = None
        self._kept_step = 0
        self._shards: list[Actor] = []
        self.lost = self._in_a_row = 0

    def largest(self, value: float) -> float:
        """Returns the largest of the learners' values; see :meth:`Group.largest`.

        :param value: that of rank 0.
        """
        assert self._group is not None  # noqa: S101 (learners have gathered before they sample)
        return self._group.largest(value)

    def keep(self, gradient_step: int) -> None:
        """Keeps the state of the policy, to which the learners go back if one is lost. It is that of the checkpoint.

        :param gradient_step: gradient steps so far.
        """
        self._kept, self._kept_step = self._cluster.share(deepcopy(self._policy.state_dict())), gradient_step

    def update(self, run: Callable[[], T], times: int, env_step: int, shards: Sequence[Actor]) -> T:
        """Makes gradient steps with all learners.

        :param run: makes those of rank 0.
        :param times: how many.
        :param env_step: environment steps so far.
        :param shards: the shards.
        :return: what ``run`` returned.
        :raises LearnerLost: if another learner was lost. Then weights may differ, see :meth:`recover`.
        """
        if self._group is None:
            self._gather(shards)
        changed = None if all(a is b for a, b in zip(self._shards, shards, strict=True)) else [*shards]
        self._shards = [*shards]
        calls = [worker.call("update", times, env_step, changed) for worker in self.workers]
        try:
            result = run()
        except RuntimeError as error:
            self._leave()
            self._raise_if_lost(calls, error)
            raise
        self._raise_if_lost(calls)
        self._in_a_row = 0
        return result

    def _raise_if_lost(self, calls: Sequence[Call], why: BaseException | None = None) -> None:
        for rank, call in enumerate(calls, 1):
            try:
                call.result()
            except (ActorLost, RuntimeError) as error:
                self._leave()
                raise LearnerLost(f"learner {rank} was lost: {error}") from (why or error)

    def _gather(self, shards: Sequence[Actor]) -> None:
        """Forms the group, and gives all learners the state of rank 0."""
        address = free_address()
        calls = [worker.call("join", address) for worker in self.workers]
        try:
            self._group = Group(0, self._size, address, self._device)
        except RuntimeError as error:
            self._raise_if_lost(calls, error)
            raise
        self._raise_if_lost(calls)
        share_gradients(self._policy, self._group)
        state = self._cluster.share(self._policy.state_dict())
        self._raise_if_lost([worker.call("take", state, [*shards]) for worker in self.workers])
        self._shards = [*shards]

    def recover(self, error: LearnerLost, gradient_step: int) -> None:
        """Starts lost learners anew, and goes back to the state that was kept.

        :param error: what has happened.
        :param gradient_step: gradient steps so far.
        :raises RuntimeError: if learners are lost again and again.
        """
        self.lost += 1
        self._in_a_row += 1
        if self._in_a_row > _LOSSES:
            raise RuntimeError(f"learners were lost {self._in_a_row} times in a row") from error
        back = gradient_step - self._kept_step
        warnings.warn(
            f"{error}: another one takes its place, and all go back by {back} gradient steps, to the last checkpoint",
            RunWarning,
            stacklevel=2,
        )
        for worker in self.workers:
            worker.kill()
        self.workers = [self._start(rank) for rank in range(1, self._size)]
        if self._kept is not None:
            self._policy.load_state_dict(self._kept.get())

    def _leave(self) -> None:
        share_gradients(self._policy, None)
        if self._group is not None:
            self._group.close()
            self._group = None

    def close(self) -> None:
        """Leaves the group."""
        self._leave()
