import pytest

from rlfast.utils.progress_bar import DummyTqdm, ProgressBar, progress_note


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


def test_figures_are_written_at_most_ten_times_a_second(monkeypatch):
    with ProgressBar(1000, "x") as bar:
        written = []
        monkeypatch.setattr(bar._bar, "set_postfix", lambda figures, **_: written.append(dict(figures)))
        for _ in range(500):
            bar.update(1, {"loss": 1.0})
    assert len(written) < 50


def test_a_note_stands_beside_the_newest_bar_while_something_is_computed(capsys):
    with ProgressBar(10, "Epoch #1") as bar, ProgressBar(10, "hidden", shown=False):
        bar.update(1, {"loss": 1.0})
        with progress_note("compiling the update"):
            assert capsys.readouterr().err.split("\r")[-1].rstrip(" ]").endswith("compiling the update")
        with pytest.raises(KeyError), progress_note("reading"):
            raise KeyError
        assert "reading" not in capsys.readouterr().err.split("\r")[-1]
        bar.update(1, {"loss": 2.0})
    assert "loss=2" in capsys.readouterr().err.split("\r")[-1]
    with progress_note("nothing is shown"):
        pass
    assert capsys.readouterr().err == ""
