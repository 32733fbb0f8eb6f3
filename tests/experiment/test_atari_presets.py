"""The settings of runs on Atari games: the presets, and random actions in tests."""

from contextlib import closing

import numpy as np
import pytest

from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.experiment.build import build
from rlfast.experiment.environments import make_envs

pytest.importorskip("ale_py", reason="ale-py is not installed")

REPLAY = {
    "num_envs": 10,
    "collect_steps": 10,
    "updates_per_step": 0.1,
    "buffer_size": 100_000,
    "n_step": 3,
    "gamma": 0.99,
    "max_steps": 10_000_000,
    "eval_interval": 100_000,
}
VALUES = {
    **REPLAY,
    "batch_size": 32,
    "target_update_freq": 500,
    "eps_start": 1.0,
    "eps_end": 0.05,
    "eps_steps": 1_000_000,
    "eval_eps": 0.005,
}
OWN = {
    "dqn": {**VALUES, "learning_rate": 1e-4, "huber": False},
    "c51": {**VALUES, "learning_rate": 1e-4, "atoms": 51, "v_min": -10.0, "v_max": 10.0},
    "qrdqn": {**VALUES, "learning_rate": 1e-4, "quantiles": 200},
    "iqn": {**VALUES, "learning_rate": 1e-4, "samples": 32, "online_samples": 8, "target_samples": 8},
    "fqf": {**VALUES, "learning_rate": 5e-5, "fraction_learning_rate": 2.5e-9, "fractions": 32, "entropy_coef": 10.0},
    "rainbow": {**VALUES, "learning_rate": 6.25e-5, "alpha": 0.5, "beta": 0.4, "beta_steps": 5_000_000},
    "ppo": {
        "num_envs": 10,
        "collect_steps": 1_000,
        "repeat": 4,
        "batch_size": 256,
        "eps_clip": 0.1,
        "vf_coef": 0.25,
        "activation": "relu",
        "shared_features": True,
    },
    "discrete-sac": {**REPLAY, "learning_rate": 1e-5, "alpha": 0.05, "auto_alpha": False, "batch_size": 64},
}


@pytest.mark.parametrize("name", OWN)
def test_presets_are_those_of_the_reference(name):
    for game in ("ALE/Pong-v5", "ALE/Breakout-v5", "PongNoFrameskip-v4"):
        config = ALGORITHMS[name].preset(game)
        assert config.env == game
        assert {field: getattr(config, field) for field in OWN[name]} == OWN[name]
    assert ALGORITHMS[name].preset("Acrobot-v1") != config


def test_actions_of_tests_are_random_at_their_own_rate(tiny, monkeypatch):
    config = tiny(eval_eps=0.25, eps_start=1.0, eps_end=1.0)
    parts = build(config)
    seen = []
    with closing(parts):
        explore = parts.policy.exploration_noise
        monkeypatch.setattr(parts.policy, "exploration_noise", lambda *a: seen.append(parts.policy.eps) or explore(*a))
        parts.before_collect(0, 0)
        parts.train_collector.reset()
        parts.train_collector.collect(n_step=2)
        parts.before_test(0, 0)
        parts.test_collector.evaluate(2)
        parts.before_collect(0, 2)
        parts.train_collector.collect(n_step=2)
    assert (seen[0], set(seen[1:-1]), seen[-1]) == (1.0, {0.25}, 1.0)


def test_actions_of_tests_are_greedy_if_nothing_is_said(tiny, monkeypatch):
    parts = build(tiny())
    with closing(parts):
        monkeypatch.setattr(parts.policy, "exploration_noise", lambda *_: pytest.fail("a test explores"))
        parts.before_test(0, 0)
        parts.test_collector.evaluate(2)


@pytest.mark.parametrize("backend", ["gymnasium", "ale"])
def test_the_backend_of_games_is_chosen(tiny, backend):
    with closing(make_envs(tiny(env="ALE/Pong-v5", env_backend=backend, backend="in-process"), "train")) as envs:
        infos = envs.reset()[1]
        assert ("game_return" in infos[0]) == (backend == "ale")
        assert envs.step(np.zeros(2, int))[0].shape == (2, 4, 84, 84)
