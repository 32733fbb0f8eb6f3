"""How many cores a process may use: by its affinity, and by the quotas of control groups of either version."""

import os

import pytest

from rlfast.utils.runtime.cores import cores, processor


@pytest.fixture(autouse=True)
def _eight_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


def told(folder, lines, files):
    """Returns the number of cores of a process in the control groups ``lines``, whose files have these contents."""
    own = folder / "own"
    own.write_text("".join(f"{line}\n" for line in lines))
    for name, text in files.items():
        path = folder / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return cores(own, folder / "groups")


@pytest.mark.parametrize(
    ("quota", "expected"),
    [("max 100000", 8), ("200000 100000", 2), ("290000 100000", 2), ("20000 100000", 1), ("1600000 100000", 8)],
)
def test_the_quota_of_a_control_group_is_heeded(tmp_path, quota, expected):
    assert told(tmp_path, ["0::/job"], {"job/cpu.max": quota}) == expected


def test_the_smallest_quota_up_to_the_root_holds(tmp_path):
    files = {"a/b/cpu.max": "700000 100000", "a/cpu.max": "150000 50000", "cpu.max": "500000 100000"}
    assert told(tmp_path, ["0::/a/b"], files) == 3


def test_a_container_sees_its_own_group_at_the_root(tmp_path):
    assert told(tmp_path, ["0::/docker/not/here"], {"cpu.max": "400000 100000"}) == 4
    assert told(tmp_path, ["0::/"], {"cpu.max": "300000 100000"}) == 3


@pytest.mark.parametrize(("quota", "expected"), [("-1", 8), ("250000", 2)])
def test_groups_of_the_first_version_are_known(tmp_path, quota, expected):
    lines = ["5:memory:/job", "4:cpuset:/job", "3:cpu,cpuacct:/job", "0::/"]
    files = {"cpu/job/cpu.cfs_quota_us": quota, "cpu/job/cpu.cfs_period_us": "100000"}
    others = {"cpu.cfs_quota_us": "100000", "memory/job/cpu.cfs_quota_us": "100000"}
    assert told(tmp_path, lines, files | others) == expected


@pytest.mark.parametrize("quota", ["", "1 0", "lots", "1 2 3"])
def test_what_is_not_understood_is_no_quota(tmp_path, quota):
    assert told(tmp_path, ["0::/"], {"cpu.max": quota}) == 8


def test_core_count_without_cgroups(tmp_path, monkeypatch):
    assert cores(tmp_path / "missing") == 8
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    assert cores(tmp_path / "missing") == 5
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cores(tmp_path / "missing") == 1


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            "processor\t: 0\nmodel\t\t: 2\nmodel name\t: AMD EPYC 7: 1\nprocessor\t: 1\nmodel name\t: other\n",
            "AMD EPYC 7: 1",
        ),
        ("processor\t: 0\nBogoMIPS\t: 100\n", "by the system"),
        (None, "by the system"),
    ],
)
def test_the_name_of_the_processor(text, name, tmp_path, monkeypatch):
    monkeypatch.setattr("platform.processor", lambda: "by the system")
    if text is not None:
        (tmp_path / "cpuinfo").write_text(text)
    assert processor(tmp_path / "cpuinfo") == name
