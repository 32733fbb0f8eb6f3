"""Natural policy gradient."""

from __future__ import annotations

from rlfast.experiment.config import NaturalGradientConfig, Presets, search, settings

TITLE = "NPG"
SUMMARY = "natural policy gradient, for discrete and continuous actions"


@settings("NPGPolicy", without=("compile",))
class Config(NaturalGradientConfig):
    """Natural policy gradient, for discrete, multi-discrete and continuous actions."""

    actor_step_size = 0.1


PRESETS: Presets = {
    "CartPole-v1": {
        "stop_return": 475.0,
        "eval_interval": 4_096,
        "collect_steps": 1_024,
        "batch_size": 1_024,
        "discount_factor": 0.98,
        "actor_step_size": 0.3,
    },
    "Pendulum-v1": {
        "stop_return": -250.0,
        "max_steps": 500_000,
        "eval_interval": 16_384,
        "discount_factor": 0.9,
        "learning_rate": 3e-3,
        "collect_steps": 1_024,
        "batch_size": 1_024,
        "actor_step_size": 0.2,
        "optim_critic_iters": 30,
        "reward_normalization": True,
    },
}

SEARCH: search.Search = search.ranges(
    Config,
    search.NATURAL,
    {
        "actor_step_size": search.Between(0.05, 1.0, log=True),
    },
)
