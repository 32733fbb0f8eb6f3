"""TD3 with behavioural cloning."""

from __future__ import annotations

from rlfast.experiment.config import OfflineDeterministicConfig, Presets, presets, search, settings

TITLE = "TD3+BC"
SUMMARY = "TD3 with behavioural cloning, from data with continuous actions"


@settings("TD3BCPolicy")
class Config(OfflineDeterministicConfig):
    """TD3 with behavioural cloning."""


PRESETS: Presets = {"Pendulum-v1": {**presets.PENDULUM_DATA, "alpha": 0.5}}

SEARCH: search.Search = search.ranges(Config, search.OFFLINE, {"alpha": search.Between(0.5, 10.0, log=True)})
