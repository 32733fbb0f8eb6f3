"""The guard names the kernels that became slower."""

import json

import pytest

from bench import guard


def test_a_slower_kernel_is_named(monkeypatch, tmp_path, capsys):
    recorded = tmp_path / "guard.json"
    monkeypatch.setattr(guard, "RECORDED", recorded)
    monkeypatch.setattr(guard, "quotients", lambda: {"add": (1.0, 2e-6), "sample": (2.0, 4e-6)})
    assert guard.main(["--update"]) == 0
    assert json.loads(recorded.read_text())["quotients"] == {"add": 1.0, "sample": 2.0}
    assert guard.main([]) == 0
    assert "slower than 1.3x the record: none" in capsys.readouterr().out

    monkeypatch.setattr(guard, "quotients", lambda: {"add": (1.2, 2e-6), "sample": (2.7, 5e-6), "late": (1.0, 1e-6)})
    assert guard.main([]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "slower than 1.3x the record: sample"
    assert lines[1].split() == ["add", "2", "us", "1.200", "1.000", "+20%"]
    assert lines[2].split()[-1] == "+35%"
    assert lines[3].split()[-1] == "new"


def test_every_watched_kernel_is_recorded():
    pytest.importorskip("torch")
    assert set(json.loads(guard.RECORDED.read_text())["quotients"]) == set(guard.kernels())


def test_the_quotient_is_of_the_shortest_times(monkeypatch):
    taken = iter([1.0, 9.0, 4.0, 2.0, 6.0, 3.0])  # ours and the reference, in turn
    monkeypatch.setattr(guard, "kernels", lambda: {"one": lambda _: None})
    monkeypatch.setattr(guard, "reference", lambda: lambda _: None)
    monkeypatch.setattr(guard, "repetitions", lambda _: 1)
    monkeypatch.setattr(guard, "seconds", lambda *_: next(taken))
    assert guard.quotients(rounds=3) == {"one": (0.5, 1.0)}
