"""A plugin of pytest that tries mutants: collects the tests once, and forks the process for each mutant.

No test has run in the process that is forked: what Hypothesis, PyTorch and the fixtures keep is new for each mutant. It
reads the names of the mutants from ``$MUTATION_TASKS``, and appends what became of each to ``$MUTATION_RESULTS``.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mutmut.mutation import trampoline

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pytest

SPARE = 5  # a test is stuck when it computes for ten times the seconds that it took, and these, or takes six times that
FAILED = 1
called: set[str] = set()  # the functions that have been called since this was last emptied


def pytest_configure() -> None:
    """Notes the functions that are called while the tests are collected: nothing later can show their mutants."""
    os.environ.pop("MUTANT_UNDER_TEST", None)  # processes that tests start shall note nothing
    trampoline.record_trampoline_hit = lambda name, **_: called.add(name)
    trampoline._mutant_under_test = "stats"


def pytest_runtestloop(session: pytest.Session) -> bool:
    """Tries the mutants, in place of running the tests.

    :raises RuntimeError: the tests fail without a mutant.
    """
    if session.testsfailed or not session.items:
        raise RuntimeError("the tests cannot be collected")
    notes = Path(os.environ["MUTATION_RESULTS"])
    by = notes.with_suffix(".by")
    took, tests_of, modules = _watch(session.items, notes.with_suffix(".stats"))
    for module in modules:
        with suppress(Exception):  # a test made it up, or took away what it needs
            importlib.import_module(module)
    gc.collect()
    gc.freeze()  # or each fork would copy what the collector looks at
    imported = called.copy()
    quickest = sorted(session.items, key=lambda item: took[item.nodeid])
    if status := _in_fork(lambda: _run(session, quickest, {}, "", by)):
        raise RuntimeError(f"the tests fail without a mutant when the quickest come first: {status}")
    saw: Counter[tuple[str, str]] = Counter()  # a test that saw one mutant of a function will see others
    for name, digest in json.loads(Path(os.environ["MUTATION_TASKS"]).read_text(encoding="utf-8")):
        function = name.partition("__mutmut_")[0]
        mine = [item for item in quickest if item.nodeid in tests_of.get(function, ())] or quickest
        mine = sorted(mine, key=lambda item: took[item.nodeid] / (1 + 9 * saw[function, item.nodeid]))
        status = _in_fork(lambda name=name, mine=mine: _run(session, mine, took, name, by))
        test = by.read_text(encoding="utf-8") if status == FAILED else ""
        saw[function, test] += 1
        became = {"name": name, "digest": digest, "status": status, "imported": function in imported, "by": test}
        with notes.open("a", encoding="utf-8") as file:
            file.write(json.dumps(became) + "\n")
    return True


def _watch(items: Sequence[pytest.Item], path: Path) -> tuple[dict[str, float], dict[str, list[str]], list[str]]:
    """Runs all tests in a fork.

    :return: The seconds that each took, the tests that call each function, and the modules that they loaded: PyTorch
        loads a thousand when an optimizer first steps, in two seconds that each mutant would take.
    """
    loaded = [*sys.modules]

    def watch() -> int:
        took, tests_of = {}, {}
        for item, after in zip(items, [*items[1:], None], strict=True):
            called.clear()
            begun = time.perf_counter()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            took[item.nodeid] = time.perf_counter() - begun
            for name in called:
                tests_of.setdefault(name, []).append(item.nodeid)
        path.write_text(json.dumps([took, tests_of, [*sys.modules.keys() - loaded]]), encoding="utf-8")
        return items[0].session.testsfailed

    if status := _in_fork(watch):
        raise RuntimeError(f"the tests fail without a mutant: {status}")
    took, tests_of, modules = json.loads(path.read_text(encoding="utf-8"))
    return took, tests_of, sorted(modules)


def _run(
    session: pytest.Session, items: Sequence[pytest.Item], took: Mapping[str, float], mutant: str, by: Path
) -> int:
    """Runs tests until one fails, whose name is written to ``by``, or a signal ends the process as one is stuck."""
    trampoline.set_mutant_under_test(mutant)
    for item, after in zip(items, [*items[1:], None], strict=True):
        if item.nodeid in took:
            seconds = 10 * took[item.nodeid] + SPARE
            signal.setitimer(signal.ITIMER_PROF, seconds)
            signal.setitimer(signal.ITIMER_REAL, 6 * seconds)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        if session.testsfailed:
            by.write_text(item.nodeid, encoding="utf-8")
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
