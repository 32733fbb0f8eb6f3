"""Trust region policy optimization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import NaturalGradientConfig
from rlfast.utils.arguments.validation import PositiveFloat, PositiveInt, UnitFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import TRPOPolicy

TITLE = "TRPO"
SUMMARY = "trust region policy optimization, for discrete and continuous actions"


@dataclass(frozen=True, kw_only=True)
class Config(NaturalGradientConfig):
    """Trust region policy optimization, for discrete, multi-discrete and continuous actions."""

    max_kl: PositiveFloat = 0.01
    """How far a step may change the distribution over actions."""
    backtrack_coeff: UnitFloat = 0.8
    """By which a step shrinks that leads too far, or nowhere."""
    max_backtracks: PositiveInt = 10
    """Most sizes of a step that are tried."""


PRESETS = {
    "CartPole-v1": Config(
        stop_return=475.0,
        eval_interval=4_096,
        collect_steps=1_024,
        batch_size=1_024,
        gamma=0.98,
        learning_rate=3e-3,
        critic_iters=30,
        scale_returns=True,
    ),
    "Pendulum-v1": Config(
        stop_return=-250.0,
        max_steps=500_000,
        eval_interval=16_384,
        gamma=0.9,
        learning_rate=3e-3,
        collect_steps=1_024,
        batch_size=1_024,
        max_kl=0.015,
        critic_iters=30,
        scale_returns=True,
    ),
}


def build(config: Config, networks: Networks) -> TRPOPolicy:
    """The policy, with an actor and a critic whose first weights are orthogonal."""
    from rlfast.policy import TRPOPolicy
    from rlfast.utils.optim import adam

    critic = networks.state_value()
    actor, dist_fn = networks.actor(log_std=config.log_std)
    networks.initialize(actor, critic)
    return networks.policy(
        TRPOPolicy,
        actor=actor,
        critic=critic,
        optim=adam(config.learning_rate, eps=config.adam_eps),
        dist_fn=dist_fn,
        action_scaling=networks.continuous,
        reward_normalization=config.scale_returns,
        optim_critic_iters=config.critic_iters,
        max_kl=config.max_kl,
        backtrack_coeff=config.backtrack_coeff,
        max_backtracks=config.max_backtracks,
        advantage_normalization=config.normalize_advantage,
        gae_lambda=config.gae_lambda,
        discount_factor=config.gamma,
        deterministic_eval=config.deterministic_eval,
    )
