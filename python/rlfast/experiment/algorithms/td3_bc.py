"""TD3 with behavioural cloning."""

from __future__ import annotations

from rlfast.experiment.config import OfflineDeterministicConfig, Presets, search, settings

TITLE = "TD3+BC"
SUMMARY = "TD3 with behavioural cloning, from data with continuous actions"


@settings("TD3BCPolicy")
class Config(OfflineDeterministicConfig):
    """TD3 with behavioural cloning."""


PRESETS: Presets = {
    "Pendulum-v1": {
        "max_steps": 8_000,
        "eval_interval": 2_000,
        "hidden_sizes": (64, 64),
        "learning_rate": 5e-4,
        "gamma": 0.95,
        "tau": 0.01,
        "alpha": 0.5,
    },
}

SEARCH: search.Search = search.ranges(
    Config,
    search.OFFLINE,
    {
        "alpha": search.Between(0.5, 10.0, log=True),
    },
)
