"""Trust region policy optimization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlfast.experiment.config import NaturalGradientConfig, settings

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "TRPO"
SUMMARY = "trust region policy optimization, for discrete and continuous actions"


@settings("TRPOPolicy", without=("compile",))
class Config(NaturalGradientConfig):
    """Trust region policy optimization, for discrete, multi-discrete and continuous actions."""


PRESETS: dict[str, dict[str, Any]] = {
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


def build(networks: Networks) -> BasePolicy:
    """The policy, with an actor and a critic whose first weights are orthogonal."""
    actor, dist_fn, critic = networks.actor_critic()
    return networks.policy(actor=actor, critic=critic, dist_fn=dist_fn, optim=networks.optim())
