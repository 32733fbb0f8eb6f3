import logging
import os
import re
import time
from contextlib import suppress

import pytest

from rlfast.utils.progress_bar import DummyTqdm, ProgressBar, progress_note


@pytest.fixture(autouse=True)
def _terminal(monkeypatch):
    monkeypatch.setattr("rlfast.utils.progress_bar._is_terminal", lambda: True)


@pytest.mark.parametrize("total", [1000, 100_000, 10_000_000, None])
def test_the_return_is_not_cut_off_at_80_columns(monkeypatch, total):
    termios, pty = pytest.importorskip("termios"), pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    done, screen = (total or 100_000) // 4, open(theirs, "w")  # noqa: SIM115, PTH123 (a descriptor)
    monkeypatch.setattr("sys.stderr", screen)
    with ProgressBar(total, initial=done, since=(time.time() - 20_000, 0)) as bar:
        bar.update(1, {"return": -1234.5, "test": 1234.5, "loss": 0.123456, "loss/actor": 1.0, "updates/s": 1234.5})
    screen.close()
    shown = b""
    with suppress(OSError):  # where the other end is closed
        while some := os.read(ours, 100_000):
            shown += some
    os.close(ours)
    last = shown.decode().rstrip("\r\n").split("\r")[-1]
    assert len(last) <= 80
    assert "return=-1234" in last or "return=-1235" in last
    assert total is None or " 25%" in last
    assert "5:33:2" in last  # since the beginning
    assert total in (1000, None) or "<16:40:0" in last or "<16:39:" in last


def test_without_a_terminal_nothing_is_shown(capsys, monkeypatch):
    monkeypatch.setattr("rlfast.utils.progress_bar._is_terminal", lambda: False)
    with ProgressBar(10, "x") as bar:
        bar.update(4, {"loss": 1.0})
    assert bar.n == 4
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("total", "shown", "line"),
    [
        (1000, True, "reading: step 400 of 1,000 (40%), 3 min 00 s left, return 12.35, updates 7\n"),
        (None, True, "reading: step 400, return 12.35, updates 7\n"),
        (1000, False, ""),
    ],
)
def test_progress_without_terminal(capsys, monkeypatch, total, shown, line):
    monkeypatch.setattr("rlfast.utils.progress_bar._is_terminal", lambda: False)
    clock = 1000.0
    monkeypatch.setattr("time.perf_counter", lambda: clock)
    monkeypatch.setattr("time.time", lambda: clock)
    with ProgressBar(total, "reading", initial=100, since=(clock - 60, 0), shown=shown) as bar:
        for now in (1059.0, 1060.0, 1119.0):
            clock = now
            bar.update(150, {"return": 12.345, "updates": 7})
    assert capsys.readouterr().err == line


def test_a_bar_may_vanish(capsys):
    with ProgressBar(10, "x", leave=False) as bar:
        bar.update(4, {"loss": 1.0})
    assert capsys.readouterr().err.split("\r")[-2].strip() == ""


def test_figures_stand_beside_the_bar(capsys):
    with ProgressBar(10, "Epoch #1") as bar:
        bar.update(4, {"env_step": 4, "return": 20.5})
        bar.update(8, {"env_step": 12345, "loss": 0.123456})
    shown = capsys.readouterr().err
    assert bar.n == 12
    assert "Epoch #1: 100%" in shown
    assert "10/10" in shown  # what is collected beyond an epoch does not break the bar
    assert "env_step=12345, loss=0.1235, return=20.5" in shown  # what was not said again comes last
    assert "step/s" in shown


def test_the_bar_ends_with_the_last_figures(capsys):
    with ProgressBar(10, "x") as bar:
        bar.update(1, {"env_step": 1})
        bar.update(1, {"env_step": 2})  # within a tenth of a second
    assert "env_step=2" in capsys.readouterr().err.splitlines()[-1].split("\r")[-1]


def test_it_counts_without_being_shown(capsys):
    with ProgressBar(10, "x", shown=False) as bar:
        bar.update(4, {"loss": 1.0})
    assert bar.n == 4
    with DummyTqdm(total=10, desc="x") as dummy:
        dummy.set_postfix(loss=1)
        dummy.update(3)
        dummy.update()
    assert (dummy.n, dummy.total) == (4, 10)
    assert capsys.readouterr().err == ""


def test_bar_redraws_at_most_ten_times_a_second(monkeypatch):
    with ProgressBar(1000, "x") as bar:
        written = []
        monkeypatch.setattr(bar._bar, "set_postfix", lambda figures, **_: written.append(dict(figures)))
        for _ in range(500):
            bar.update(1, {"loss": 1.0})
    assert len(written) < 50


def test_note_beside_newest_bar(capsys):
    with ProgressBar(10, "Epoch #1") as bar, ProgressBar(10, "hidden", shown=False):
        bar.update(1, {"loss": 1.0})
        with progress_note("compiling the update"):
            assert capsys.readouterr().err.split("\r")[-1].count("compiling the update") == 1
        with pytest.raises(KeyError), progress_note("reading"):
            raise KeyError
        assert "reading" not in capsys.readouterr().err.split("\r")[-1]
        bar.update(1, {"loss": 2.0})
    assert "loss=2" in capsys.readouterr().err.split("\r")[-1]
    with progress_note("nothing is shown"):
        pass
    assert capsys.readouterr().err == ""


def test_note_is_logged_with_its_seconds(caplog):
    with caplog.at_level(logging.INFO, "rlfast.utils.progress_bar"), progress_note("compiling the update"):
        time.sleep(0.1)
    assert re.fullmatch(r"compiling the update took \d+\.[1-9] s", caplog.records[0].getMessage())
