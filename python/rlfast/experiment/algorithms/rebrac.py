"""Revisited behaviour-regularized actor-critic."""

from __future__ import annotations

from rlfast.experiment.config import OfflineDeterministicConfig, Presets, search, settings

TITLE = "ReBRAC"
SUMMARY = "revisited behaviour-regularized actor-critic, from data with continuous actions"


@settings("ReBRACPolicy")
class Config(OfflineDeterministicConfig):
    """Revisited behaviour-regularized actor-critic."""


PRESETS: Presets = {
    "Pendulum-v1": {
        "max_steps": 8_000,
        "eval_interval": 2_000,
        "hidden_sizes": (64, 64),
        "learning_rate": 5e-4,
        "gamma": 0.95,
        "tau": 0.01,
        "actor_penalty": 2.0,
        "critic_penalty": 0.0,
    },
}

SEARCH: search.Search = search.ranges(
    Config,
    search.OFFLINE,
    {
        "actor_penalty": search.Between(0.001, 1.0, log=True),
        "critic_penalty": search.Between(0.001, 1.0, log=True),
    },
)
