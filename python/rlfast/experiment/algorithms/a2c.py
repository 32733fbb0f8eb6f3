"""Advantage actor-critic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import AdvantageConfig
from rlfast.utils.arguments.validation import NonNegativeFloat, PositiveInt

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import A2CPolicy

TITLE = "A2C"
SUMMARY = "advantage actor-critic, for discrete and continuous actions"


@dataclass(frozen=True, kw_only=True)
class Config(AdvantageConfig):
    """Advantage actor-critic, for discrete, multi-discrete and continuous actions."""

    learning_rate: NonNegativeFloat = 7e-4
    collect_steps: PositiveInt = 128
    batch_size: PositiveInt = 128
    repeat: PositiveInt = 1
    vf_coef: NonNegativeFloat = 0.5
    """Weight of the critic's loss."""
    ent_coef: NonNegativeFloat = 0.0
    """Weight of the entropy."""
    max_grad_norm: NonNegativeFloat = 0.5
    """Largest norm of a gradient."""


PRESETS = {
    "CartPole-v1": Config(stop_return=475.0, eval_interval=4_096, max_steps=300_000, learning_rate=2e-3, gamma=0.98)
}


def build(config: Config, networks: Networks) -> A2CPolicy:
    """The policy, with an actor and a critic whose first weights are orthogonal."""
    from rlfast.policy import A2CPolicy
    from rlfast.utils.optim import adam

    actor, dist_fn, critic = networks.actor_critic(log_std=config.log_std, shared=config.shared_features)
    return networks.policy(
        A2CPolicy,
        actor=actor,
        critic=critic,
        optim=adam(config.learning_rate, eps=config.adam_eps),
        dist_fn=dist_fn,
        action_scaling=networks.continuous,
        reward_normalization=config.scale_returns,
        vf_coef=config.vf_coef,
        ent_coef=config.ent_coef,
        max_grad_norm=config.max_grad_norm,
        gae_lambda=config.gae_lambda,
        discount_factor=config.gamma,
        deterministic_eval=config.deterministic_eval,
        compile=config.compile,
    )
