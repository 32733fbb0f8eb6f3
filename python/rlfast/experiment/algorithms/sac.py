"""Soft actor-critic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import PENDULUM_SOFT, NormalConfig

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import SACPolicy

TITLE = "SAC"
SUMMARY = "soft actor-critic, for continuous actions"


@dataclass(frozen=True, kw_only=True)
class Config(NormalConfig):
    """Soft actor-critic, for continuous actions."""


PRESETS = {
    "Pendulum-v1": Config(**PENDULUM_SOFT, updates_per_step=0.25, tau=0.02),
    "InvertedPendulum-v5": Config(
        **PENDULUM_SOFT | {"stop_return": 950.0, "max_steps": 50_000, "gamma": 0.98}, updates_per_step=0.25, tau=0.02
    ),
    "HalfCheetah-v5": Config(
        max_steps=300_000,
        eval_interval=10_000,
        eval_episodes=10,
        eval_envs=10,
        start_steps=10_000,
        buffer_size=300_000,
        learning_rate=1e-3,
        auto_alpha=False,
        compile=True,
    ),
}


def build(config: Config, networks: Networks) -> SACPolicy:
    """The policy, with two critics and an actor that gives normal distributions."""
    from rlfast.policy import SACPolicy
    from rlfast.utils.optim import adam

    critic, critic2 = networks.action_value(), networks.action_value()
    actor = networks.normal_actor(
        conditioned_sigma=config.conditioned_sigma, log_std=config.log_std, bounded=config.bounded
    )
    optim = adam(config.learning_rate)
    return networks.policy(
        SACPolicy,
        actor=actor,
        actor_optim=optim,
        critic=critic,
        critic_optim=optim,
        critic2=critic2,
        critic2_optim=optim,
        tau=config.tau,
        gamma=config.gamma,
        alpha=config.temperature(networks.action_size),
        estimation_step=config.n_step,
        compile=config.compile,
    )
