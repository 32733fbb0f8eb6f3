"""Collectors of roll-outs, which together do what one collector with all environments does, to the bit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast.data import VectorReplayBuffer
from rlfast.data.stats import CollectStats
from rlfast.distributed.cluster.actors import Actor, ActorLost, Call, Cluster
from rlfast.distributed.collectors.base import COUNTERS, RESTARTS, Collectors
from rlfast.distributed.collectors.rollout_worker import Rollout, RolloutOrder, Streams
from rlfast.distributed.collectors.weights import Broadcast
from rlfast.policy import BasePolicy


class RolloutCollectors(Collectors):
    """Several collectors as the one collector of a trainer, each with as many environments.

    All act with the newest weights, and with the random numbers that one collector would have drawn, see
    :class:`~rlfast.distributed.collectors.rollout_worker.JointPolicy`. A roll-out is thus the same, however many there
    are.

    :param cluster: where the collectors are.
    :param workers: the collectors, in the order of their environments.
    :param buffer: gets the rows; it has a ring for each environment.
    :param policy: the policy of the learner.
    :param restart: restarts a collector, by its number and the number of restarts so far.
    """

    def __init__(
        self,
        cluster: Cluster,
        workers: Sequence[Actor],
        buffer: VectorReplayBuffer,
        policy: BasePolicy,
        restart: Callable[[int, int], Actor],
    ) -> None:
        super().__init__(cluster, Broadcast(cluster, policy))
        self._workers, self._restart = [*workers], restart
        self.buffer, self._policy = buffer, policy
        self.env_num = buffer.buffer_num

    def reset_buffer(self, keep_statistics: bool = False) -> None:
        """Empties the buffer.

        :param keep_statistics: as in :meth:`rlfast.data.ReplayBuffer.reset`.
        """
        self.buffer.reset(keep_statistics=keep_statistics)

    def figures(self) -> dict[str, float]:
        """Returns what ``rlfast status`` shows."""
        return {"staleness_mean": 0.0, "staleness_max": 0.0, **super().figures()}

    def collect(
        self,
        n_step: int | None = None,
        n_episode: int | None = None,
        *,
        exact: bool = True,  # noqa: ARG002 (it always is)
    ) -> CollectStats:
        """Collects with all collectors at once, and puts the rows into the buffer.

        :param n_step: environment steps, a multiple of the number of environments.
        :param n_episode: must be None.
        :param exact: ignored: the number is always exact.
        :return: the statistics; episodes are in the order in which one collector would have seen them end.
        :raises TypeError: if ``n_step`` is not given.
        :raises ValueError: if it is not such a multiple.
        :raises RuntimeError: if collectors end again and again.
        """
        steps = self._steps_of(n_step, n_episode)
        if steps % self.env_num:
            raise ValueError(f"n_step={steps} must be a multiple of the {self.env_num} environments")
        begin = time.perf_counter()
        streams, weights = Streams.of(self._policy), self._broadcast.newest(self.gradient_step)
        order = RolloutOrder(steps // len(self._workers), self.collect_step, weights, streams)
        rollouts = self._results("roll_out", order)
        if not all(one.streams.equals(rollouts[0].streams) for one in rollouts):
            raise RuntimeError(
                "collectors have drawn different numbers of random numbers: this policy cannot be distributed"
            )
        rollouts[0].streams.restore(self._policy)
        return self._stats(steps, self._add(rollouts), rollouts, time.perf_counter() - begin)

    def _add(self, rollouts: Sequence[Rollout]) -> list[NDArray[np.bool_]]:
        """Puts roll-outs into the buffer, and returns where episodes ended, ``[steps, environments]`` for each."""
        ends, first = [], 0
        for rollout in rollouts:
            rows, indices = rollout.rows, rollout.rows.sample_indices(0)
            batch = rows[indices]
            owner = np.searchsorted(rows.subbuffer_edges, indices, side="right") - 1
            self.buffer.add(batch, first + owner)
            ends.append(np.asarray(batch.done, bool).reshape(rows.buffer_num, -1).T)
            first += rows.buffer_num
        return ends

    def _stats(
        self, steps: int, ends: Sequence[NDArray[np.bool_]], rollouts: Sequence[Rollout], seconds: float
    ) -> CollectStats:
        returns = np.concatenate([rollout.report.returns for rollout in rollouts])
        lens = np.concatenate([rollout.report.lens for rollout in rollouts])
        when = np.concatenate([np.nonzero(ended)[0] for ended in ends])
        if len(when) == len(lens):  # each collector has its episodes in order of time, and of environments
            order = np.argsort(when, kind="stable")
            returns, lens = returns[order], lens[order]
        return self._counted(steps, returns, lens, sum(rollout.report.broken for rollout in rollouts), seconds)

    def _results(self, method: str, *args: Any) -> list[Any]:
        """Calls a method of all collectors. One that is lost is replaced, and called again."""
        calls = [worker.call(method, *args) for worker in self._workers]
        return [self._result(number, call, method, args) for number, call in enumerate(calls)]

    def _result(self, number: int, call: Call, method: str, args: tuple[Any, ...]) -> Any:
        for _ in range(RESTARTS):
            try:
                return call.result()
            except ActorLost:
                self._warn(number, ": another one takes its place, and begins new episodes")
                self._workers[number] = self._restart(number, self.restarts)
                call = self._workers[number].call(method, *args)
        raise RuntimeError(f"collector {number} has ended {RESTARTS} times in a row")

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of all collectors for a checkpoint."""
        counters = {name: getattr(self, name) for name in COUNTERS}
        return {"counters": counters, "collectors": self._results("state")}

    def load_state_dict(self, state: dict[str, Any]) -> dict[int, str]:
        """Restores a state.

        :param state: the return value of :meth:`state_dict`, of as many collectors.
        :return: the environments that begin new episodes, and why.
        :raises ValueError: if it is the state of another number of collectors.
        """
        share = self.env_num // len(self._workers)
        return self._restored(state, self._workers, range(0, self.env_num, share))
