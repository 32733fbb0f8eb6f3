"""Advantage actor-critic."""

from __future__ import annotations

from rlfast.experiment.config import AdvantageConfig, Presets, search, settings

TITLE = "A2C"
SUMMARY = "advantage actor-critic, for discrete and continuous actions"


@settings("A2CPolicy")
class Config(AdvantageConfig):
    """Advantage actor-critic, for discrete, multi-discrete and continuous actions."""

    learning_rate = 7e-4
    collect_steps = 128
    batch_size = 128
    repeat = 1


PRESETS: Presets = {
    "CartPole-v1": {
        "stop_return": 475.0,
        "eval_interval": 4_096,
        "max_steps": 300_000,
        "learning_rate": 2e-3,
        "discount_factor": 0.98,
    }
}

SEARCH: search.Search = search.ranges(Config, search.ROLL_OUTS)
