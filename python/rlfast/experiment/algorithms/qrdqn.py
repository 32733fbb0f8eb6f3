"""Quantile regression QRDQN, which learns quantiles of returns."""

from __future__ import annotations

from rlfast.experiment.config import Presets, QLearningConfig, presets, search, settings

TITLE = "QRDQN"
SUMMARY = "quantile regression QRDQN, which learns quantiles of returns, for discrete actions"


@settings("QRDQNPolicy")
class Config(QLearningConfig):
    """Quantile regression QRDQN, which learns quantiles of returns."""

    num_quantiles = 50


PRESETS: Presets = {
    "CartPole-v1": {
        "stop_return": 475.0,
        "learning_rate": 3e-3,
        "batch_size": 256,
        "updates_per_step": 0.125,
        "target_update_freq": 25,
        "num_quantiles": 20,
        "normalize_reward": True,  # errors of returns near 100 are far above Huber's threshold of 1
    },
    "Catch-v0": {**presets.CATCH_VALUES, "num_quantiles": 20},
    presets.ALE: {**presets.ATARI_VALUES, "num_quantiles": 200},
}

SEARCH: search.Search = search.ranges(
    Config,
    search.VALUES,
    {
        "num_quantiles": search.OneOf((25, 50, 100, 200)),
    },
)
