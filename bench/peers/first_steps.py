"""The first 10,000 steps of a training script: ``python -m bench.peers.first_steps DRIVER ALGORITHM``.

It prints the seconds of processor time that they take after the imports; :mod:`bench.peers.training` has the scripts.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module

from bench.peers.training import STEPS, WARM_UP

ALL = 10_000


def main() -> None:
    name, algorithm = sys.argv[1:]
    driver = import_module(f"bench.peers.{name}")
    start = time.process_time()
    run = driver.script(algorithm)["train"]  # after the first iteration
    run((ALL - WARM_UP[algorithm]) // STEPS[algorithm] - 1)
    print(time.process_time() - start)


if __name__ == "__main__":
    main()
