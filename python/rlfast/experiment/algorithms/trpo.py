"""Trust region policy optimization."""

from __future__ import annotations

from rlfast.experiment.config import NaturalGradientConfig, Presets, presets, search, settings

TITLE = "TRPO"
SUMMARY = "trust region policy optimization, for discrete and continuous actions"


@settings("TRPOPolicy", without=("compile",))
class Config(NaturalGradientConfig):
    """Trust region policy optimization, for discrete, multi-discrete and continuous actions."""


PRESETS: Presets = {
    "CartPole-v1": {**presets.CARTPOLE_NATURAL, **presets.NATURAL_CRITIC},
    "Pendulum-v1": {**presets.PENDULUM_NATURAL, "max_kl": 0.015},
}

SEARCH: search.Search = search.ranges(Config, search.NATURAL, {"max_kl": search.Between(0.003, 0.05, log=True)})
