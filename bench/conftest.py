"""Options of pytest, the fixture that measures, and the table at the end."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import report
from bench.harness import Bench, Case, Effort
from bench.libraries import LIBRARIES, Unavailable

collect_ignore_glob = ["peers/*"]  # drivers import libraries that this interpreter may not have
QUICK = Effort(rounds=7, seconds=0.02, quick=True)
NOT_QUICK = {"tianshou2"}
FULL = Effort(rounds=9, seconds=0.1)
BENCH = pytest.StashKey[Bench]()


class Clock:
    """A timer for pytest-benchmark that advances only by the seconds that a worker has reported."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


CLOCK = Clock()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("rlfast benchmarks")
    group.addoption("--quick", action="store_true", help="short rounds and smaller buffers: minutes, for a first look")
    group.addoption(
        "--cpu-time", action="store_true", help="for a busy machine: time on the processor (one thread only)"
    )
    group.addoption("--rounds", type=int, help="measurements of each library in each case")
    group.addoption("--libraries", help=f"comma-separated, of: {', '.join(LIBRARIES)}")
    group.addoption(
        "--record", nargs="?", const="", metavar="FILE", help="write JSON (default: bench/results/<date>.json)"
    )


def pytest_configure(config: pytest.Config) -> None:
    effort = QUICK if config.getoption("--quick") else FULL
    rounds = config.getoption("--rounds") or effort.rounds
    clock = "process_time" if config.getoption("--cpu-time") else effort.clock
    config.addinivalue_line("markers", "timeout(seconds): of pytest-timeout, where that is installed")
    config.stash[BENCH] = Bench(replace(effort, rounds=rounds, clock=clock))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrizes tests by ``case`` and ``library`` over ``CASES`` of the module."""
    if {"case", "library"} <= set(metafunc.fixturenames):
        chosen = metafunc.config.getoption("--libraries")
        quick = metafunc.config.getoption("--quick")
        wanted = set(chosen.split(",")) if chosen else set(LIBRARIES) - (NOT_QUICK if quick else set())
        if unknown := wanted - set(LIBRARIES):
            raise pytest.UsageError(f"--libraries: no such library: {', '.join(sorted(unknown))}")
        cases = [case for case in metafunc.module.CASES if not quick or case.quick is not None]
        pairs = [(case, name) for case in cases for name in case.libraries if name in wanted]
        metafunc.parametrize(("case", "library"), pairs, ids=[f"{case.name}-{name}" for case, name in pairs])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.timeout(0))
        item.add_marker(pytest.mark.benchmark(timer=CLOCK))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Registers the selected libraries for the measurement of their cases."""
    for item in session.items:
        params: dict[str, Any] = (
            item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        )
        if isinstance(params.get("case"), Case):
            session.config.stash[BENCH].select(params["case"], params["library"])


@pytest.fixture
def measure(benchmark: BenchmarkFixture, request: pytest.FixtureRequest) -> Callable[[Case, str], None]:
    """Measures a case with all its libraries, and reports the rounds of one library as this test's benchmark."""

    def measured(case: Case, library: str) -> None:
        bench = request.config.stash[BENCH]
        try:
            result = bench.result(case, library)
        except Unavailable as reason:
            pytest.skip(str(reason))
        samples = iter(result.samples)

        def replay() -> None:
            CLOCK.now += next(samples)

        benchmark.group = case.name
        benchmark.extra_info.update(library=library, unit=case.unit, versions=bench.versions[library])
        benchmark.pedantic(replay, rounds=len(result.samples))

    return measured


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[BENCH].close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    bench = config.stash[BENCH]
    if not bench.results:
        return
    terminalreporter.section("rlfast and its peers")
    for line in report.table(bench):
        terminalreporter.write_line(line)
    for line in report.left_out(bench):
        terminalreporter.write_line(line)
    terminalreporter.write_line(f"(in brackets: how many times rlfast's time) bars missed: {report.missed(bench)}")
    terminalreporter.write_line(report.effort(bench))
    chosen = config.getoption("--record")
    if chosen is not None:
        today = datetime.datetime.now(datetime.UTC).date()
        path = Path(chosen) if chosen else Path(__file__).parent / "results" / f"{today}.json"
        path.write_text(json.dumps(report.as_json(bench), indent=1) + "\n")
        terminalreporter.write_line(f"written: {path}")
