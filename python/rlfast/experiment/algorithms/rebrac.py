"""Revisited behaviour-regularized actor-critic."""

from __future__ import annotations

from rlfast.experiment.config import OfflineDeterministicConfig, Presets, presets, search, settings

TITLE = "ReBRAC"
SUMMARY = "revisited behaviour-regularized actor-critic, from data with continuous actions"


@settings("ReBRACPolicy")
class Config(OfflineDeterministicConfig):
    """Revisited behaviour-regularized actor-critic."""


PRESETS: Presets = {"Pendulum-v1": {**presets.PENDULUM_DATA, "actor_penalty": 2.0, "critic_penalty": 0.0}}

SEARCH: search.Search = search.ranges(
    Config, search.OFFLINE, dict.fromkeys(("actor_penalty", "critic_penalty"), search.Between(0.001, 1.0, log=True))
)
