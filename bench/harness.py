"""Measures libraries, each in its own process, in interleaved rounds, so that disturbances affect all alike.

A :class:`Case` is one row of the table: an operation of a scenario, the libraries that can do it, and the bars for
rlfast. :class:`Bench` starts a worker for each library, lets them prepare the scenario, and measures them in the order
A B C A B C ...
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.libraries import LIBRARIES, RLFAST, Process, Unavailable


@dataclass(frozen=True)
class Bar:
    """A bar for rlfast: ``times`` as fast (small) as the best of ``against``, or ``at_most`` seconds or bytes."""

    against: tuple[str, ...] = ()
    times: float = 1.0
    at_most: float | None = None

    def judge(self, medians: Mapping[str, float], own: str = RLFAST) -> tuple[float, bool] | None:
        """Returns the measured factor (or value) and whether it is enough; None if a needed library was not measured.

        :param own: the name of rlfast among the libraries.
        """
        ours = medians.get(own)
        theirs = [medians[name] for name in self.against if name in medians]
        if ours is None:
            return None
        if self.at_most is not None:
            return ours, ours <= self.at_most
        return (min(theirs) / ours, min(theirs) / ours >= self.times) if theirs else None


@dataclass(frozen=True, eq=False)
class Case:
    """One row of the table. Cases with equal scenario, parameters and threads are prepared once and measured together.

    :param operation: the operation to measure; ``own_operation`` is rlfast's, if it has one that others do not offer.
    :param quick: parameters that differ under ``--quick``; None leaves the case out there.
    :param row_bytes: bytes of a row in the largest library; a library is left out if memory does not suffice.
    :param unit: "s" for seconds of an operation, "B" for bytes of resident memory of a row.
    :param rounds: number of rounds of one operation each, without warm-up, for operations that take minutes; 0 for the
        rounds of other cases.
    """

    name: str
    scenario: str
    operation: str
    params: Mapping[str, Any]
    libraries: tuple[str, ...]
    bars: tuple[Bar, ...] = ()
    quick: Mapping[str, Any] | None = field(default_factory=dict)
    threads: int = 1
    row_bytes: int = 0
    unit: str = "s"
    own_operation: str = ""
    rounds: int = 0

    def __str__(self) -> str:
        return self.name

    @property
    def ours(self) -> str:
        """The name of rlfast among the libraries, the first one."""
        return self.libraries[0]

    @property
    def preparation(self) -> tuple[Any, ...]:
        """A key that is equal for cases with one preparation."""
        return (self.scenario, sorted(self.params.items()), self.threads, self.unit)

    def parameters(self, quick: bool) -> dict[str, Any]:
        return {**self.params, **(self.quick or {})} if quick else dict(self.params)


@dataclass(frozen=True)
class Measurement:
    """Samples in seconds of an operation (or bytes of a row), one for each round."""

    samples: Sequence[float]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def spread(self) -> float:
        """Half the interquartile range of the samples, divided by the median."""
        if len(self.samples) < 3:
            return 0.0
        low, _, high = statistics.quantiles(self.samples, n=4)
        return (high - low) / 2 / self.median


@dataclass
class Effort:
    """The number of rounds, their approximate duration in seconds, and the clock of :mod:`time`."""

    rounds: int
    seconds: float
    quick: bool = False
    clock: str = "perf_counter"


class Bench:
    """The workers and results of one session.

    :ivar seconds: the time to prepare and measure a case and all cases with the same preparation.
    """

    def __init__(self, effort: Effort) -> None:
        self.effort = effort
        self.selected: dict[Case, list[str]] = {}
        self.results: dict[Case, dict[str, Measurement]] = {}
        self.unavailable: dict[Case, dict[str, str]] = {}
        self.versions: dict[str, dict[str, str]] = {}
        self.seconds: dict[Case, float] = {}
        self._processes: dict[str, Process] = {}

    def select(self, case: Case, library: str) -> None:
        """Registers a library for a case, so that it is measured together with the others."""
        self.selected.setdefault(case, []).append(library)

    def result(self, case: Case, library: str) -> Measurement:
        """Returns the result of a library.

        :raises Unavailable: if the library could not be measured.
        """
        if case not in self.results:
            self._measure_scenario(case)
        if library in self.unavailable[case]:
            raise Unavailable(self.unavailable[case][library])
        return self.results[case][library]

    def close(self) -> None:
        for process in self._processes.values():
            process.close()
        self._processes.clear()

    def _measure_scenario(self, asked: Case) -> None:
        start = time.monotonic()
        cases = [case for case in self.selected if case.preparation == asked.preparation]
        names = [name for name in LIBRARIES if any(name in self.selected[case] for case in cases)]
        for case in cases:
            self.results[case], self.unavailable[case] = {}, {}
        if asked.unit == "B":
            self.close()  # memory is measured in new processes
        ready = list(self._prepare(asked, names, cases))
        for case in cases:
            self._measure(case, [name for name in ready if name in self.selected[case] and name in self._processes])
        if asked.unit == "B":
            self.close()
        self.seconds[asked] = time.monotonic() - start

    def _prepare(self, asked: Case, names: Sequence[str], cases: Sequence[Case]) -> Iterator[str]:
        """Starts all workers at once, as imports take seconds; then they prepare the scenario one after the other."""
        for name in names:
            with self._excusing(name, cases):
                self._start(name, asked.threads)
        for name in list(self._processes):
            with self._excusing(name, cases):
                self.versions[name] = self._processes[name].versions
                self._processes[name].ask("forget")
        params = asked.parameters(self.effort.quick)
        for name in [name for name in names if name in self._processes]:
            with self._excusing(name, cases):
                require_memory(asked.row_bytes * params.get("rows", 0))
                self._processes[name].ask("setup", asked.scenario, params)
                yield name

    def _start(self, name: str, threads: int) -> None:
        if name in self._processes and self._processes[name].threads != threads:
            self._processes.pop(name).close()
        if name not in self._processes:
            self._processes[name] = Process(name, threads, self.effort.clock)

    @contextmanager
    def _excusing(self, name: str, cases: Sequence[Case]) -> Iterator[None]:
        """Records a library that cannot take part, and continues without it."""
        try:
            yield
        except Unavailable as reason:
            for case in [case for case in cases if name in self.selected[case]]:
                self.unavailable[case][name] = str(reason)
            if name in self._processes and not self._processes[name].alive:
                self._processes.pop(name).close()

    def _measure(self, case: Case, names: Sequence[str]) -> None:
        if case.unit == "B":
            rows = case.parameters(self.effort.quick)["rows"]
            for name in names:
                with self._excusing(name, [case]):
                    self.results[case][name] = Measurement([self._processes[name].ask("growth", case.operation) / rows])
            return
        counts = {}
        for name in names:
            with self._excusing(name, [case]):
                counts[name] = 1 if case.rounds else self._calibrate(case, name)
        samples: dict[str, list[float]] = {name: [] for name in counts}
        for _ in range(case.rounds or self.effort.rounds):
            for name in [name for name in counts if name not in self.unavailable[case]]:
                with self._excusing(name, [case]):
                    samples[name].append(self._run(case, name, counts[name]) / counts[name])
        self.results[case] = {name: Measurement(samples[name]) for name in counts if name not in self.unavailable[case]}

    def _run(self, case: Case, name: str, count: int) -> float:
        operation = (name == case.ours and case.own_operation) or case.operation
        seconds: float = self._processes[name].ask("run", operation, count)
        return seconds

    def _calibrate(self, case: Case, name: str) -> int:
        """Returns the number of repetitions that fill a round. It runs for about a round, and so warms up."""
        count = 1
        self._run(case, name, 1)
        while (seconds := self._run(case, name, count)) < self.effort.seconds / 2:
            count = max(2 * count, min(100 * count, int(count * self.effort.seconds / 2 / seconds)))
        return max(1, round(count * self.effort.seconds / seconds))


def require_memory(bytes_wanted: int) -> None:
    """Checks that memory suffices, with 1 GiB to spare.

    :raises Unavailable: if it does not.
    """
    with Path("/proc/meminfo").open() as meminfo:
        free = next(int(line.split()[1]) for line in meminfo if line.startswith("MemAvailable")) * 1024
    if bytes_wanted and free < bytes_wanted + 2**30:
        raise Unavailable(f"needs {(bytes_wanted + 2**30) / 1e9:.1f} GB of memory, {free / 1e9:.1f} GB are free")
