"""The first 10,000 steps of a training script: ``python -m bench.peers.first_steps DRIVER ALGORITHM``.

It prints the seconds of processor time that they take after the imports; :mod:`bench.peers.training` has the scripts.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module

from bench.peers.training import STEPS, WARM_UP

ALL = 10_000


def in_new_processes(driver: str, algorithm: str) -> dict[str, Callable[[int], float]]:
    """Returns the operation: these steps in a process of their own."""
    command = [sys.executable, "-m", "bench.peers.first_steps", driver, algorithm]

    def run(count: int) -> float:
        return sum(float(subprocess.check_output(command, text=True).split()[-1]) for _ in range(count))

    return {"train": run}


def main() -> None:
    name, algorithm = sys.argv[1:]
    driver = import_module(f"bench.peers.{name}")
    start = time.process_time()
    run = driver.script(algorithm)["train"]  # after the first iteration
    run((ALL - WARM_UP[algorithm]) // STEPS[algorithm] - 1)
    print(time.process_time() - start)


if __name__ == "__main__":
    main()
