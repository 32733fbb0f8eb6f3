"""What tests may expect of the machine they run on, which may be a fifth of a core or shared with others."""

import os
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 300.0
"""Seconds after which something hangs: for what takes no time to speak of, anywhere."""
HANG = 1.5
"""Seconds after which pools shall take a step for one that hangs: a step of a scripted environment never takes that."""


def wait_until(happened: Callable[[], bool], what: str = "what was waited for") -> None:
    """Returns once it has happened."""
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


def usable_cores() -> int:
    """How many cores this process may keep busy: by its affinity, and by the quotas of its control groups."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([cores, *map(int, _quotas())]))


def _quotas() -> list[float]:
    """Cores by the quotas of control groups of either version, from this process's own group up to the root."""
    quotas = []
    try:
        groups = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    for line in groups:
        _, controllers, path = line.split(":", 2)
        root = Path("/sys/fs/cgroup", *(["cpu"] if "cpu" in controllers.split(",") else []))
        for group in (root / path.strip("/"), *(root / path.strip("/")).parents):
            quotas += _quota(group, version=1 if controllers else 2) if group.is_relative_to(root) else []
    return quotas


def _quota(group: Path, version: int) -> list[float]:
    try:
        if version == 2:
            quota, period = (group / "cpu.max").read_text().split()
        else:
            quota, period = ((group / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
    except OSError:
        return []
    return [] if quota in ("max", "-1") else [int(quota) / int(period)]
