"""How far runs with many collectors go: a simulation with measured costs, and the real thing beside it.

python -m bench.scaling measure    # the costs of this machine, as JSON
python -m bench.scaling            # the tables of docs/scaling.md, from the costs below
python -m bench.scaling real       # runs with 1, 2 and 4 collectors on Ray, beside the simulation of this machine
"""

from __future__ import annotations

import heapq
import json
import os
import pickle
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Costs:
    """What one row costs: seconds of a core, and bytes on the wire."""

    step: float
    """Seconds of a collector for one environment step, with acting."""
    row_bytes: float
    """Bytes of a row from a collector to a shard."""
    insert: float
    """Seconds of a shard for inserting a row."""
    sample: float
    """Seconds of a shard for drawing a row, and of packing it."""
    sampled_bytes: float
    """Bytes of a row from a shard to the learner."""
    take: float
    """Seconds of the learner for unpacking a row."""
    update: float
    """Seconds of the learner for a gradient step."""
    weights_bytes: float
    """Bytes of the weights that act."""
    message: float = 198e-6
    """Seconds of a core for sending or receiving a message of Ray."""


@dataclass(frozen=True)
class Layout:
    """How a run is spread over machines."""

    collectors: int
    shards: int
    batch_size: int
    updates_per_step: float
    chunk: int = 64
    weights_every: int = 16
    ahead: int = 0
    """Environment steps that collectors may be ahead; 0 for the default of a run."""
    link: float = 1.25e9
    """Bytes a second of the link of each shard and of the learner; collectors have one for each eight."""
    latency: float = 100e-6
    """Seconds from one machine to another."""
    cores: int = 0
    """Cores that all processes share, as on one machine; 0 if each process has one of its own."""
    learning: bool = True
    """Whether there is a learner that the collectors wait for."""


class Server:
    """What does one job after the other: a link, or a core. ``units`` do as many at once."""

    def __init__(self, simulation: Simulation, name: str, units: int = 1) -> None:
        self.simulation, self.name, self.busy = simulation, name, 0.0
        self._free, self._queue = units, deque[tuple[float, Callable[[], None]]]()
        simulation.servers.append(self)

    def do(self, seconds: float, then: Callable[[], None]) -> None:
        self._queue.append((seconds, then))
        self._begin()

    def _begin(self) -> None:
        while self._free and self._queue:
            self._free -= 1
            seconds, then = self._queue.popleft()
            self.busy += seconds
            self.simulation.after(seconds, lambda then=then: self._end(then))

    def _end(self, then: Callable[[], None]) -> None:
        self._free += 1
        then()
        self._begin()


class Simulation:
    """Collectors, shards and a learner, by the rules of :mod:`rlfast.distributed`."""

    def __init__(self, costs: Costs, layout: Layout) -> None:
        self.costs, self.layout = costs, layout
        self.now, self._events, self._number = 0.0, list[Any](), 0
        self.servers: list[Server] = []
        self.steps = self.granted = self.updates = self.messages = 0
        shared = Server(self, "cores", layout.cores) if layout.cores else None
        self.collectors = [shared or Server(self, "collector") for _ in range(layout.collectors)]
        self.shards = [shared or Server(self, "shard") for _ in range(layout.shards)]
        self.learner = shared or Server(self, "learner")
        self.collector_links = [Server(self, "collectors' link") for _ in range(-(-layout.collectors // 8))]
        self.shard_links = [Server(self, "shard's link in") for _ in range(layout.shards)]
        self.shard_links_out = [Server(self, "shard's link out") for _ in range(layout.shards)]
        self.learner_link, self.learner_out = Server(self, "learner's link in"), Server(self, "learner's link out")
        self.ahead = layout.ahead or 3 * layout.chunk * layout.collectors
        self._idle: deque[int] = deque()
        self._ready, self._parts, self._learning = 0, 0, False
        self.version = 0
        self._versions = [0] * len(self.collector_links)
        self._coming: dict[tuple[int, int], list[Callable[[], None]]] = {}
        self._since, self._counts = 0.0, (0, 0, 0)

    def after(self, seconds: float, then: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (self.now + seconds, self._number, then))

    def run(self, seconds: float) -> Simulation:
        """Runs for a time, and counts the second half of it, when queues have filled."""
        for collector in range(self.layout.collectors):
            self._order(collector)
        if self.layout.learning:
            self._request()
        self._until(seconds / 2)
        self._since, self._counts = self.now, (self.steps, self.updates, self.messages)
        for server in self.servers:
            server.busy = 0.0
        self._until(seconds)
        return self

    def _until(self, seconds: float) -> None:
        while self._events and self._events[0][0] <= seconds:
            self.now, _, then = heapq.heappop(self._events)
            then()
        self.now = seconds

    @property
    def rates(self) -> tuple[float, float, float]:
        """Environment steps, gradient steps and messages a second."""
        counts = (self.steps, self.updates, self.messages)
        steps, updates, messages = (
            (now - before) / (self.now - self._since) for now, before in zip(counts, self._counts, strict=True)
        )
        return steps, updates, messages

    # -- a collector: step, send, wait for the shard, report ---------------------------------------------------------

    def _order(self, collector: int) -> None:
        learned = self.updates / self.layout.updates_per_step
        if self.layout.learning and self.granted + self.layout.chunk - learned > self.ahead:
            self._idle.append(collector)
            return
        self.granted += self.layout.chunk
        self.messages += 1
        work = self.layout.chunk * self.costs.step + 2 * self.costs.message
        if self.updates - self.version >= self.layout.weights_every:
            self.version = self.updates
        self._with_weights(collector // 8, lambda: self.collectors[collector].do(work, lambda: self._send(collector)))

    def _with_weights(self, machine: int, then: Callable[[], None]) -> None:
        """Goes on once the newest weights are on a machine, to which they travel once."""
        version = self.version
        if self._versions[machine] >= version:
            then()
        elif (machine, version) in self._coming:
            self._coming[machine, version].append(then)
        else:
            self._coming[machine, version] = [then]
            self.messages += 1
            self.learner_out.do(self.costs.weights_bytes / self.layout.link, lambda: self._came(machine, version))

    def _came(self, machine: int, version: int) -> None:
        self._versions[machine] = max(self._versions[machine], version)
        for then in self._coming.pop((machine, version)):
            then()

    def _send(self, collector: int) -> None:
        size, link = self.layout.chunk * self.costs.row_bytes, self.collector_links[collector // 8]
        shard = collector % self.layout.shards
        self.messages += 1
        link.do(
            size / self.layout.link,
            lambda: self.after(
                self.layout.latency,
                lambda: self.shard_links[shard].do(size / self.layout.link, lambda: self._insert(collector, shard)),
            ),
        )

    def _insert(self, collector: int, shard: int) -> None:
        work = self.layout.chunk * self.costs.insert + self.costs.message
        self.shards[shard].do(work, lambda: self.after(2 * self.layout.latency, lambda: self._arrived(collector)))

    def _arrived(self, collector: int) -> None:
        self.steps += self.layout.chunk
        self._learn()
        self.learner.do(self.costs.message, lambda: self._order(collector))

    # -- the learner: a batch is asked for while it learns from the one before ---------------------------------------

    def _request(self) -> None:
        rows = self.layout.batch_size / self.layout.shards
        self._parts = self.layout.shards
        for shard in range(self.layout.shards):
            self.messages += 1
            self.after(self.layout.latency, lambda shard=shard: self._draw(shard, rows))

    def _draw(self, shard: int, rows: float) -> None:
        size = rows * self.costs.sampled_bytes
        work = rows * self.costs.sample + self.costs.message
        link, out = self.learner_link, self.shard_links_out[shard]

        def sent() -> None:
            self.after(self.layout.latency, lambda: link.do(size / self.layout.link, self._part))

        self.shards[shard].do(work, lambda: out.do(size / self.layout.link, sent))

    def _part(self) -> None:
        self._parts -= 1
        if not self._parts:
            self._ready += 1
            self._learn()

    def _learn(self) -> None:
        owed = self.steps * self.layout.updates_per_step - self.updates
        if self._learning or not self._ready or owed < 1:
            return
        self._learning, self._ready = True, 0
        self._request()
        work = self.costs.update + self.layout.batch_size * self.costs.take + self.layout.shards * self.costs.message
        self.learner.do(work, self._learned)

    def _learned(self) -> None:
        self._learning = False
        self.updates += 1
        for _ in range(len(self._idle)):
            self._order(self._idle.popleft())
        self._learn()

    # -- results -----------------------------------------------------------------------------------------------------

    def load(self) -> dict[str, float]:
        """The share of its time that the busiest of each kind of server works."""
        units = {"cores": max(self.layout.cores, 1)}
        loads: dict[str, float] = {}
        for server in self.servers:
            share = server.busy / (self.now - self._since) / units.get(server.name, 1)
            loads[server.name] = max(loads.get(server.name, 0.0), min(share, 1.0))
        return loads

    def row(self) -> dict[str, Any]:
        (rate, updates, messages), costs = self.rates, self.costs
        loads = self.load()
        busiest = max(loads, key=lambda name: loads[name])
        return {
            "collectors": self.layout.collectors,
            "steps/s": rate,
            "updates/s": updates,
            "messages/s": messages,
            "MB/s inserted": rate * costs.row_bytes / 1e6,
            "MB/s sampled": updates * self.layout.batch_size * costs.sampled_bytes / 1e6,
            "MB/s weights": loads["learner's link out"] * self.layout.link / 1e6,
            "busiest": f"{busiest} ({loads[busiest]:.0%})",
        }


# -- measured costs --------------------------------------------------------------------------------------------------


def cheapest(work: Callable[[], Any], rounds: int = 7) -> float:
    """Seconds of a core that some work takes, at least."""
    seconds = []
    for _ in range(rounds):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    return min(seconds)


def measure(kind: str) -> Costs:
    """The costs of the parts of a run, each measured by itself in this process."""
    from rlfast.distributed.build import build
    from rlfast.distributed.collectors.weights import acting_weights
    from rlfast.experiment.algorithms import ALGORITHMS

    name, env, chunk = ("dqn", "ALE/Pong-v5", 64) if kind == "atari" else ("sac", "HalfCheetah-v5", 64)
    preset = ALGORITHMS[name].preset(env)
    config = replace(preset, ray="in-process", num_envs=8, collect_steps=8, buffer_size=20_000, eval_envs=1,
                     eval_episodes=1, compile=False)  # fmt: skip
    parts = build(config)
    try:
        collectors: Any = parts.train_collector
        collectors.collect(n_step=512, random=True)
        worker = next(a.target for a in collectors._cluster.actors if hasattr(a.target, "collector"))
        shard = collectors.buffer.shards[0].target
        size, fields = config.batch_size, dict[str, float]()

        def collect() -> None:
            worker.collector.reset_buffer(keep_statistics=True)
            worker.collector.collect(n_step=chunk)

        fields["step"] = cheapest(collect) / chunk
        sent = pickle.dumps(worker.collector.buffer, 5)
        fields["step"] += cheapest(lambda: pickle.dumps(worker.collector.buffer, 5)) / chunk
        fields["row_bytes"] = len(sent) / chunk
        fields["insert"] = cheapest(lambda: shard.insert(pickle.loads(sent), 0)) / chunk
        drawn = pickle.dumps(shard.sample(size), 5)
        fields["sample"] = cheapest(lambda: pickle.dumps(shard.sample(size), 5)) / size
        fields["sampled_bytes"] = len(drawn) / size
        fields["take"] = cheapest(lambda: pickle.loads(drawn)) / size
        parts.policy.train()
        fresh = cheapest(lambda: collectors.buffer.sample(size))
        update = cheapest(lambda: parts.policy.update(sample_size=size, buffer=collectors.buffer))
        fields["update"] = update - fresh
        fields["weights_bytes"] = sum(
            value.numel() * value.element_size() for value in acting_weights(parts.policy).values()
        )
    finally:
        parts.close()
    return Costs(**fields)


def measure_message(calls: int = 400) -> float:
    """Seconds of a core for sending a message of Ray, or receiving it."""
    import ray

    class Echo:
        def echo(self, value: Any) -> Any:
            return value

        def seconds(self) -> float:
            return time.process_time()

    ray.init(address="local", include_dashboard=False, configure_logging=False, log_to_driver=False)
    actor = ray.remote(Echo).options(num_cpus=0).remote()
    ray.get([actor.echo.remote(0) for _ in range(50)])
    there, here = ray.get(actor.seconds.remote()), time.process_time()
    for _ in range(calls // 20):
        ray.get([actor.echo.remote(0) for _ in range(20)])
    seconds = time.process_time() - here + ray.get(actor.seconds.remote()) - there
    ray.shutdown()
    return seconds / calls / 2  # a call is a message there and one back, and each is sent and received


# -- tables ----------------------------------------------------------------------------------------------------------

COSTS = {
    "Atari": Costs(
        step=296e-6, row_bytes=10_746, insert=18.1e-6, sample=27.3e-6, sampled_bytes=56_570, take=2.0e-6,
        update=33.2e-3, weights_bytes=6_748_824,
    ),
    "MuJoCo": Costs(
        step=46.1e-6, row_bytes=299, insert=3.6e-6, sample=0.24e-6, sampled_bytes=379, take=0.11e-6,
        update=5.9e-3, weights_bytes=293_936,
    ),
}  # fmt: skip
"""DQN on ``ALE/Pong-v5`` and SAC on ``HalfCheetah-v5``, as measured on an idle core of an AMD EPYC."""

ASSUMED_UPDATE = 1.5e-3
"""Seconds of a gradient step on an accelerator: assumed, not measured."""

LAYOUTS = {
    "Atari": Layout(1, 1, batch_size=32, updates_per_step=0.1),
    "MuJoCo": Layout(1, 1, batch_size=256, updates_per_step=1.0),
}


def tables(seconds: float = 20.0) -> dict[str, list[dict[str, Any]]]:
    """The rates with 1, 16 and 256 collectors: that nobody waits for, and at the ratio of a learner."""
    found = {}
    shards = {1: 1, 16: 1, 256: 8}
    for kind, layout in LAYOUTS.items():
        layouts = [replace(layout, collectors=n, shards=k) for n, k in shards.items()]
        alone = [Simulation(COSTS[kind], replace(one, learning=False)).run(seconds).row() for one in layouts]
        found[f"{kind}, collecting alone"] = [
            {name: value for name, value in row.items() if value != 0.0} for row in alone
        ]
        for update, what in ((COSTS[kind].update, "of this core"), (ASSUMED_UPDATE, "of 1.5 ms")):
            costs = replace(COSTS[kind], update=update)
            found[f"{kind}, gradient steps {what}"] = [Simulation(costs, one).run(seconds).row() for one in layouts]
    return found


def show(rows: list[dict[str, Any]]) -> str:
    """Rows as a table in Markdown."""
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for row in rows:
        cells = (f"{value:,.4g}" if isinstance(value, float) else str(value) for value in row.values())
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


# -- the real thing --------------------------------------------------------------------------------------------------


def processes() -> set[Path]:
    """The processes of this machine."""
    return set(Path("/proc").glob("[0-9]*"))


def core_seconds(names: tuple[bytes, ...], others: set[Path]) -> float:
    """Seconds of cores that processes with some names have taken so far, without ``others``."""
    total = 0.0
    for process in processes() - others:
        try:
            if (process / "cmdline").read_bytes().startswith(names):
                fields = (process / "stat").read_text().rpartition(")")[2].split()
                total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except OSError:  # it has ended
            continue
    return total


def run_for_real(collectors: int, folder: Path) -> dict[str, Any]:
    """Trains SAC on HalfCheetah on Ray, and returns its speed, and the seconds of cores that its processes took."""
    from rlfast.distributed.build import build
    from rlfast.distributed.learning.trainers import ReplayTrainer
    from rlfast.experiment import run as experiment
    from rlfast.experiment.algorithms import ALGORITHMS

    taken: dict[str, float] = {}
    step = ReplayTrainer.training_step

    others = processes()

    def seconds() -> float:
        return time.process_time() + core_seconds((b"ray::CollectorWorker", b"ray::Shard"), others)

    def timed(trainer: Any) -> Any:
        if trainer.gradient_step and not taken:
            taken.update(begin=time.perf_counter(), cpu=seconds(), steps=trainer.env_step)
        result = step(trainer)
        if trainer.env_step >= 4000 and "end" not in taken:
            taken.update(end=time.perf_counter(), cpu_end=seconds(), steps_end=trainer.env_step)
        return result

    ReplayTrainer.training_step = timed  # type: ignore[method-assign]
    try:
        preset = ALGORITHMS["sac"].preset("HalfCheetah-v5")
        experiment.train(
            replace(preset, ray="local", collectors=collectors, num_envs=8, collect_steps=64, updates_per_step=1 / 16,
                    start_steps=1000, max_steps=4096, eval_interval=4096, eval_envs=1, eval_episodes=1, compile=False,
                    progress=False, save_buffer=False, run_dir=folder),
            make_parts=build,
        )  # fmt: skip
    finally:
        ReplayTrainer.training_step = step  # type: ignore[method-assign]
    steps = taken["steps_end"] - taken["steps"]
    return {
        "collectors": collectors,
        "steps/s": steps / (taken["end"] - taken["begin"]),
        "core seconds a step": (taken["cpu_end"] - taken["cpu"]) / steps,
    }


def real() -> list[dict[str, Any]]:
    """Runs with 1, 2 and 4 collectors, beside the simulation of two cores."""
    rows = []
    for collectors in (1, 2, 4):
        layout = Layout(collectors, 1, batch_size=256, updates_per_step=1 / 16, cores=2, latency=1e-4)
        simulated = Simulation(COSTS["MuJoCo"], layout).run(20.0)
        with tempfile.TemporaryDirectory() as folder:
            measured = run_for_real(collectors, Path(folder) / "run")
        rate = simulated.rates[0]
        cores = simulated.load()["cores"] * layout.cores / rate
        rows.append(measured | {"simulated steps/s": rate, "simulated core seconds": cores})
    return rows


def main(arguments: list[str]) -> None:
    if arguments == ["measure"]:
        print(json.dumps({kind: asdict(measure(kind)) for kind in ("atari", "mujoco")}, indent=2))
        print("message", measure_message())
    elif arguments == ["real"]:
        print(show(real()))
    else:
        for title, rows in tables().items():
            print(f"\n**{title}**\n\n{show(rows)}")


if __name__ == "__main__":
    main(sys.argv[1:])
