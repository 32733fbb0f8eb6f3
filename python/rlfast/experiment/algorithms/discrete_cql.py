"""Conservative Q-learning of discrete actions."""

from __future__ import annotations

from rlfast.experiment.config import OfflineChoiceConfig, Presets, presets, search, settings

TITLE = "Discrete CQL"
SUMMARY = "conservative Q-learning of quantiles, from data with discrete actions"


@settings("DiscreteCQLPolicy")
class Config(OfflineChoiceConfig):
    """Conservative Q-learning of discrete actions."""

    num_quantiles = 50


PRESETS: Presets = {"CartPole-v1": {**presets.CARTPOLE_DATA, "min_q_weight": 5.0}}

SEARCH: search.Search = search.ranges(
    Config,
    search.OFFLINE,
    {"min_q_weight": search.Between(0.1, 10.0, log=True), "target_update_freq": search.OneOf((100, 500, 2_000))},
)
