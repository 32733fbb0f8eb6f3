"""The returns of several runs are read from their folders, and drawn."""

import numpy as np
import pytest
from torch.utils.tensorboard import SummaryWriter

from rlfast.evaluation.rliable_evaluation_hl import (
    LoggedCollectStats,
    RLiableExperimentResult,
    load_and_eval_experiments,
)
from rlfast.utils.logger.base import DataScope


@pytest.fixture
def runs(tmp_path, write_run):
    write_run(tmp_path / "a" / "seed=0", [0, 10, 20], [0.0, 2.0, 4.0])
    write_run(tmp_path / "b", [0, 20, 40], [0.0, 8.0, 16.0])
    return tmp_path


def test_runs_are_compared_at_the_steps_of_the_shortest(runs):
    result = RLiableExperimentResult.load_from_disk(str(runs))
    assert result.env_steps_E.tolist() == [0, 10, 20]
    assert result.test_episode_returns_RE.tolist() == [[0, 2, 4], [0, 4, 8]]
    assert result.train_episode_returns_RE.tolist() == [[0, 1, 2], [0, 2, 4]]


def test_a_most_number_of_steps(runs):
    result = RLiableExperimentResult.load_from_disk(str(runs), max_env_step=10)
    assert result.env_steps_train_E.tolist() == [0, 10]
    assert result.test_episode_returns_RE.shape == (2, 2)


def test_the_files_of_tensorboard_are_read_where_there_are_no_others(runs):
    with SummaryWriter(runs / "c") as writer:
        for step, mean in ((0, 1.0), (20, 3.0)):
            writer.add_scalar("test/env_step", step, step)
            writer.add_scalar("test/returns_stat/mean", mean, step)
            for name in ("std", "min", "max"):
                writer.add_scalar(f"test/returns_stat/{name}", 0.0, step)
    result = RLiableExperimentResult.load_from_disk(str(runs))
    assert result.test_episode_returns_RE.shape == (3, 3)
    assert result.test_episode_returns_RE[2].tolist() == [1, 2, 3]
    assert result.train_episode_returns_RE.shape == (2, 3)


def test_measures_are_of_the_last_returns(runs):
    found = RLiableExperimentResult.load_from_disk(str(runs)).intervals(target=6.0)
    assert found["mean"].value == 6.0
    assert found["optimality_gap"].value == 1.0
    assert found["mean"].low == 4.0
    assert found["mean"].high == 8.0


@pytest.mark.parametrize("scope", [DataScope.TEST, DataScope.TRAIN])
def test_pictures_show_the_mean_and_its_band(runs, scope, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    result = RLiableExperimentResult.load_from_disk(str(runs))
    figure, axes, profile, profile_axes = result.eval_results("ppo", scope=scope, save_plots=True, show_plots=False)
    (line,) = axes.get_lines()
    factor = 1.0 if scope is DataScope.TEST else 0.5
    np.testing.assert_allclose(line.get_ydata(), np.array([0, 3, 6]) * factor)
    assert line.get_label() == "ppo"
    (steps,) = profile_axes.get_lines()
    assert steps.get_ydata()[0] == 1.0
    assert steps.get_ydata()[-1] == 0.0
    assert {path.name for path in runs.glob("*.png")} == {"iqm_sample_efficiency_curve.png", "performance_profile.png"}
    again = result.eval_results("sac", show_plots=False, ax_iqm=axes, ax_profile=profile_axes, algo2color={"sac": "C3"})
    assert again[0] is figure
    assert again[2] is profile
    assert [one.get_label() for one in axes.get_lines()] == ["ppo", "sac"]
    assert axes.get_lines()[1].get_color() == "C3"
    plt.close("all")


def test_all_scopes_at_once(runs, monkeypatch):
    seen = []
    monkeypatch.setattr(RLiableExperimentResult, "eval_results", lambda _, **options: seen.append(options["scope"]))
    load_and_eval_experiments(str(runs), show_plots=False, scope="both")
    assert seen == [DataScope.TEST, DataScope.TRAIN]


def test_a_folder_without_runs(tmp_path):
    with pytest.raises(ValueError, match="no run with returns"):
        RLiableExperimentResult.load_from_disk(str(tmp_path))
    with pytest.raises(FileNotFoundError, match="not a folder"):
        RLiableExperimentResult.load_from_disk(str(tmp_path / "absent"))


def test_returns_that_are_not_there(runs):
    result = RLiableExperimentResult.load_from_disk(str(runs))
    result.test_episode_returns_RE = np.zeros((0, 0))
    with pytest.raises(ValueError, match="no returns of tests"):
        result.eval_results(show_plots=False)
    with pytest.raises(ValueError, match=r"DataScope\.TEST or DataScope\.TRAIN"):
        result.intervals(DataScope.INFO)


def test_logged_statistics_leave_out_other_names():
    summary = dict.fromkeys(("mean", "std", "max", "min"), np.ones(2))
    data = {"returns_stat": summary, "other": 1, "env_step": np.arange(2)}
    found = LoggedCollectStats.from_data_dict(data)
    assert found.returns_stat is not None
    assert found.returns_stat.mean.tolist() == [1, 1]
    assert found.n_collected_steps is None
    assert set(data) == {"returns_stat", "other", "env_step"}  # not changed
