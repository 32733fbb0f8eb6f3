import csv
from dataclasses import replace

import numpy as np
import pytest

from rlfast.cli import main
from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.experiment.report.scores import REFERENCES, RunLoggers, score_of, task_of
from rlfast.experiment.run import train
from rlfast.utils.logger import CSVLogger


@pytest.mark.parametrize(
    ("env_id", "task"),
    [
        ("HalfCheetah-v5", "halfcheetah"),
        ("halfcheetah-medium-replay-v2", "halfcheetah"),
        ("Walker2d-v4", "walker2d"),
        ("Ant-v5", "ant"),
        ("AntMaze_UMaze-v4", "antmaze"),
        ("antmaze-large-diverse-v2", "antmaze"),
        ("AdroitHandPen-v1", "pen"),
        ("pen-cloned-v1", "pen"),
        ("FrankaKitchen-v1", "kitchen"),
        ("maze2d-umaze-v1", "maze2d-umaze"),
        ("maze2d-large-dense-v1", "maze2d-large-dense"),
        ("module:Hopper-v5", "hopper"),
        ("Pendulum-v1", None),
        ("HopperOfMine-v1", None),
        ("InvertedPendulum-v5", None),
    ],
)
def test_tasks_are_found_by_the_names_of_environments(env_id, task):
    assert task_of(env_id) == task


def test_random_actions_score_0_and_experts_100():
    for task, (least, most) in REFERENCES.items():
        assert least < most
        assert score_of(task, least) == 0
        assert score_of(task, most) == pytest.approx(100)
    assert score_of("halfcheetah", 4000.0) == pytest.approx(34.475, abs=1e-3)  # 100 * 4280.178953 / 12415.178953


def test_only_tests_have_scores(tmp_path):
    loggers = RunLoggers([CSVLogger(tmp_path / "a.csv", train_interval=1)], "hopper")
    loggers.log_train_data({"returns_stat": {"mean": 1607.013848}}, 1)
    loggers.log_test_data({"returns_stat": {"mean": 1607.013848}}, 2)
    train_row, test_row = csv.DictReader((tmp_path / "a.csv").read_text().splitlines())
    assert train_row.get("train/normalized_score") in (None, "")
    assert float(test_row["test/normalized_score"]) == pytest.approx(50)


def test_offline_runs_log_and_report_the_score(tmp_path, monkeypatch, capsys):
    """Pendulum stands for a task, as MuJoCo is not always there."""
    monkeypatch.setattr("rlfast.experiment.report.scores.REFERENCES", REFERENCES | {"pendulum": (-1500.0, -100.0)})
    from rlfast.data import ReplayBuffer

    buffer, rng = ReplayBuffer(20), np.random.default_rng(0)
    for t in range(20):
        obs, obs_next = rng.normal(size=(2, 3)).astype(np.float32)
        act = rng.uniform(-1, 1, 1).astype(np.float32)
        buffer.append(obs=obs, act=act, rew=1.0, terminated=t == 19, truncated=False, obs_next=obs_next)
    buffer.save(tmp_path / "data")
    size = {
        "max_steps": 8,
        "eval_interval": 4,
        "eval_episodes": 2,
        "eval_envs": 2,
        "hidden_sizes": (8,),
        "batch_size": 8,
    }
    config = ALGORITHMS["il"].config(env="Pendulum-v1", data=str(tmp_path / "data"), run_dir=tmp_path / "run")
    result = train(replace(config, progress=False, **size))
    metrics = (tmp_path / "run" / "metrics.csv").read_text()
    rows = [row for row in csv.DictReader(metrics.splitlines()) if row["scope"] == "test"]
    assert len(rows) == 3
    for row in rows:
        wanted = 100 * (float(row["test/returns_stat/mean"]) + 1500) / 1400
        assert float(row["test/normalized_score"]) == pytest.approx(wanted)
    assert f"normalized score    {float(rows[-1]['test/normalized_score']):.1f}" in result.summary()
    capsys.readouterr()
    assert main(["eval", str(tmp_path / "run"), "--episodes", "3"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    wanted = 100 * (float(first.split()[3]) + 1500) / 1400
    assert second == f"normalized score {wanted:.1f}, where an expert of D4RL has 100"
