"""The worker process of one library, which prepares scenarios and runs operations as it is told over a pipe.

:mod:`bench.libraries` starts it as ``python -m bench.peers.worker DRIVER VARIANT FD THREADS CLOCK``. A driver is a
module of this folder. Each of its public functions prepares one scenario and returns its operations, ``{name:
operation}``, where ``operation(n)`` does the work ``n`` times. Only that call is timed, unless it returns its own time
in seconds.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import sys
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


def resident_bytes() -> int:
    """Returns the resident memory of this process in bytes (Linux), without what ``malloc`` keeps of freed memory."""
    ctypes.CDLL(None).malloc_trim(0)
    with Path("/proc/self/statm").open() as statm:
        return int(statm.read().split()[1]) * 4096


class Worker:
    """The operations of one scenario at a time."""

    def __init__(self, driver: str, variant: str, clock: str) -> None:
        self.driver: Any = importlib.import_module(f"bench.peers.{driver}")
        self.driver.VARIANT = variant
        self.clock = getattr(time, clock)
        self.operations: dict[str, Any] = {}

    def versions(self) -> dict[str, str]:
        """Returns the versions of the library and its dependencies."""
        found: dict[str, str] = self.driver.versions()
        # As plain strings, since torch's version has a class that an interpreter without torch cannot unpickle.
        return {name: str(version) for name, version in {"python": sys.version.split()[0], **found}.items()}

    def forget(self) -> None:
        """Frees the memory of the previous scenario."""
        self.operations = {}
        gc.collect()

    def setup(self, scenario: str, params: dict[str, Any]) -> None:
        """Prepares the operations of a scenario."""
        self.operations = getattr(self.driver, scenario)(**params)

    def run(self, operation: str, count: int) -> float:
        """Returns the seconds of ``count`` repetitions. The garbage collector stays on, as it is for users."""
        work = self.operations[operation]
        gc.collect()
        start = self.clock()
        own: float | None = work(count)
        return float(self.clock() - start) if own is None else own

    def growth(self, operation: str) -> int:
        """Returns the bytes by which resident memory grows while a new buffer is filled; the buffer is kept."""
        gc.collect()
        before = resident_bytes()
        self.kept = self.operations[operation]()
        gc.collect()
        return resident_bytes() - before


def told(error: Exception) -> str:
    """Returns one line about an error for the report, and writes the traceback to stderr."""
    traceback.print_exception(error)
    return f"{type(error).__name__}: {error}"


def main() -> None:
    driver, variant, descriptor, threads, clock = sys.argv[1:]
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-int(threads) :])
    pipe = Connection(int(descriptor))
    try:
        worker = Worker(driver, variant, clock)
        pipe.send(("ok", worker.versions()))
    except Exception as error:
        pipe.send(("error", told(error)))
        return
    while True:
        try:
            method, arguments = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(("ok", getattr(worker, method)(*arguments)))
        except Exception as error:
            pipe.send(("error", told(error)))


if __name__ == "__main__":
    main()
