"""How many cores this process may keep busy, which may be fewer than the machine has, or a part of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_OWN_GROUPS = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


def cores(own_groups: Path = _OWN_GROUPS, groups: Path = _GROUPS) -> int:
    """Whole cores by the affinity of this process and by the quotas of its control groups (Linux), at least 1.

    :param own_groups: the file that says to which control groups this process belongs.
    :param groups: where control groups of version 2, and below it those of version 1, are mounted.
    """
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:
        allowed = os.cpu_count() or 1
    return max(1, min([allowed, *map(int, _quotas(own_groups, groups))]))


def _quotas(own_groups: Path, groups: Path) -> Iterator[float]:
    """Cores by the quotas of each group from this process's own up to the root: the smallest one holds."""
    try:
        lines = own_groups.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:  # no Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = groups / "cpu" if controllers else groups
        own = root / path.strip("/")  # in a container this may name a group outside, which is not there
        for group in (own, *own.parents):
            if group.is_relative_to(root):
                yield from _quota(group, version=1 if controllers else 2)


def _quota(group: Path, version: int) -> Iterator[float]:
    """The quota of one group, if it has one."""
    try:
        if version == 2:
            quota, period = (group / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota, period = ((group / f"cpu.cfs_{name}_us").read_text(encoding="ascii") for name in ("quota", "period"))
        if quota.strip() not in ("max", "-1"):
            yield int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # none, or in a form that is not known yet
        return
