"""Natural policy gradient."""

from __future__ import annotations

from rlfast.experiment.config import NaturalGradientConfig, Presets, presets, search, settings

TITLE = "NPG"
SUMMARY = "natural policy gradient, for discrete and continuous actions"


@settings("NPGPolicy", without=("compile",))
class Config(NaturalGradientConfig):
    """Natural policy gradient, for discrete, multi-discrete and continuous actions."""

    actor_step_size = 0.1


PRESETS: Presets = {
    "CartPole-v1": {**presets.CARTPOLE_NATURAL, "actor_step_size": 0.3},
    "Pendulum-v1": {**presets.PENDULUM_NATURAL, "actor_step_size": 0.2},
}

SEARCH: search.Search = search.ranges(Config, search.NATURAL, {"actor_step_size": search.Between(0.05, 1.0, log=True)})
