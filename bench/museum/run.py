"""Runs the museum: ``python -m bench.museum [LIBRARY ...] [--case ID ...] [--dry-run | --page]``.

Without names, all libraries are run whose interpreters are found (``RLFAST_PEERS``, see :mod:`bench.libraries`). The
answers are written to ``bench/museum/results.json``, where libraries and cases that were not run keep theirs, and
``docs/museum.md`` is made from it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.libraries import ROOT, Library, Unavailable, interpreter
from bench.museum.case import ABSENT, RIGHT, Case
from bench.museum.cases import CASES
from bench.museum.judge import verdict

RESULTS = Path(__file__).parent / "results.json"
PAGE = ROOT / "docs" / "museum.md"
LIMIT = 60.0


@dataclass(frozen=True)
class Column:
    """A library on the page, its adapter, and where it is installed."""

    title: str
    library: Library
    key: str


COLUMNS = {
    "rlfast": Column("rlfast", Library("rlfast"), "rlfast"),
    "tianshou1": Column("Tianshou 1", Library("tianshou", "tianshou1", "tianshou", "1."), "tianshou"),
    "tianshou2": Column("Tianshou 2", Library("tianshou", "tianshou2", "tianshou", "2."), "tianshou"),
    "sb3": Column("SB3", Library("sb3", "modern", "stable-baselines3"), "stable-baselines3"),
    "torchrl": Column("TorchRL", Library("torchrl", "modern", "torchrl"), "torchrl"),
    "cpprb": Column("cpprb", Library("cpprb", "modern", "cpprb"), "cpprb"),
    "d3rlpy": Column("d3rlpy", Library("d3rlpy", "d3rlpy", "d3rlpy"), "d3rlpy"),
    "cleanrl": Column("CleanRL", Library("cleanrl", "tianshou1", "tianshou", "1."), "cleanrl"),
    "rlox": Column("rlox", Library("rlox", "rlox", "rlox"), "rlox"),
    "gymnasium": Column("Gymnasium", Library("gymnasium", "modern", "gymnasium"), "gymnasium"),
    "envpool": Column("EnvPool", Library("envpool", "modern", "envpool"), "envpool"),
}


class Worker:
    """The process of one library; see :mod:`bench.museum.worker`."""

    def __init__(self, library: Library) -> None:
        ours, theirs = socket.socketpair()
        threads = dict.fromkeys(
            ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
        )
        environment = {**os.environ, **threads, "PYTHONWARNINGS": "ignore", "CUDA_VISIBLE_DEVICES": ""}
        if library.home:
            environment.pop("PYTHONPATH", None)
            environment.pop("VIRTUAL_ENV", None)
        command = [
            interpreter(library),
            "-m",
            "bench.museum.worker",
            library.driver,
            library.variant,
            str(theirs.fileno()),
        ]
        self.child = subprocess.Popen(
            command, cwd=ROOT, env=environment, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=sys.stderr
        )
        theirs.close()
        self.socket = ours
        self.stream = ours.makefile("rw", encoding="utf-8")
        first = self._receive()
        if "unavailable" in first:
            self.close()
            raise Unavailable(first["unavailable"])
        self.versions: dict[str, str] = first["versions"]

    def _receive(self) -> dict[str, Any]:
        line = self.stream.readline()
        if not line:
            raise Unavailable(f"its process ended with status {self.child.wait()}")
        return dict(json.loads(line))

    def answer(self, case: Case, limit: float = LIMIT) -> dict[str, Any]:
        request = {"id": case.id, "operation": case.operation, "given": case.given, "limit": limit}
        self.stream.write(json.dumps(request) + "\n")
        self.stream.flush()
        return self._receive()

    def close(self) -> None:
        self.stream.close()
        self.socket.close()
        self.child.wait()


def run_library(name: str, cases: list[Case], limit: float = LIMIT) -> dict[str, Any]:
    """Returns the versions of a library, and its outcome and what it gave for each case.

    :raises Unavailable: if the library is not installed.
    """
    worker = Worker(COLUMNS[name].library)
    try:
        outcomes = {}
        for case in cases:
            outcome, observed = verdict(case, worker.answer(case, limit))
            outcomes[case.id] = {"outcome": outcome} if outcome == RIGHT else {"outcome": outcome, "observed": observed}
        return {"versions": worker.versions, "cases": outcomes}
    finally:
        worker.close()


def load() -> dict[str, Any]:
    """Returns the recorded answers."""
    return dict(json.loads(RESULTS.read_text(encoding="utf-8"))) if RESULTS.exists() else {"libraries": {}}


def record(name: str, found: dict[str, Any], *, all_cases: bool) -> None:
    """Adds the answers of a library to the recorded ones; with ``all_cases``, they replace those of the library."""
    results = load()
    kept = {} if all_cases else results["libraries"].get(name, {}).get("cases", {})
    results["libraries"][name] = {**found, "cases": {**kept, **found["cases"]}}
    ordered = {name: results["libraries"][name] for name in COLUMNS if name in results["libraries"]}
    for library in ordered.values():
        library["cases"] = {id: library["cases"][id] for id in CASES if id in library["cases"]}
    RESULTS.write_text(json.dumps({**results, "libraries": ordered}, indent=1) + "\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    from bench.museum.page import page

    parser = argparse.ArgumentParser(prog="python -m bench.museum", description=__doc__)
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY", help=f"of {', '.join(COLUMNS)}; all by default")
    parser.add_argument("--case", nargs="+", choices=CASES, metavar="ID", help="only these cases")
    parser.add_argument("--dry-run", action="store_true", help="print, and write nothing")
    parser.add_argument("--page", action="store_true", help="only make docs/museum.md from the recorded answers")
    options = parser.parse_args(arguments)
    if options.page:
        PAGE.write_text(page(load()), encoding="utf-8")
        return 0
    unknown = set(options.libraries) - set(COLUMNS)
    if unknown:
        parser.error(f"unknown libraries: {', '.join(sorted(unknown))}")
    cases = [CASES[id] for id in options.case or CASES]
    for name in options.libraries or COLUMNS:
        try:
            found = run_library(name, cases)
        except Unavailable as reason:
            print(f"{name}: left out: {reason}")
            continue
        found["date"] = datetime.datetime.now(datetime.UTC).date().isoformat()
        for id, answer in found["cases"].items():
            if options.case or answer["outcome"] not in {RIGHT, ABSENT}:
                print(f"{name:10} {id:32} {answer['outcome']:8} {str(answer.get('observed', ''))[:300]}")
        if not options.dry_run:
            record(name, found, all_cases=not options.case)
            PAGE.write_text(page(load()), encoding="utf-8")
    return 0
