"""A collector with its own environments and its own copy of the policy, in an actor."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rlfast.data import VectorReplayBuffer
from rlfast.data.collect.collector import Collector
from rlfast.data.stats import CollectStats
from rlfast.distributed.cluster.actors import Actor, ActorLost
from rlfast.distributed.collectors.weights import Weights, take_weights
from rlfast.distributed.replay.shard import Level
from rlfast.env import BaseVectorEnv
from rlfast.experiment.config import ExplorationConfig, OffPolicyConfig, RunConfig, stream_seed
from rlfast.experiment.declaration import Declaration
from rlfast.experiment.environments import make_envs, single_action_space
from rlfast.policy import BasePolicy


@dataclass(frozen=True, kw_only=True)
class WorkerConfig:
    """What one of several collectors is for."""

    run: RunConfig
    """The settings of the run."""
    number: int
    """The number of the collector, from 0."""
    first_env: int
    """The number of its first environment among those of the run."""
    envs: int
    """Number of its environments."""
    rows: int
    """The largest number of environment steps of one order."""
    all_envs: int
    """Number of the environments of all collectors."""
    restarts: int = 0
    """How many collectors were replaced before this one was made, which gives it other random numbers."""

    def parts(self) -> tuple[BaseVectorEnv, BasePolicy]:
        """Makes the environments, seeded as in a run in one process, and the policy, on the CPU."""
        changes: dict[str, Any] = {"num_envs": self.envs, "collect_steps": self.envs, "device": "cpu"}
        if any(field.name == "compile" for field in fields(self.run)):
            changes["compile"] = False  # it only acts
        if self.restarts:
            changes |= {"seed": stream_seed(self.run.seed, f"restart/{self.restarts}"), "env_seeds": None}
        config = replace(self.run, **changes)
        torch.set_num_threads(config.threads)
        torch.manual_seed(stream_seed(config.seed, f"torch/collector/{self.number}"))
        envs = make_envs(config, "train", first=self.first_env)
        try:
            policy = Declaration().policy(config, envs.single_observation_space, single_action_space(envs))
        except BaseException:
            envs.close()
            raise
        policy.seed(stream_seed(config.seed, f"policy/collector/{self.number}"))
        return envs, policy


class Order(NamedTuple):
    """What a collector is to do."""

    steps: int
    """Number of environment steps of all its environments together."""
    random: bool
    """Whether actions are random."""
    env_step: int
    """Environment steps of the run so far, for schedules."""
    weights: Weights


class Report(NamedTuple):
    """What a collector has done."""

    steps: int
    returns: NDArray[Any]
    """Returns of the episodes that ended."""
    lens: NDArray[np.int64]
    """Their lengths."""
    broken: int
    """Episodes that were cut off because their environment failed."""
    version: int
    """The number of gradient steps of the weights that have acted."""
    level: Level | None
    """How full the shard is; None if it was lost, and the rows with it."""
    seconds: float


class CollectorWorker:
    """Collects, and sends the rows to a shard. It is the object of an actor.

    :param config: what it is for.
    """

    def __init__(self, config: WorkerConfig) -> None:
        self._config, self._run = config, config.run
        envs, self.policy = config.parts()
        self.policy.train()
        noise = isinstance(self._run, OffPolicyConfig | ExplorationConfig)
        rows = VectorReplayBuffer(-(-config.rows // config.envs) * config.envs, config.envs, seed=0)
        self.collector = self._make_collector(envs, rows, noise)
        self._version = -1
        self._shard: Actor | None = None
        self._first_ring = 0
        self._begins = False

    def _make_collector(self, envs: BaseVectorEnv, rows: VectorReplayBuffer, noise: bool) -> Collector:
        return Collector(self.policy, envs, rows, exploration_noise=noise)

    def ready(self) -> bool:
        """Returns True; whoever waits for it knows that the environments exist."""
        return True

    def attach(self, shard: Actor, first_ring: int, begins: bool) -> None:
        """Sends rows to a shard from now on.

        :param shard: the shard.
        :param first_ring: the number of its ring for the first environment.
        :param begins: whether episodes that are running in its rings are of a collector that is gone.
        """
        self._shard, self._first_ring, self._begins = shard, first_ring, begins

    def collect(self, order: Order) -> Report:
        """Collects, and sends the rows to the shard.

        :param order: what to do.
        """
        begin = time.perf_counter()
        self._take(order.weights)
        self._run.set_schedules(self.policy, order.env_step)
        with self.collector.finite_rewards():
            stats = self.collector.collect(n_step=order.steps, random=order.random, exact=True)
        level = self._send()
        return self._report(stats, level, time.perf_counter() - begin)

    def _take(self, weights: Weights) -> None:
        if weights.version != self._version:
            take_weights(self.policy, weights.shared.get())
            self._version = weights.version

    def _send(self) -> Level | None:
        assert self._shard is not None  # noqa: S101 (attached before the first order)
        buffer: Any = self.collector.buffer
        try:
            level: Level = self._shard.call("insert", buffer, self._first_ring, self._begins).result()
        except ActorLost:  # the learner replaces it
            return None
        finally:
            self.collector.reset_buffer(keep_statistics=True)
        self._begins = False
        return level

    def _report(self, stats: CollectStats, level: Level | None, seconds: float) -> Report:
        return Report(
            steps=stats.n_collected_steps,
            returns=stats.returns,
            lens=stats.lens,
            broken=stats.n_broken_episodes,
            version=self._version,
            level=level,
            seconds=seconds,
        )

    def state(self) -> dict[str, Any]:
        """Returns the state of the collector and of the random streams of its policy, as plain data."""
        extra = self.policy.get_extra_state()
        streams = {name: extra[name] for name in ("random", "torch_random")}
        return {"collector": self.collector.state_dict(), "policy": streams, "torch": torch.get_rng_state()}

    def restore(self, state: dict[str, Any]) -> dict[int, str]:
        """Restores a state. Episodes that cannot continue end there.

        :param state: the result of :meth:`state`.
        :return: the environments that begin new episodes, and why.
        """
        lost = self.collector.load_state_dict(state["collector"])
        now = self.policy.get_extra_state()
        self.policy.set_extra_state(now | state["policy"])
        torch.set_rng_state(state["torch"])
        self._begins = bool(lost)
        return lost

    def close(self) -> None:
        """Closes the environments."""
        self.collector.close()
