"""Natural policy gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import NaturalGradientConfig
from rlfast.utils.arguments.validation import PositiveFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import NPGPolicy

TITLE = "NPG"
SUMMARY = "natural policy gradient, for discrete and continuous actions"


@dataclass(frozen=True, kw_only=True)
class Config(NaturalGradientConfig):
    """Natural policy gradient, for discrete, multi-discrete and continuous actions."""

    actor_step_size: PositiveFloat = 0.1
    """How far the actor goes along the natural gradient."""


PRESETS = {
    "CartPole-v1": Config(
        stop_return=475.0, eval_interval=4_096, collect_steps=1_024, batch_size=1_024, gamma=0.98, actor_step_size=0.3
    ),
    "Pendulum-v1": Config(
        stop_return=-250.0,
        max_steps=500_000,
        eval_interval=16_384,
        gamma=0.9,
        learning_rate=3e-3,
        collect_steps=1_024,
        batch_size=1_024,
        actor_step_size=0.2,
        critic_iters=30,
        scale_returns=True,
    ),
}


def build(config: Config, networks: Networks) -> NPGPolicy:
    """The policy, with an actor and a critic whose first weights are orthogonal."""
    from rlfast.policy import NPGPolicy
    from rlfast.utils.optim import adam

    critic = networks.state_value()
    actor, dist_fn = networks.actor(log_std=config.log_std)
    networks.initialize(actor, critic)
    return networks.policy(
        NPGPolicy,
        actor=actor,
        critic=critic,
        optim=adam(config.learning_rate, eps=config.adam_eps),
        dist_fn=dist_fn,
        action_scaling=networks.continuous,
        reward_normalization=config.scale_returns,
        optim_critic_iters=config.critic_iters,
        actor_step_size=config.actor_step_size,
        advantage_normalization=config.normalize_advantage,
        gae_lambda=config.gae_lambda,
        discount_factor=config.gamma,
        deterministic_eval=config.deterministic_eval,
    )
