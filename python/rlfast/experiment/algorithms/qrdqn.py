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
    "CartPole-v1": {**presets.CARTPOLE_QUANTILES, "num_quantiles": 20},
    "Catch-v0": {**presets.CATCH_VALUES, "num_quantiles": 20},
    presets.ALE: {**presets.ATARI_VALUES, "num_quantiles": 200},
}

SEARCH: search.Search = search.ranges(Config, search.VALUES, {"num_quantiles": search.OneOf((25, 50, 100, 200))})
