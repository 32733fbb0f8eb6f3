"""Collectors of roll-outs, which together do what one collector with all environments does, to the bit."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast.data import VectorReplayBuffer
from rlfast.data.stats import CollectStats
from rlfast.distributed.cluster.actors import Actor, ActorLost, Call, Cluster
from rlfast.distributed.collectors.rollout_worker import Rollout, RolloutOrder, Streams
from rlfast.distributed.collectors.weights import Broadcast
from rlfast.experiment.config import RunWarning
from rlfast.policy import BasePolicy

_RESTARTS = 5
"""How often in a row a collector may end before the run fails."""

_COUNTERS = ("collect_step", "collect_episode", "collect_time")


class RolloutCollectors:
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
        self._cluster, self._workers, self._restart = cluster, [*workers], restart
        self.buffer, self._policy = buffer, policy
        self._broadcast = Broadcast(cluster, policy)
        self.env_num = buffer.buffer_num
        self.is_closed = False
        self.gradient_step = 0
        """Gradient steps of the learner so far, which the trainer keeps up to date."""
        self.restarts = 0
        self.reset_stat()

    def reset_stat(self) -> None:
        """Sets ``collect_step``, ``collect_episode`` and ``collect_time`` to zero."""
        self.collect_step, self.collect_episode, self.collect_time = 0, 0, 0.0

    def reset_buffer(self, keep_statistics: bool = False) -> None:
        """Empties the buffer.

        :param keep_statistics: as in :meth:`rlfast.data.ReplayBuffer.reset`.
        """
        self.buffer.reset(keep_statistics=keep_statistics)

    def figures(self) -> dict[str, float]:
        """Returns what ``rlfast status`` shows."""
        return {"staleness_mean": 0.0, "staleness_max": 0.0, "collectors_lost": float(self.restarts)}

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
        if n_step is None or n_episode is not None:
            raise TypeError(f"several collectors count steps: give n_step, got n_step={n_step}, n_episode={n_episode}")
        if n_step % self.env_num:
            raise ValueError(f"n_step={n_step} must be a multiple of the {self.env_num} environments")
        begin = time.perf_counter()
        streams, weights = Streams.of(self._policy), self._broadcast.newest(self.gradient_step)
        order = RolloutOrder(n_step // len(self._workers), self.collect_step, weights, streams)
        rollouts = self._results("roll_out", order)
        if not all(one.streams.equals(rollouts[0].streams) for one in rollouts):
            raise RuntimeError(
                "collectors have drawn different numbers of random numbers: this policy cannot be distributed"
            )
        rollouts[0].streams.restore(self._policy)
        return self._stats(n_step, self._add(rollouts), rollouts, time.perf_counter() - begin)

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
        self.collect_step += steps
        self.collect_episode += len(lens)
        self.collect_time += seconds
        return CollectStats.with_autogenerated_stats(
            returns=returns,
            lens=lens,
            n_collected_episodes=len(lens),
            n_collected_steps=steps,
            n_broken_episodes=sum(rollout.report.broken for rollout in rollouts),
            collect_time=seconds,
            collect_speed=steps / max(seconds, 1e-9),
        )

    def _results(self, method: str, *args: Any) -> list[Any]:
        """Calls a method of all collectors. One that is lost is replaced, and called again."""
        calls = [worker.call(method, *args) for worker in self._workers]
        return [self._result(number, call, method, args) for number, call in enumerate(calls)]

    def _result(self, number: int, call: Call, method: str, args: tuple[Any, ...]) -> Any:
        for _ in range(_RESTARTS):
            try:
                return call.result()
            except ActorLost:
                self.restarts += 1
                warnings.warn(
                    f"collector {number} was lost: another one takes its place, and begins new episodes",
                    RunWarning,
                    stacklevel=2,
                )
                self._workers[number] = self._restart(number, self.restarts)
                call = self._workers[number].call(method, *args)
        raise RuntimeError(f"collector {number} has ended {_RESTARTS} times in a row")

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of all collectors for a checkpoint."""
        counters = {name: getattr(self, name) for name in _COUNTERS}
        return {"counters": counters, "collectors": self._results("state")}

    def load_state_dict(self, state: dict[str, Any]) -> dict[int, str]:
        """Restores a state.

        :param state: the return value of :meth:`state_dict`, of as many collectors.
        :return: the environments that begin new episodes, and why.
        :raises ValueError: if it is the state of another number of collectors.
        """
        if len(state["collectors"]) != len(self._workers):
            raise ValueError(f"the state is of {len(state['collectors'])} collectors, not of {len(self._workers)}")
        for name in _COUNTERS:
            setattr(self, name, state["counters"][name])
        self._broadcast.forget()
        share, lost = self.env_num // len(self._workers), {}
        for number, (worker, own) in enumerate(zip(self._workers, state["collectors"], strict=True)):
            missing: dict[int, str] = worker.call("restore", own).result()
            lost.update({number * share + place: why for place, why in missing.items()})
        return lost

    def close(self) -> None:
        """Ends the collectors."""
        if not self.is_closed:
            self.is_closed = True
            self._cluster.close()
