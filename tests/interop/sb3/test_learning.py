"""Learning curves with rlfast's buffers and with SB3's own, over five seeds."""

import sys

import numpy as np
import pytest

pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed: pip install '.[sb3]'")
from stable_baselines3 import DQN
from stable_baselines3.common import buffers as host

from rlfast.interop import sb3

SEEDS = range(5)
PARTS, STEPS = 5, 2000
SETTINGS = {
    "learning_rate": 2.3e-3,
    "batch_size": 64,
    "buffer_size": 4000,
    "learning_starts": 1000,
    "target_update_interval": 10,
    "train_freq": 128,
    "gradient_steps": 64,
    "exploration_fraction": 0.3,
    "exploration_final_eps": 0.04,
    "device": "cpu",
}


def curve(algorithm, seed, **kwargs):
    """Mean return of the last 20 episodes after each part of the run, in which the buffer is overwritten twice."""
    model = algorithm("MlpPolicy", "CartPole-v1", seed=seed, policy_kwargs={"net_arch": [64, 64]}, **SETTINGS, **kwargs)
    means = []
    for _ in range(PARTS):
        model.learn(STEPS, reset_num_timesteps=False)
        means.append(np.mean([episode["r"] for episode in model.ep_info_buffer][-20:]))
    return means


@pytest.fixture(scope="module")
def theirs():
    return np.array([curve(DQN, seed, replay_buffer_class=host.ReplayBuffer) for seed in SEEDS])


@pytest.mark.learning
@pytest.mark.parametrize("name", ["the same arguments", "memory saved beside timeouts", "priorities"])
def test_the_curve_lies_in_the_hosts_band(name, theirs):
    """Two standard errors of the difference of two means, or better."""
    saving = {"replay_buffer_class": sb3.ReplayBuffer, "optimize_memory_usage": True}
    algorithm, kwargs = {
        "the same arguments": (DQN, {"replay_buffer_class": sb3.ReplayBuffer}),
        "memory saved beside timeouts": (DQN, saving),
        "priorities": (sb3.PrioritizedDQN, {}),
    }[name]
    ours = np.array([curve(algorithm, seed, **kwargs) for seed in SEEDS])
    for label, curves in (("ours", ours), ("host", theirs)):
        sys.stdout.write(f"{name}, {label}: {curves.mean(0).round(1)} +- {curves.std(0, ddof=1).round(1)}\n")
    if name == "the same arguments":
        np.testing.assert_array_equal(ours, theirs)
    error = np.sqrt((ours.var(0, ddof=1) + theirs.var(0, ddof=1)) / len(SEEDS))
    assert (ours.mean(0) >= theirs.mean(0) - 2 * error).all()
