"""Every preset with a return at which it stops reaches it."""

import sys
from dataclasses import replace

import pytest

from rlfast.experiment import ALGORITHMS
from rlfast.experiment.config import DataConfig
from rlfast.experiment.run import train

THRESHOLDS = {
    "Acrobot-v1": -100.0,
    "BipedalWalker-v3": 300.0,
    "CartPole-v1": 475.0,
    "Catch-v0": 0.9,
    "InvertedPendulum-v5": 950.0,
    "LunarLander-v3": 200.0,
    "MountainCarContinuous-v0": 90.0,
    "Pendulum-v1": -200.0,
}
OWN_THRESHOLDS = {
    **dict.fromkeys([("drqn", "CartPole-v1"), ("r2d2", "CartPole-v1")], 400.0),  # without velocities
    **dict.fromkeys([("npg", "Pendulum-v1"), ("trpo", "Pendulum-v1")], -250.0),
    ("bdq", "Pendulum-v1"): -300.0,
}
PACKAGES = {"InvertedPendulum-v5": "mujoco", "LunarLander-v3": "Box2D", "BipedalWalker-v3": "Box2D"}
VARIANTS = [{"prioritized": True}, {"dueling": True}, {"n_step": 1}, {"num_envs": 1}]
PRESETS = [
    (name, env)
    for name, algorithm in ALGORITHMS.items()
    for env, preset in algorithm.presets.items()
    if preset.stop_return is not None and not isinstance(preset, DataConfig)
]


def reaches(preset, **changes):
    result = train(replace(preset, progress=False, **changes))
    sys.stdout.write(result.summary() + "\n")
    assert result.reached
    assert len(result.test.returns) == preset.eval_episodes


def test_presets_have_their_thresholds():
    assert len(PRESETS) == 45
    for name, env in PRESETS:
        preset = ALGORITHMS[name].preset(env)
        assert preset.stop_return == OWN_THRESHOLDS.get((name, env), THRESHOLDS[env])
        assert preset.eval_episodes == (100 if env == "Catch-v0" else 20)
        assert getattr(preset, "observe", (0, 2)) == (0, 2)


@pytest.mark.learning
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("name", "env"), PRESETS)
def test_preset_reaches_its_threshold(name, env, seed, run_dir):
    pytest.importorskip(PACKAGES.get(env, "rlfast"))
    reaches(ALGORITHMS[name].preset(env), seed=seed, run_dir=run_dir)


@pytest.mark.learning
@pytest.mark.parametrize("changes", [{"seed": 3}, {"seed": 4}, *VARIANTS])
def test_variants_of_dqn_solve_cartpole(changes, run_dir):
    reaches(ALGORITHMS["dqn"].preset("CartPole-v1"), run_dir=run_dir, **changes)
