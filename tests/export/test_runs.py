"""The command ``rlfast export``: runs with normalization, picked observations and all actions."""

import json

import gymnasium as gym
import numpy as np
import pytest

import rlfast
from rlfast.cli import main
from rlfast.data import Batch
from rlfast.experiment import train
from rlfast.experiment.algorithms import ALGORITHMS

SHORT = {"max_steps": 64, "num_envs": 2, "eval_episodes": 1, "eval_envs": 1, "hidden_sizes": (8,), "progress": False}
REPLAY = {"buffer_size": 100, "start_steps": 20, "batch_size": 8, "collect_steps": 8}
RUNS = {
    "normalized": ("ppo", "Pendulum-v1", {"normalize_obs": True}),
    "drawn": ("ppo", "CartPole-v1", {"deterministic_eval": False, "normalize_obs": True}),
    "stretched": ("sac", "Pendulum-v1", REPLAY),
    "discrete": ("dqn", "CartPole-v1", REPLAY),
    "numbers": ("dqn", "FrozenLake-v1", REPLAY),
    "matrices of noise": ("ppo", "Pendulum-v1", {"sde": True}),
}


@pytest.fixture
def run(run_dir):
    """Trains a run for a moment."""

    def run(name):
        algorithm, env, settings = RUNS[name]
        config = ALGORITHMS[algorithm].config(env=env, run_dir=run_dir, **SHORT, **settings)
        return train(config).run_dir

    return run


@pytest.mark.parametrize(("name", "begins"), [("a.h", b"/* PPOPolicy"), ("a.rlfast", b""), ("a", b"")])
def test_the_suffix_says_the_format(name, begins, run, tmp_path):
    assert main(["export", str(run(next(iter(RUNS)))), "--out", str(tmp_path / name)]) == 0
    content = (tmp_path / name).read_bytes()
    assert content.startswith(begins)
    assert (b"#include" in content) is bool(begins)


@pytest.mark.parametrize("name", RUNS)
def test_exported_runs_act_as_loaded_ones(name, run, tmp_path, capsys):
    folder, out = run(name), tmp_path / "policy.rlfast"
    capsys.readouterr()
    assert main(["export", str(folder), "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}: {out.stat().st_size:,} bytes\n"
    trained, exported = rlfast.load(folder), rlfast.load_policy(out)
    assert exported.metadata["about"]["env"] == RUNS[name][1]
    seed = json.loads((folder / "config.json").read_text())["config"]["seed"]
    exported.seed(rlfast.experiment.config.stream_seed(seed, "policy/eval"))
    env = gym.make(RUNS[name][1])
    obs, _ = env.reset(seed=0)
    for _ in range(20):
        action = exported(obs)
        wanted = trained.compute_action(obs)
        assert np.allclose(action, wanted, atol=2e-6)
        obs, _, terminated, *_ = env.step(action)
        if terminated:
            obs, _ = env.reset()
    env.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "--out", "x"], "nowhere"),
        (["{run}"], "--out"),
        (["{run}", "--out", "x", "--to", "matlab"], "invalid choice: 'matlab'"),
        (["{run}", "--out", "{run}/nowhere/x"], "No such file"),
    ],
)
def test_errors_of_the_command_are_one_line(arguments, message, run, capsys):
    folder = run("discrete")
    capsys.readouterr()
    assert main(["export", *(one.format(run=folder) for one in arguments)]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1


def test_what_cannot_be_exported_is_said(run_dir, tmp_path, capsys):
    config = ALGORITHMS["ppo"].config(env="Pendulum-v1", run_dir=run_dir, sde=True, deterministic_eval=False, **SHORT)
    folder = train(config).run_dir
    capsys.readouterr()
    assert main(["export", str(folder), "--out", str(tmp_path / "x")]) == 2
    assert "PPOPolicy cannot be exported: state-dependent noise (sde)" in capsys.readouterr().err
    assert not list(tmp_path.glob("x*"))


@pytest.mark.parametrize("to", ["rlfast", "c"])
def test_policies_of_pictures_are_exported(to, tmp_path):
    settings = ["num-envs=2", "eval-episodes=2", "eval-envs=2", "max-steps=64", "start-steps=16", "no-progress"]
    command = [
        "train",
        "dqn",
        "--env",
        "Catch-v0",
        "--run-dir",
        str(tmp_path / "run"),
        *(f"--{one}" for one in settings),
    ]
    assert main(command) == 0
    assert main(["eval", str(tmp_path / "run"), "--episodes", "2"]) == 0  # an environment that Gymnasium does not have
    assert main(["export", str(tmp_path / "run"), "--to", to, "--out", str(tmp_path / "out")]) == 0
    if to == "rlfast":
        ours, theirs = rlfast.load_policy(tmp_path / "out"), rlfast.load(tmp_path / "run")
        space = rlfast.make_vec("Catch-v0", 1).single_observation_space
        pictures = [space.sample() for _ in range(20)]
        assert [int(ours(one)) for one in pictures] == [theirs.compute_action(one) for one in pictures]


def test_policies_with_a_hidden_state_are_exported(tmp_path):
    settings = ["num-envs=2", "eval-episodes=2", "eval-envs=2", "max-steps=64", "start-steps=16", "no-progress"]
    settings += ["recurrent", "hidden-sizes=8"]
    command = ["train", "dqn", "--env", "CartPole-v1", "--run-dir", str(tmp_path / "run")]
    assert main([*command, *(f"--{one}" for one in settings)]) == 0
    assert main(["export", str(tmp_path / "run"), "--to", "rlfast", "--out", str(tmp_path / "out")]) == 0
    ours, theirs, state = rlfast.load_policy(tmp_path / "out"), rlfast.load(tmp_path / "run"), None
    for obs in np.random.default_rng(0).normal(size=(30, 8, 4)).astype(np.float32):
        result = theirs(Batch(obs=obs, info={}), state)
        state = result.state
        assert ours(obs).tolist() == result.act.tolist()
