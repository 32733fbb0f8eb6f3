"""A plugin of pytest that tries mutants: collects the tests once, and forks the process for each mutant.

No test has run in the process that is forked: what Hypothesis, PyTorch and the fixtures keep is new for each mutant. It
reads the names of the mutants from ``$MUTATION_TASKS``, and appends what became of each to ``$MUTATION_RESULTS``.
"""

from __future__ import annotations

import gc
import importlib
import itertools
import json
import os
import signal
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .swap import ACTIVE, activate, functions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import CodeType, FrameType

    import pytest

SPARE = 5  # a test is stuck when it computes for ten times the seconds that it took, and these, or takes six times that
QUICK = 1.0  # seconds: after the tests that take these together, all other mutants come first
FAILED = 1
called: set[CodeType] = set()  # what has been called since this was last emptied
failures: list[str] = []  # of the tests of this process


def _note_call(frame: FrameType, *_: object) -> None:
    called.add(frame.f_code)


def _trace(note: Callable[..., None] | None) -> None:
    sys.settrace(note)
    threading.settrace(note)


def pytest_load_initial_conftests() -> None:
    """Notes the functions that are called while the tests are collected: nothing later can show their mutants."""
    os.environ.pop(ACTIVE, None)
    _trace(_note_call)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keeps how a test failed, to be told where no mutant is the cause."""
    if report.failed:
        failures.append(f"{report.nodeid}\n{report.longreprtext}\n")


def pytest_runtestloop(session: pytest.Session) -> bool:
    """Tries the mutants, in place of running the tests.

    :raises RuntimeError: the tests fail without a mutant.
    """
    _trace(None)
    collected = called.copy()
    if session.testsfailed or not session.items:
        raise RuntimeError("the tests cannot be collected")
    notes = Path(os.environ["MUTATION_RESULTS"])
    by = notes.with_suffix(".by")
    stats, state = notes.with_suffix(".stats"), os.environ["MUTATION_STATE"]
    watched = json.loads(stats.read_text(encoding="utf-8")) if stats.exists() else {}
    known = watched.get("state") == state
    if not known:
        watched = _watch(session.items, stats, by)
    took, tests_of, modules = (watched[part] for part in ("took", "tests_of", "modules"))
    for module in modules:
        with suppress(Exception):  # a test made it up, or took away what it needs
            importlib.import_module(module)
    gc.collect()
    gc.freeze()  # or each fork would copy what the collector looks at
    imported = {name for name, mutants in functions.items() if mutants.original.__code__ in collected}
    quickest = sorted(session.items, key=lambda item: took[item.nodeid])
    if not known and (status := _in_fork(lambda: _run(session, quickest, {}, "", by))):
        told = by.read_text(encoding="utf-8")
        raise RuntimeError(f"the tests fail without a mutant when the quickest come first: {status}\n{told}")
    stats.write_text(
        json.dumps(watched | {"state": state}), encoding="utf-8"
    )  # a run that goes on need not watch again
    saw: Counter[tuple[str, str]] = Counter()  # a test that saw one mutant of a function will see others
    tasks = json.loads(Path(os.environ["MUTATION_TASKS"]).read_text(encoding="utf-8"))
    left: dict[str, list[pytest.Item]] = {}  # the slower tests of mutants that the quick ones did not see
    for name, digest in [*tasks, *tasks]:
        function = name.partition("__mutmut_")[0]
        if name not in left:
            mine = [item for item in quickest if item.nodeid in tests_of.get(function, ())] or quickest
            mine = sorted(mine, key=lambda item: took[item.nodeid] / (1 + 9 * saw[function, item.nodeid]))
            costs = itertools.accumulate(took[item.nodeid] for item in mine)
            quick = max(sum(cost <= QUICK for cost in costs), 1)
            now, left[name] = mine[:quick], mine[quick:]
        else:
            now, left[name] = left[name], []
        if not now:
            continue
        status = _in_fork(lambda name=name, now=now: _run(session, now, took, name, by))
        test = by.read_text(encoding="utf-8") if status == FAILED else ""
        if status:
            saw[function, test] += 1
            left[name] = []
        became = {"name": name, "digest": digest, "status": status, "imported": function in imported, "by": test}
        with notes.open("a", encoding="utf-8") as file:
            file.write(json.dumps(became | {"left": len(left[name])}) + "\n")
    return True


def _watch(items: Sequence[pytest.Item], path: Path, by: Path) -> dict[str, Any]:
    """Runs all tests in a fork.

    :return: The seconds that each ``took``, ``tests_of`` each function, which call it, and the ``modules`` that they
        loaded: PyTorch loads a thousand when an optimizer first steps, in two seconds that each mutant would take.
    """
    loaded = [*sys.modules]

    def watch() -> int:
        took, tests_of = {}, {}
        _trace(_note_call)
        for item, after in zip(items, [*items[1:], None], strict=True):
            called.clear()
            begun = sum(os.times()[:4])  # what it computed, and its processes: other work on the machine counts not
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            took[item.nodeid] = sum(os.times()[:4]) - begun
            for name, mutants in functions.items():
                if mutants.original.__code__ in called:
                    tests_of.setdefault(name, []).append(item.nodeid)
        _trace(None)
        modules = sorted(sys.modules.keys() - loaded)
        path.write_text(json.dumps({"took": took, "tests_of": tests_of, "modules": modules}), encoding="utf-8")
        by.write_text("\n".join(failures), encoding="utf-8")
        return items[0].session.testsfailed

    if status := _in_fork(watch):
        raise RuntimeError(f"the tests fail without a mutant: {status}\n{by.read_text(encoding='utf-8')}")
    watched: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return watched


def _run(
    session: pytest.Session, items: Sequence[pytest.Item], took: Mapping[str, float], mutant: str, by: Path
) -> int:
    """Runs tests until one fails, whose name is written to ``by``, or a signal ends the process as one is stuck."""
    activate(mutant)
    for item, after in zip(items, [*items[1:], None], strict=True):
        if item.nodeid in took:
            seconds = 10 * took[item.nodeid] + SPARE
            signal.setitimer(signal.ITIMER_PROF, seconds)
            signal.setitimer(signal.ITIMER_REAL, 6 * seconds)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        if session.testsfailed:
            by.write_text(item.nodeid if mutant else "\n".join(failures), encoding="utf-8")
            return FAILED
    return 0


def _in_fork(work: Callable[[], int]) -> int:
    """Does work in a fork: its status, or less than zero where a signal ended it."""
    if child := os.fork():
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what it started goes with it
        return status
    try:
        os.setpgid(0, 0)
        os._exit(min(work(), FAILED))
    except BaseException:
        os._exit(FAILED + 1)
