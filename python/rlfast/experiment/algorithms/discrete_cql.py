"""Conservative Q-learning of discrete actions."""

from __future__ import annotations

from rlfast.experiment.config import OfflineChoiceConfig, Presets, settings

TITLE = "Discrete CQL"
SUMMARY = "conservative Q-learning of quantiles, from data with discrete actions"


@settings("DiscreteCQLPolicy")
class Config(OfflineChoiceConfig):
    """Conservative Q-learning of discrete actions."""

    num_quantiles = 50


PRESETS: Presets = {
    "CartPole-v1": {
        "max_steps": 6_000,
        "eval_interval": 2_000,
        "hidden_sizes": (64, 64),
        "learning_rate": 5e-4,
        "batch_size": 256,
        "estimation_step": 10,
        "target_update_freq": 200,
        "min_q_weight": 5.0,
    },
}
