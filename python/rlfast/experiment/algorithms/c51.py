"""Categorical C51, which learns distributions of returns."""

from __future__ import annotations

from rlfast.experiment.config import Presets, QLearningConfig, presets, search, settings

TITLE = "C51"
SUMMARY = "categorical C51, which learns distributions of returns, for discrete actions"


@settings("C51Policy")
class Config(QLearningConfig):
    """Categorical C51, which learns distributions of returns."""


PRESETS: Presets = {
    "CartPole-v1": {**presets.CARTPOLE_VALUES, "v_min": 0.0, "v_max": 100.0},
    "Catch-v0": {**presets.CATCH_DISTRIBUTIONS, "v_min": -1.0, "v_max": 1.0},
    presets.ALE: {**presets.ATARI_VALUES},
}

SEARCH: search.Search = search.ranges(Config, search.VALUES, {"num_atoms": search.OneOf((21, 51, 101))})
