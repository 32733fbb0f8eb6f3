"""Timeouts of tests by the speed of the machine, which may be a fifth of a core or shared with others."""

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 1200.0
"""Seconds after which something hangs: where thirty processes share two cores, a run takes minutes to save at first."""
HANG = 1.5
"""Seconds after which pools shall take a step for one that hangs: a step of a scripted environment never takes that."""


def wait_until(happened: Callable[[], bool], what: str = "what was waited for") -> None:
    """Waits until a condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline, f"{what} did not happen within {PATIENCE:g} s"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
