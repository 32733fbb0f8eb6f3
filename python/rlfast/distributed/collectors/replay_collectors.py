"""Collectors that fill the shards of a replay buffer while the learner learns."""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlfast.data.stats import CollectStats
from rlfast.distributed.cluster.actors import Actor, ActorLost, Call, Cluster
from rlfast.distributed.collectors.base import COUNTERS, RESTARTS, Collectors
from rlfast.distributed.collectors.collector_worker import Order, Report
from rlfast.distributed.collectors.weights import Broadcast
from rlfast.distributed.replay.rate_limiter import RateLimiter
from rlfast.distributed.replay.sharded_buffer import ShardedBuffer
from rlfast.experiment.config import RunWarning

_DEPTH = 2
"""Orders of a collector at a time: the second waits for the first in its queue, so that it need not wait for us."""


class _Given(NamedTuple):
    """An order that was given."""

    steps: int
    call: Call
    shard: Actor
    """Where the rows go."""


@dataclass
class Member:
    """A collector, as the learner sees it."""

    number: int
    envs: int
    shard: int
    """The shard that gets its rows."""
    first_ring: int
    """The number of the ring there of its first environment."""
    actor: Actor
    orders: deque[_Given] = field(default_factory=deque)
    """Its orders that have not ended."""
    failures: int = 0
    """How often it has ended since it last did an order."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How far collectors go."""

    chunk: int
    """Environment steps of an order."""
    budget: int
    """Environment steps of the whole run."""
    batch_size: int
    """Rows of a gradient step, of all learners together."""


class ReplayCollectors(Collectors):
    """Several collectors as the one collector of a trainer.

    :meth:`collect` returns as soon as the steps that it was asked for have arrived in the shards. Meanwhile the
    collectors continue as far as the rate limiter lets them, up to the steps of the run.

    :param cluster: where the collectors are.
    :param members: the collectors, attached to their shards.
    :param buffer: the shards.
    :param limiter: says how many rows may be inserted.
    :param broadcast: shares the weights.
    :param pace: how far they go.
    :param restart: starts a collector, by its number and the number of restarts so far.
    :param restart_shard: starts a shard, by its number.
    :param on_close: called when the collectors are closed; None (default) for nothing.
    """

    def __init__(
        self,
        cluster: Cluster,
        members: Sequence[Member],
        buffer: ShardedBuffer,
        limiter: RateLimiter,
        broadcast: Broadcast,
        pace: Pace,
        restart: Callable[[int, int], Actor],
        restart_shard: Callable[[int, int], Actor],
        on_close: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(cluster, broadcast)
        self._members = [*members]
        self._restart, self._restart_shard, self._on_close = restart, restart_shard, on_close
        self.buffer, self.limiter, self._pace = buffer, limiter, pace
        buffer.supervise(on_lost=self._replace_shard, on_empty=self._refill)
        self.env_num = sum(member.envs for member in self._members)
        self._granted = self._arrived = self._sampled = 0
        self._reports: list[Report] = []
        self.shards_lost = 0
        self.staleness: deque[int] = deque(maxlen=100)
        """Gradient steps that the newest reports' weights had missed when their rows arrived."""

    @property
    def in_flight(self) -> int:
        """Environment steps that were ordered and have not arrived."""
        return sum(order.steps for member in self._members for order in member.orders)

    @property
    def orders(self) -> int:
        """Number of orders that have not ended."""
        return sum(len(member.orders) for member in self._members)

    def figures(self) -> dict[str, float]:
        """Returns what ``rlfast status`` shows: ratio, age of the weights, and lengths of queues."""
        stale = self.staleness or [0]
        return {
            "samples_per_insert": self.limiter.ratio,
            "samples_per_insert_wanted": self.limiter.samples_per_insert,
            "staleness_mean": float(np.mean(stale)),
            "staleness_max": float(max(stale)),
            "orders_in_flight": float(self.orders),
            "steps_in_flight": float(self.in_flight),
            "steps_waiting": float(self._arrived),
            "rows": float(len(self.buffer)),
            **super().figures(),
            "shards_lost": float(self.shards_lost),
        }

    # -- collecting --------------------------------------------------------------------------------------------------

    def collect(
        self,
        n_step: int | None = None,
        n_episode: int | None = None,
        random: bool = False,
        *,
        exact: bool = True,  # noqa: ARG002 (it always is)
    ) -> CollectStats:
        """Waits until a number of environment steps have arrived.

        :param n_step: the number; further steps count in the next call.
        :param n_episode: must be None: the length of episodes is not known in advance.
        :param random: whether actions are random. Then the collectors stop after these steps.
        :param exact: ignored: the number is always exact.
        :return: the statistics of the steps, and of the episodes whose end has arrived since the last call.
        :raises TypeError: if ``n_step`` is not given.
        :raises RuntimeError: if the steps of the run have all been ordered, or a collector ends again and again.
        """
        steps = self._steps_of(n_step, n_episode)
        start = time.perf_counter()
        self._count_samples()
        while self._arrived < steps:
            self._dispatch(steps - self._arrived, random=random)
            if not self.orders:
                raise RuntimeError(f"no step is left of the {self._pace.budget} of the run: {steps} were asked for")
            self._receive()
        self._arrived -= steps
        if not random:
            self._dispatch(0, random=False)
        return self._stats(steps, time.perf_counter() - start)

    def _count_samples(self) -> None:
        samples = self.gradient_step * self._pace.batch_size
        self.limiter.sample(samples - self._sampled)
        self._sampled = samples

    def _dispatch(self, needed: int, *, random: bool) -> None:
        """Orders steps, as many as may be taken.

        :param needed: steps that the learner waits for, which are ordered in any case.
        :param random: whether actions are random; then no other steps are ordered.
        """
        for depth in range(_DEPTH):
            for member in self._members:
                if len(member.orders) > depth:
                    continue
                steps = min(max(self._pace.chunk // member.envs, 1) * member.envs, self._pace.budget - self._granted)
                if random:
                    steps = min(steps, needed - self.in_flight)
                elif self.in_flight >= needed and steps > self.limiter.insertable:
                    return
                if steps <= 0:
                    return
                self._order(member, steps, random)

    def _order(self, member: Member, steps: int, random: bool) -> None:
        order = Order(steps, random, self._granted, self._broadcast.newest(self.gradient_step))
        self._granted += steps
        self.limiter.insert(steps)
        call = member.actor.call("collect", order)
        member.orders.append(_Given(steps, call, self.buffer.shards[member.shard]))

    def _receive(self) -> None:
        """Waits for a report, and takes all that are there."""
        given = [order.call for member in self._members for order in member.orders]
        done = set(map(id, self._cluster.wait(given)))
        for member in self._members:
            while member.orders and id(member.orders[0].call) in done:
                self._take(member)

    def _take(self, member: Member) -> None:
        try:
            report: Report = member.orders[0].call.result()
        except ActorLost as error:
            self._replace(member, error)
            return
        order = member.orders.popleft()
        member.failures = 0
        self._arrived += report.steps
        self._reports.append(report)
        self.staleness.append(self.gradient_step - report.version)
        if self.buffer.shards[member.shard] is not order.shard:  # it was replaced since
            return
        if report.level is None:
            self.buffer.lose(member.shard)
        else:
            self.buffer.note(member.shard, report.level)

    def _stats(self, steps: int, seconds: float) -> CollectStats:
        reports, self._reports = self._reports, []
        return self._counted(steps, *_episodes(reports), sum(report.broken for report in reports), seconds)

    # -- losses ------------------------------------------------------------------------------------------------------

    def _replace(self, member: Member, error: ActorLost) -> None:
        """Starts a collector anew. The steps that it had not reported are ordered again."""
        member.failures += 1
        if member.failures > RESTARTS:
            raise RuntimeError(f"collector {member.number} has ended {member.failures} times in a row") from error
        lost = sum(order.steps for order in member.orders)
        self._granted -= lost
        self.limiter.insert(-lost)
        member.orders.clear()
        self._warn(member.number, f", and {lost} steps with it: another one takes its place")
        member.actor = self._restart(member.number, self.restarts)
        self._attach(member, self.buffer.shards[member.shard])

    def _replace_shard(self, number: int) -> Actor:
        """Starts a shard anew, which is empty, and sends the rows of its collectors there."""
        self.shards_lost += 1
        rows = self.buffer.rows_of(number)
        warnings.warn(
            f"replay shard {number} was lost, and its {rows:,} rows with it: an empty one takes its place",
            RunWarning,
            stacklevel=2,
        )
        shard = self._restart_shard(number, self.shards_lost)
        for member in self._members:
            if member.shard == number:
                self._attach(member, shard)
        return shard

    @staticmethod
    def _attach(member: Member, shard: Actor) -> None:
        member.actor.call("attach", shard, member.first_ring, True)

    def _refill(self) -> None:
        """Waits until a shard has rows again, after all were lost."""
        while not self.buffer.top.mass > 0.0:
            self._dispatch(0 if self.orders else 1, random=False)
            if not self.orders:
                raise RuntimeError("all replay shards were lost, and no step of the run is left to fill new ones")
            self._receive()

    # -- state -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of all collectors for a checkpoint, once what they were ordered to do has arrived."""
        states: list[dict[str, Any]] = []
        while len(states) < len(self._members):
            while self.orders:
                self._receive()
            try:
                states = [call.result() for call in [member.actor.call("state") for member in self._members]]
            except ActorLost as error:
                self._replace_lost(error)
        returns, lens = _episodes(self._reports)
        return {
            "counters": {name: getattr(self, name) for name in _COUNTERS},
            "limiter": self.limiter.state_dict(),
            "returns": returns,
            "lens": lens,
            "collectors": states,
        }

    def _replace_lost(self, error: ActorLost) -> None:
        for member in self._members:
            try:
                member.actor.call("ready").result()
            except ActorLost:
                self._replace(member, error)

    def load_state_dict(self, state: dict[str, Any]) -> dict[int, str]:
        """Restores a state. The shards are restored separately.

        :param state: the return value of :meth:`state_dict`, of as many collectors.
        :return: the environments that begin new episodes, and why.
        :raises ValueError: if it is the state of another number of collectors.
        """
        envs = [member.envs for member in self._members]
        lost = self._restored(state, [member.actor for member in self._members], accumulate([0, *envs[:-1]]))
        self.limiter.load_state_dict(state["limiter"])
        report = Report(0, state["returns"], state["lens"], 0, 0, None, 0.0)
        self._reports = [report] if len(report.lens) else []
        return lost

    def close(self) -> None:
        """Ends the collectors and the shards."""
        if not self.is_closed and self._on_close is not None:
            self._on_close()
        super().close()


_COUNTERS = ("gradient_step", "_granted", "_arrived", "_sampled", *COUNTERS)


def _episodes(reports: Sequence[Report]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Returns the returns and lengths of the episodes in reports."""
    returns = np.concatenate([np.zeros(0), *(report.returns for report in reports)])
    return returns, np.concatenate([np.zeros(0, np.int64), *(report.lens for report in reports)])
