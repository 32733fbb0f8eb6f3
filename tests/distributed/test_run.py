"""Whole runs whose actors are in this process."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from rlfast.distributed import resume, train
from rlfast.experiment import evaluate
from rlfast.experiment import train as train_in_one_process
from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.experiment.checkpoint import load_policy
from rlfast.experiment.config import RunConfig
from rlfast.experiment.run import ConfigError


def config(name="dqn", **changes):
    made = ALGORITHMS[name].config(
        ray="in-process", collectors=2, shards=2, num_envs=4, max_steps=400, start_steps=60, collect_steps=8,
        updates_per_step=0.25, batch_size=8, buffer_size=800, chunk_steps=8, eval_envs=2, eval_episodes=2,
        eval_interval=200, hidden_sizes=(8,), progress=False,
    )  # fmt: skip
    return replace(made, **changes)


def weights(run_dir):
    from safetensors.torch import load_file

    return load_file(run_dir / "checkpoint" / "policy.safetensors")


@pytest.mark.parametrize("name", ["dqn", "c51", "rainbow", "iqn", "discrete-sac"])
def test_algorithms_of_discrete_actions(name, run_dir):
    result = train(config(name, run_dir=run_dir))
    assert result.env_step == 400
    assert result.info.gradient_step == 85
    assert {path.name for path in run_dir.iterdir()} >= {
        "config.json",
        "metrics.csv",
        "checkpoint",
        "learning_curve.png",
    }


@pytest.mark.parametrize("name", ["sac", "td3", "redq", "crossq"])
def test_algorithms_of_continuous_actions(name, run_dir):
    result = train(config(name, env="Pendulum-v1", run_dir=run_dir, batch_size=16))
    assert (result.env_step, result.info.gradient_step) == (400, 85)


@pytest.mark.parametrize("prioritized", [False, True])
def test_sequences(prioritized, run_dir):
    result = train(config("r2d2", run_dir=run_dir, sequence_length=4, burn_in=2, prioritized=prioritized))
    assert (result.env_step, result.info.gradient_step) == (400, 85)


def test_priorities(run_dir):
    result = train(config(prioritized=True, beta=0.3, beta_end=0.9, beta_steps=400, run_dir=run_dir))
    assert result.info.gradient_step == 85


def test_the_same_seed_in_one_process_gives_the_same_weights(tmp_path):
    for name in ("one", "two"):
        train(config(run_dir=tmp_path / name))
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert all(torch.equal(one[name], two[name]) for name in one)
    train(config(run_dir=tmp_path / "three", seed=1))
    assert not all(torch.equal(one[name], value) for name, value in weights(tmp_path / "three").items())


def test_a_run_goes_on(run_dir):
    train(config(run_dir=run_dir, prioritized=True))
    result = resume(run_dir, max_steps=480)
    assert (result.env_step, result.info.gradient_step) == (480, 105)
    assert json.loads((run_dir / "config.json").read_text())["config"]["max_steps"] == 480


def test_a_run_is_evaluated_without_ray(run_dir):
    train(config(run_dir=run_dir))
    assert len(evaluate(run_dir, 3).returns) == 3


def test_a_run_without_ray_is_that_of_one_process(tmp_path):
    plain = config(ray=None, collectors=1, shards=1, chunk_steps=64)
    train(replace(plain, run_dir=tmp_path / "one"))
    train_in_one_process(replace(plain, run_dir=tmp_path / "two"))
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("dqn", {"shards": 3}, "--shards 3 needs as many --collectors, got 2"),
        ("dqn", {"normalize_obs": True}, "--normalize-obs needs statistics of all environments"),
        ("xqc", {"env": "Pendulum-v1"}, "reads rows that follow those of a sample, in one process: leave it out"),
        ("dqn", {"normalize_reward": True}, "--normalize-reward needs statistics of all environments"),
        ("dqn", {"recurrent": True}, "--ray supports --recurrent only with r2d2"),
        ("dqn", {"ray": "nonsense"}, "must be HOST:PORT, auto, local or in-process"),
        ("dqn", {"ray": "127.0.0.1:1"}, r"--ray 127\.0\.0\.1:1: no Ray cluster answers there"),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_is_written(name, changes, message, run_dir):
    if "127" in message or "nonsense" in str(changes):
        pytest.importorskip("ray")
    with pytest.raises(ConfigError, match=message):
        train(config(name, run_dir=run_dir, **changes))
    assert not run_dir.exists()


def test_data_and_ray_exclude_each_other(run_dir):
    made = ALGORITHMS["cql"].config(ray="in-process", run_dir=run_dir, data="x")
    with pytest.raises(ConfigError, match="this algorithm learns from data"):
        train(made)


def test_rays_absence_is_said(run_dir, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install '\.\[ray\]'"):
        train(config(ray="auto", run_dir=run_dir))
    assert not run_dir.exists()


@pytest.mark.parametrize(
    ("address", "found", "given"),
    [
        ("auto", True, {"address": "auto"}),
        ("auto", False, {"address": "local", "include_dashboard": False}),
        ("local", True, {"address": "local", "include_dashboard": False}),
    ],
)
def test_a_cluster_that_does_not_start_is_one_line(address, found, given, run_dir, monkeypatch):
    asked = {}

    def init(**options):
        asked.update(options)
        raise Exception("the node timed out\nand more")  # noqa: TRY002 (as Ray does)

    fake = SimpleNamespace(is_initialized=lambda: False, init=init)
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("rlfast.distributed.cluster.ray_cluster.RayCluster._finds_one", staticmethod(lambda: found))
    with pytest.raises(ConfigError, match=f"^--ray {address}: Exception: the node timed out$"):
        train(config(ray=address, run_dir=run_dir))
    assert given.items() <= asked.items()
    assert not run_dir.exists()


def test_the_function_of_one_process_says_who_can(run_dir):
    with pytest.raises(ConfigError, match=r"needs rlfast\.distributed\.train"):
        train_in_one_process(config(run_dir=run_dir))


@pytest.mark.parametrize("field", ["collectors", "shards", "learners"])
def test_several_processes_need_a_place(field):
    with pytest.raises(ValueError, match=f"--{field} 2 spreads a run over processes"):
        RunConfig(**{field: 2})


def test_checkpoints_are_those_of_one_process(run_dir):
    train(config(run_dir=run_dir))
    from rlfast.experiment.build import build

    parts = build(config(ray=None, collectors=1, shards=1))
    assert load_policy(run_dir / "checkpoint", parts.policy)["env_step"] == 400
    parts.close()
