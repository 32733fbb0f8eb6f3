"""The processor, and the number of its cores that this process may use, which may be fewer than the machine has."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path

_OWN_GROUPS = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")
_LISTED = Path("/proc/cpuinfo")


def processor(listed: Path = _LISTED) -> str:
    """Returns the name of the processor; an empty text if the system does not say.

    :param listed: the file in which Linux describes the processors.
    """
    try:
        lines = listed.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor()


def cores(own_groups: Path = _OWN_GROUPS, groups: Path = _GROUPS) -> int:
    """Returns the number of cores, at least 1, that this process's affinity and control groups (Linux) allow.

    :param own_groups: the file that lists the control groups of this process.
    :param groups: the folder where control groups of version 2 are mounted; those of version 1 are mounted in it.
    """
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:
        allowed = os.cpu_count() or 1
    return max(1, min([allowed, *map(int, _quotas(own_groups, groups))]))


def _quotas(own_groups: Path, groups: Path) -> Iterator[float]:
    """Yields the quota, in cores, of this process's group and of each group above it; the smallest one applies."""
    try:
        lines = own_groups.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = groups / "cpu" if controllers else groups
        own = root / path.strip("/")  # in a container, this may be a group that is not visible
        for group in (own, *own.parents):
            if group.is_relative_to(root):
                yield from _quota(group, version=1 if controllers else 2)


def _quota(group: Path, version: int) -> Iterator[float]:
    """Yields the quota of one group in cores, if it has one."""
    try:
        if version == 2:
            quota, period = (group / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota, period = ((group / f"cpu.cfs_{name}_us").read_text(encoding="ascii") for name in ("quota", "period"))
        if quota.strip() not in ("max", "-1"):
            yield int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # no quota, or an unknown format
        return
