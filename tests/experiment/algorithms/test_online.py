"""Runs that continue offline runs in the environment."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from experiment.algorithms.test_offline import CONTINUOUS, DISCRETE, stopped_at, tiny  # noqa: F401 (a fixture)
from experiment.test_run import parameter_hash
from rlfast.cli.main import main
from rlfast.experiment import evaluate
from rlfast.experiment.build import build
from rlfast.experiment.config import RunWarning
from rlfast.experiment.run import ConfigError, go_online, resume, train
from rlfast.experiment.run_dir import read_config
from rlfast.trainer import OffpolicyTrainer

REWARDED = [name for name in (*CONTINUOUS, *DISCRETE) if name != "il"]
ONLINE = {"online_steps": 40, "start_steps": 8, "updates_per_step": 0.5, "eval_interval": 20}


@pytest.fixture
def offline(tiny):  # noqa: F811
    """Trains an algorithm offline, and returns the folder of the run."""
    return lambda name, **changes: train(tiny(name, **changes)).run_dir


@pytest.mark.parametrize("name", REWARDED)
def test_it_begins_with_the_policy_and_is_resumed_exactly(name, offline, tmp_path, monkeypatch):
    before = offline(name)
    files = {path: path.read_bytes() for path in before.rglob("*") if path.is_file()}
    straight = go_online(before, **ONLINE)
    assert straight.run_dir == tmp_path / "run-online"
    assert (straight.env_step, straight.info.gradient_step) == (40, 16)
    assert {path: path.read_bytes() for path in before.rglob("*") if path.is_file()} == files
    assert parameter_hash(straight.run_dir) != parameter_hash(before)
    assert "environment steps   40" in straight.summary()
    with monkeypatch.context() as patch:
        stopped_at(30, OffpolicyTrainer, "env_step", patch)
        assert go_online(before, run_dir=tmp_path / "stopped", **ONLINE).env_step == 30
    torch.manual_seed(5)
    resumed = resume(tmp_path / "stopped")
    assert (resumed.env_step, resumed.test.returns.tolist()) == (40, straight.test.returns.tolist())
    assert parameter_hash(tmp_path / "stopped") == parameter_hash(straight.run_dir)
    assert evaluate(straight.run_dir, 2).n_collected_episodes == 2  # without the data


@pytest.mark.parametrize("name", ["iql", "td3-bc", "cql", "discrete-cql"])
def test_without_an_update_the_policy_is_that_of_the_offline_run(name, offline):
    before = offline(name)
    with pytest.warns(RunWarning, match="nothing is learned: --start-steps 40 leave none of --online-steps 40"):
        after = go_online(before, **ONLINE | {"start_steps": 40}).run_dir
    weights = [load_file(folder / "checkpoint" / "policy.safetensors") for folder in (before, after)]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])


def test_a_run_killed_before_its_first_checkpoint_begins_anew(offline, tmp_path, monkeypatch):
    before = offline("iql")
    straight = go_online(before, **ONLINE)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(OffpolicyTrainer, "policy_update_fn", killed)
        assert go_online(before, run_dir=tmp_path / "killed", **ONLINE).unsaved == "it was interrupted at once"
    with pytest.warns(RunWarning, match="was stopped before its first checkpoint: it begins anew"):
        resume(tmp_path / "killed")
    assert parameter_hash(tmp_path / "killed") == parameter_hash(straight.run_dir)


def test_folders_are_numbered_and_runs_go_on_further(offline, tmp_path):
    before = offline("iql")
    first, second = go_online(before, **ONLINE), go_online(before, **ONLINE)
    assert second.run_dir == tmp_path / "run-online-2"
    assert parameter_hash(first.run_dir) == parameter_hash(second.run_dir)
    assert resume(first.run_dir, online_steps=44).env_step == 44


def test_half_of_a_batch_is_collected(offline, tiny):  # noqa: F811
    parts = build(tiny("iql", **ONLINE, data_share=0.25))
    given = {"policy": parts.policy, "max_epoch": 1, "step_per_epoch": 9, "train_collector": parts.train_collector}
    trainer = parts.trainer(**given, show_progress=False, verbose=False)
    trainer.run()
    own = parts.train_collector.buffer
    batch, indices = trainer._replay().sample(8)
    assert (indices >= own.maxsize).tolist() == [False] * 6 + [True] * 2
    assert np.array_equal(batch.obs[6:], trainer.buffer[indices[6:] - own.maxsize].obs)
    assert np.array_equal(batch.obs[:6], own[indices[:6]].obs)


@pytest.mark.parametrize(("name", "sigma"), [("td3-bc", 0.3), ("rebrac", 0.3), ("iql", None), ("cql", None)])
def test_deterministic_actors_explore_by_noise(tiny, name, sigma):  # noqa: F811
    noise = build(tiny(name, **ONLINE, **({} if sigma is None else {"noise": sigma}))).policy._exploration_noise
    assert (noise is None) if sigma is None else noise._sigma == sigma


def test_rewards_are_scaled_as_those_of_the_data(tiny):  # noqa: F811
    rows, returns = [], []
    for scale in (1.0, 0.25):
        collector = build(tiny("iql", **ONLINE, reward_scale=scale)).train_collector
        stats = collector.collect(n_episode=1, reset_before_collect=True)
        rows.append(collector.buffer.rew[: len(collector.buffer)])
        returns.append(stats.returns[0])
    assert rows[1] == pytest.approx(rows[0] * 0.25)
    assert returns[0] == returns[1] == pytest.approx(rows[0].sum())


def test_observations_are_scaled_as_those_of_the_data(tiny):  # noqa: F811
    parts = build(tiny("iql", **ONLINE, normalize_obs=True))
    plain = build(tiny("iql", **ONLINE))
    statistics = [one.env.get_obs_rms() for one in (parts.train_collector, parts.test_collector)]
    assert np.array_equal(statistics[0].mean, statistics[1].mean)
    seen, wanted = (one.train_collector.env.reset(seed=0)[0] for one in (parts, plain))
    assert seen == pytest.approx(statistics[0].norm(wanted))
    before = statistics[0].mean.copy()
    parts.train_collector.collect(n_step=5, reset_before_collect=True)
    assert np.array_equal(statistics[0].mean, before)


def test_episodes_that_were_collected_calibrate_cql(tiny):  # noqa: F811
    parts = build(tiny("cql", **ONLINE, gamma=0.5))
    collector = parts.train_collector
    given = {"policy": parts.policy, "max_epoch": 1, "step_per_epoch": 9, "train_collector": collector}
    trainer = parts.trainer(**given, show_progress=False, verbose=False)
    collector.collect(n_step=203, reset_before_collect=True)  # an episode of 200 steps
    mixed, own = trainer._replay(), collector.buffer
    indices = np.array([198, 199, 202, own.maxsize, own.maxsize + 59])
    rows = parts.policy.process_fn(mixed[indices], mixed, indices)
    data = trainer.buffer.calibration_returns
    wanted = [own.rew[198] + 0.5 * own.rew[199], own.rew[199], -np.inf, data[0], data[59]]
    assert rows.calibration_returns.tolist() == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"online_steps": -1}, "--online-steps must not be negative"),
        ({"data_share": 1.5}, "--data-share must be within 0 and 1"),
        ({"hidden_sizes": (9,)}, "is of another network"),
        ({"online": 3}, "online"),
        ({"ray": "in-process"}, "--ray"),
    ],
)
def test_changes_that_are_not_possible(offline, tmp_path, changes, message):
    before = offline("iql")
    with pytest.raises(ConfigError, match=message):
        go_online(before, **ONLINE | changes)
    assert not (tmp_path / "run-online").exists()


def test_runs_that_cannot_go_online(offline, tmp_path):
    before = offline("iql", normalize_obs=True)
    with pytest.raises(ConfigError, match="--normalize-obs scales by statistics of the data"):
        go_online(before, **ONLINE, data=str(tmp_path / "data"))
    online = go_online(before, **ONLINE).run_dir
    with pytest.raises(ConfigError, match="is of IQL that collects: leave it out"):
        go_online(online, **ONLINE)
    with pytest.raises(ConfigError, match="is of IL: leave it out"):
        go_online(offline("il", run_dir=tmp_path / "il"), **ONLINE)
    with pytest.raises(ConfigError, match="is no run folder"):
        go_online(tmp_path / "none", **ONLINE)


def test_settings_without_effect(tiny):  # noqa: F811
    with pytest.warns(RunWarning, match="without effect: --data-share, --noise .*learns from data alone"):
        train(tiny("td3-bc", data_share=0.25, noise=0.3))


def test_the_command(offline, tmp_path, capsys):
    before = str(offline("iql"))
    settings = ["--online-steps", "40", "--start-steps=8", "--eval-interval", "20"]
    assert main(["train", "--resume", before, *settings]) == 0
    assert "environment steps   40" in capsys.readouterr().out
    online = tmp_path / "run-online"
    assert read_config(online) == replace(
        read_config(before), run_dir=online, online_steps=40, start_steps=8, eval_interval=20
    )
    assert main(["status", str(online)]) == 0
    assert "40 of 40 (100%)" in capsys.readouterr().out
    assert main(["train", "--resume", str(online), "--online-steps", "44"]) == 0
    assert "environment steps   44" in capsys.readouterr().out
    assert main(["train", "--resume", before, "--online-steps", "9", "--seeds", "0-1"]) == 2
    assert "--seeds is for new runs: leave it out" in capsys.readouterr().err
