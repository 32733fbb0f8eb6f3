"""Deep Q-learning."""

from __future__ import annotations

from rlfast.experiment.config import Presets, QLearningConfig, presets, search, settings

TITLE = "DQN"
SUMMARY = "deep Q-learning, for discrete actions"


@settings("DQNPolicy")
class Config(QLearningConfig):
    """Deep Q-learning: double, dueling, n-step and prioritized as you like."""

    clip_loss_grad = True


PRESETS: Presets = {
    "CartPole-v1": presets.CARTPOLE_VALUES,
    "Acrobot-v1": {"stop_return": -100.0, "learning_rate": 6.3e-4, "estimation_step": 1, "target_update_freq": 250},
    "LunarLander-v3": {  # as often published, but with a 13th of the learning rate
        "stop_return": 200.0,
        "max_steps": 800_000,
        "eval_interval": 20_480,
        "num_envs": 16,
        "dueling": True,
        "estimation_step": 4,
        "learning_rate": 1e-3,
        "lr_schedule": "linear",
        "batch_size": 128,
        "collect_steps": 16,
        "updates_per_step": 0.0625,
        "target_update_freq": 500,
        "buffer_size": 100_000,
        "start_steps": 2_000,
        "eps_end": 0.01,
        "eps_steps": 200_000,
        "compile": True,
    },
    "Catch-v0": {**presets.CATCH_VALUES},
    presets.ALE: {**presets.ATARI_VALUES, "clip_loss_grad": False},
}

SEARCH: search.Search = search.ranges(Config, search.VALUES)
