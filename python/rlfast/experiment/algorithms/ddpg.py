"""Deep deterministic policy gradient."""

from __future__ import annotations

from rlfast.experiment.config import DeterministicConfig, Presets, presets, search, settings

TITLE = "DDPG"
SUMMARY = "deep deterministic policy gradient, for continuous actions"


@settings("DDPGPolicy")
class Config(DeterministicConfig):
    """Deep deterministic policy gradient, for continuous actions."""


PRESETS: Presets = {"Pendulum-v1": {**presets.PENDULUM, "updates_per_step": 0.25, "tau": 0.02}}

SEARCH: search.Search = search.ranges(Config, search.CONTINUOUS)
