"""Runs whose observations and rewards are normalized."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from experiment.small import REPLAY, SMALL
from experiment.test_run import parameter_hash, stopped_after
from rlfast.experiment import ALGORITHMS, evaluate
from rlfast.experiment.build import build
from rlfast.experiment.checkpoint import load_normalization
from rlfast.experiment.run import ConfigError, resume, train
from rlfast.utils import RunningMeanStd
from rlfast.utils.logger import CSVLogger

NORMALIZED = {"normalize_obs": True, "normalize_reward": True}


def ppo(run_dir=None, **changes):
    """PPO on a native environment whose rewards are far from 1."""
    options = SMALL | {"max_steps": 600, "eval_interval": 200, "collect_steps": 200, "batch_size": 50, "repeat": 1}
    return ALGORITHMS["ppo"].config(env="Pendulum-v1", run_dir=run_dir, **options | NORMALIZED | changes)


def test_training_counts_and_tests_only_apply_the_statistics():
    parts = build(ppo())
    train_envs, test_envs = parts.train_collector.env, parts.test_collector.env
    parts.train_collector.collect(n_step=100)
    rms = test_envs.get_obs_rms()
    assert rms is train_envs.venv.get_obs_rms()
    assert rms.count == 102
    mean = rms.mean.copy()
    parts.test_collector.evaluate(2)
    assert (rms.count, rms.mean.tolist()) == (102, mean.tolist())
    buffer = parts.train_collector.buffer
    assert np.abs(buffer.rew[:]).max() <= 10
    assert -17 < buffer.rew.mean() < 0
    assert train_envs.return_rms.count == 100
    assert train_envs.gamma == 0.99
    parts.close()


@pytest.mark.parametrize("backend", ["native", "in-process", "process"])
def test_each_backend_is_normalized_alike(backend):
    parts = build(ppo(backend=backend))
    parts.train_collector.collect(n_step=200)
    rms = parts.test_collector.env.get_obs_rms()
    obs = parts.train_collector.buffer.obs[:]
    assert rms.count == 202
    assert np.abs(obs.mean(0)).max() < 1
    assert 0.1 < obs.std() < 2
    own = parts.train_collector.env.return_rms
    assert (own.count, own.mean < -1) == (200, True)
    parts.close()


def test_logs_are_of_the_environments_own_rewards(run_dir):
    train(ppo(run_dir))
    rows = [row for row in CSVLogger(run_dir / "metrics.csv").rows() if row["scope"] == "train"]
    returns = [float(row["train/returns_stat/mean"]) for row in rows]
    assert returns
    assert max(returns) < -500  # 200 scaled rewards do not reach that


def test_without_it_nothing_is_normalized():
    parts = build(ppo(normalize_obs=False, normalize_reward=False))
    parts.train_collector.collect(n_step=200)
    obs, rew = parts.train_collector.buffer.obs[:], parts.train_collector.buffer.rew[:]
    np.testing.assert_allclose(obs[:, 0] ** 2 + obs[:, 1] ** 2, 1, rtol=1e-5)  # cosine and sine
    assert rew.min() < -5
    parts.close()


@pytest.mark.pitfall("F10")
@pytest.mark.parametrize("name", ["ppo", "sac"])
@pytest.mark.parametrize("backend", ["native", "process"])
def test_a_run_that_was_stopped_goes_on_exactly(name, backend, tmp_path, monkeypatch):
    config = ppo(backend=backend)
    if name == "sac":
        options = REPLAY | {"max_steps": 500, "eval_interval": 200, "collect_steps": 2, "start_steps": 50}
        options |= {"env": "Pendulum-v1", "backend": backend, "updates_per_step": 0.1}
        config = ALGORITHMS["sac"].config(**options, **NORMALIZED)
    straight = train(replace(config, run_dir=tmp_path / "straight"))
    assert stopped_after(replace(config, run_dir=tmp_path / "stopped"), 300, monkeypatch).env_step < config.max_steps
    torch.manual_seed(5)
    resume(tmp_path / "stopped")
    assert parameter_hash(tmp_path / "stopped") == parameter_hash(straight.run_dir)
    saved = [load_normalization(run / "checkpoint") for run in (tmp_path / "stopped", straight.run_dir)]
    assert saved[0]["mean"].tolist() == saved[1]["mean"].tolist()
    assert saved[0]["count"] == saved[1]["count"] > config.max_steps


def test_an_evaluation_shows_the_policy_what_its_tests_did(run_dir, monkeypatch):
    train(ppo(run_dir))
    applied = []
    norm = RunningMeanStd.norm
    monkeypatch.setattr(RunningMeanStd, "norm", lambda self, data: applied.append(self) or norm(self, data))
    returns = evaluate(run_dir, 2).returns
    saved = load_normalization(str(run_dir / "checkpoint"))
    assert saved["count"] > 600
    assert {one.count for one in applied} == {saved["count"]}  # no observation was added
    assert applied[0].mean.tolist() == saved["mean"].tolist()
    assert returns.max() < -200  # of the environment's own rewards
    assert evaluate(run_dir, 2).returns.tolist() == returns.tolist()


def test_a_checkpoint_without_statistics_is_told(run_dir):
    train(ppo(run_dir, normalize_obs=False))
    with pytest.raises(ValueError, match="it has no statistics of observations"):
        load_normalization(str(run_dir / "checkpoint"))


def test_only_boxes_are_normalized(run_dir):
    config = ALGORITHMS["dqn"].config(env="FrozenLake-v1", normalize_obs=True, run_dir=run_dir)
    with pytest.raises(ConfigError, match=r"--normalize-obs scales observations of a Box, and those of FrozenLake-v1"):
        train(config)


def test_an_evaluation_hides_what_training_hid(run_dir):
    """DRQN is trained on CartPole without velocities."""
    preset = ALGORITHMS["drqn"].preset("CartPole-v1")
    assert preset.observe
    train(replace(preset, max_steps=100, start_steps=50, eval_episodes=2, eval_envs=2, run_dir=run_dir, progress=False))
    assert len(evaluate(run_dir, 2).returns) == 2
