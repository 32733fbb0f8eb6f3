"""The benchmarks as a command."""

import json
import sys
from pathlib import Path

import pytest

from rlfast.cli.main import main
from rlfast.cli.tools import bench


def test_the_suites_are_found():
    folder = bench.suites()
    assert folder is not None
    assert {"replay", "prioritized", "returns", "memory"} <= set(bench.groups(folder))


def test_an_unknown_group(capsys):
    assert main(["bench", "replays"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("rlfast: there is no group 'replays': choose from ")
    assert error.count("\n") == 1
    assert main(["bench", "--fast"]) == 2
    assert capsys.readouterr().err == "rlfast: unrecognized arguments: --fast (rlfast bench --help)\n"
    assert main(["bench", "--help"]) == 0
    assert "environments.py FOLDER makes them" in " ".join(capsys.readouterr().out.split())


def test_what_is_missing_is_named(monkeypatch, capsys):
    monkeypatch.setattr(bench, "find_spec", lambda name: None if name == "matplotlib" else object())
    assert main(["bench", "replay"]) == 1
    assert "matplotlib cannot be imported: pip install '.[bench]' in the checkout" in capsys.readouterr().err
    monkeypatch.setattr(bench, "suites", lambda: None)
    assert main(["bench"]) == 1
    assert "not installed" in capsys.readouterr().err


SUITE = """
import json
def pytest_addoption(parser):
    parser.addoption("--record")
    parser.addoption("--quick", action="store_true")
def pytest_unconfigure(config):
    case = {"name": "a case", "unit": "s", "bars": [], "results": {"rlfast": {"median": 1.0}, "peer": {"median": 2.0}}}
    run = {"date": "2026-01-02", "machine": {"processor": "x"}, "limits": [], "cases": [case]}
    with open(config.getoption("--record"), "w") as file:
        json.dump(run | {"quick": config.getoption("--quick"), "tests": config.args}, file)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_run_writes_samples_and_a_plot(tmp_path, monkeypatch, capfd):
    """The command itself, over a suite that takes no time, from a folder elsewhere."""
    suite, real = tmp_path / "suite", bench.suites()
    suite.mkdir()
    for name in ("__init__", "labels", "libraries", "plot"):
        (suite / f"{name}.py").write_text((Path(real) / f"{name}.py").read_text())
    (suite / "conftest.py").write_text(SUITE)
    (suite / "test_one.py").write_text("def test_one(): pass")
    (suite / "test_two.py").write_text("def test_two(): assert False")
    monkeypatch.setattr(bench, "suites", lambda: suite)
    assert main(["bench", "one", "--quick", "--output", str(tmp_path / "out")]) == 0
    (record,), (picture,) = (list((tmp_path / "out").glob(f"*.{kind}")) for kind in ("json", "png"))
    assert picture.read_bytes().startswith(b"\x89PNG")
    said = capfd.readouterr().out
    assert f"samples: {record}" in said
    assert f"plot:    {picture}" in said
    run = json.loads(record.read_text())
    assert run["quick"] is True
    assert run["tests"] == ["bench/test_one.py"]

    assert main(["bench", "--output", str(tmp_path / "out")]) == 1
    assert "the benchmarks ended with status 1" in capfd.readouterr().err
