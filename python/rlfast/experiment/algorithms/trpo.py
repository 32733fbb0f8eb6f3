"""Trust region policy optimization."""

from __future__ import annotations

from rlfast.experiment.config import NaturalGradientConfig, Presets, search, settings

TITLE = "TRPO"
SUMMARY = "trust region policy optimization, for discrete and continuous actions"


@settings("TRPOPolicy", without=("compile",))
class Config(NaturalGradientConfig):
    """Trust region policy optimization, for discrete, multi-discrete and continuous actions."""


PRESETS: Presets = {
    "CartPole-v1": {
        "stop_return": 475.0,
        "eval_interval": 4_096,
        "collect_steps": 1_024,
        "batch_size": 1_024,
        "discount_factor": 0.98,
        "learning_rate": 3e-3,
        "optim_critic_iters": 30,
        "reward_normalization": True,
    },
    "Pendulum-v1": {
        "stop_return": -250.0,
        "max_steps": 500_000,
        "eval_interval": 16_384,
        "discount_factor": 0.9,
        "learning_rate": 3e-3,
        "collect_steps": 1_024,
        "batch_size": 1_024,
        "max_kl": 0.015,
        "optim_critic_iters": 30,
        "reward_normalization": True,
    },
}

SEARCH: search.Search = search.ranges(
    Config,
    search.NATURAL,
    {
        "max_kl": search.Between(0.003, 0.05, log=True),
    },
)
