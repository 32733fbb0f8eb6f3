"""Soft actor-critic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import OffPolicyConfig
from rlfast.utils.validation import FiniteFloat, NonNegativeFloat, PositiveFloat, PositiveInt, UnitFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import SACPolicy

TITLE = "SAC"
SUMMARY = "soft actor-critic, for continuous actions"


@dataclass(frozen=True, kw_only=True)
class Config(OffPolicyConfig):
    """Soft actor-critic, for continuous actions."""

    env: str = "Pendulum-v1"
    num_envs: PositiveInt = 1
    collect_steps: PositiveInt = 1
    tau: UnitFloat = 0.005
    """How far the target critics move at each gradient step."""
    alpha: PositiveFloat = 0.2
    """The temperature, or where it starts."""
    auto_alpha: bool = True
    """Learn the temperature, so that the entropy stays at its target."""
    target_entropy: FiniteFloat | None = None
    """That target. Default: minus the number of action dimensions."""
    alpha_learning_rate: NonNegativeFloat = 3e-4
    """Adam's step size, of the temperature."""


PRESETS = {
    "Pendulum-v1": Config(
        stop_return=-200.0,
        max_steps=20_000,
        num_envs=8,
        eval_interval=1_000,
        collect_steps=8,
        updates_per_step=0.25,
        hidden_sizes=(64, 64),
        learning_rate=2e-3,
        alpha_learning_rate=2e-3,
        alpha=0.5,
        gamma=0.95,
        tau=0.02,
        buffer_size=100_000,
    ),
    "InvertedPendulum-v5": Config(
        env="InvertedPendulum-v5", stop_return=950.0, hidden_sizes=(128, 128), learning_rate=1e-3, max_steps=50_000
    ),
}


def build(config: Config, networks: Networks) -> SACPolicy:
    """The policy, with two critics and an actor that gives normal distributions."""
    from rlfast.policy import AutoAlpha, FixedAlpha, SACPolicy
    from rlfast.utils.optim import adam

    critic, critic2 = networks.action_value(), networks.action_value()
    actor = networks.normal_actor(conditioned_sigma=True)
    target = -float(networks.action_size) if config.target_entropy is None else config.target_entropy
    learned, optim = config.auto_alpha, adam(config.learning_rate)
    return SACPolicy(
        actor=actor,
        actor_optim=optim,
        critic=critic,
        critic_optim=optim,
        critic2=critic2,
        critic2_optim=optim,
        tau=config.tau,
        gamma=config.gamma,
        alpha=AutoAlpha(target, math.log(config.alpha), adam(config.alpha_learning_rate))
        if learned
        else FixedAlpha(config.alpha),
        estimation_step=config.n_step,
        compile=config.compile,
        **networks.spaces,
    )
