import pytest

from rlfast.cli import main
from rlfast.experiment import ALGORITHMS
from rlfast.experiment.run_dir import write_config
from rlfast.utils.logger import CSVLogger


@pytest.fixture
def runs(tmp_path):
    """Two seeds of DQN, which have not ended."""
    for seed in (0, 1):
        folder = tmp_path / "runs" / f"run{seed}"
        folder.mkdir(parents=True)
        write_config(folder, ALGORITHMS["dqn"].config(seed=seed), "dqn")
        logger = CSVLogger(folder / "metrics.csv")
        for step in (0, 100):
            logger.log_test_data({"returns_stat": {"mean": float(step + seed), "std": 1.0}}, step)
    return tmp_path / "runs"


def test_reports_of_runs_and_of_their_curves_are_equal(runs, tmp_path, capsys):
    assert main(["report", str(runs), "--curves", str(tmp_path / "kept")]) == 0
    shown = capsys.readouterr()
    assert "| CartPole-v1 | DQN | 100.5 | 100.5 | 100.5 (100.0 to 101.0) | 0-1; unfinished: 0-1 | 100 |" in shown.out
    assert shown.out.endswith(f"{runs / 'report' / 'report.md'}\n2 curves are in {tmp_path / 'kept'}\n")
    assert f"rlfast: {runs / 'run1'} has not ended: its curve ends at step 100" in shown.err
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {
        "dqn-CartPole-v1-seed0.csv",
        "dqn-CartPole-v1-seed1.csv",
    }
    assert main(["report", str(tmp_path / "kept"), "--out", str(tmp_path / "out")]) == 0
    report = (tmp_path / "out" / "report.md").read_text()
    assert report == (runs / "report" / "report.md").read_text()
    assert main(["report", str(runs), "--out", str(tmp_path / "out")]) == 0  # a second time
    capsys.readouterr()
    assert main(["report", str(runs / "run0"), str(tmp_path / "kept" / "dqn-CartPole-v1-seed1.csv")]) == 0
    assert "| 100.5 | 100.5 | 100.5 (100.0 to 101.0) | 0-1; unfinished: 0-1 |" in capsys.readouterr().out
    both = [str(runs / "run0"), str(tmp_path / "kept" / "dqn-CartPole-v1-seed1.csv")]
    assert main(["plot", *both, "--out", str(tmp_path / "x.png")]) == 0
    assert "over 2 runs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: DIR"),
        (["nowhere"], "nowhere is no folder with runs"),
        (["."], "has no run with a test"),
        (["runs", "nowhere"], "nowhere is no folder with runs"),
        (["runs", "runs"], "is given twice"),
        (["runs", "--curves", "runs/kept"], "--curves runs/kept lies in runs"),
        (["runs", "--curves", "runs"], "--curves runs lies in runs"),
        (["runs", "more", "--curves", "kept"], "would both be kept/dqn-CartPole-v1-seed1.csv: report them apart"),
        (["runs", "--out", "file"], "file"),
    ],
)
def test_bad_arguments_end_with_2_in_one_line(arguments, message, runs, tmp_path, monkeypatch, capsys):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    if arguments != ["."]:
        runs.rename(here / "runs")
        (here / "file").write_text("")
        more = here / "more"
        more.mkdir()
        write_config(more, ALGORITHMS["dqn"].config(seed=1, max_steps=9), "dqn")
        CSVLogger(more / "metrics.csv").log_test_data({"returns_stat": {"mean": 1.0, "std": 1.0}}, 0)
    before = sorted(here.rglob("*"))
    assert main(["report", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("rlfast: ")
    assert error.count("\n") == 1
    assert sorted(here.rglob("*")) == before
