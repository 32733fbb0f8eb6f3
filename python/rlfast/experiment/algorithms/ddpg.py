"""Deep deterministic policy gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import PENDULUM, OffPolicyConfig
from rlfast.utils.arguments.validation import NonNegativeFloat, PositiveInt, UnitFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import DDPGPolicy

TITLE = "DDPG"
SUMMARY = "deep deterministic policy gradient, for continuous actions"


@dataclass(frozen=True, kw_only=True)
class Config(OffPolicyConfig):
    """Deep deterministic policy gradient, for continuous actions."""

    env: str = "Pendulum-v1"
    num_envs: PositiveInt = 1
    learning_rate: NonNegativeFloat = 1e-3
    """Adam's step size, of the critic."""
    actor_learning_rate: NonNegativeFloat = 1e-3
    """Adam's step size, of the actor."""
    collect_steps: PositiveInt = 1
    tau: UnitFloat = 0.005
    """How far the target networks move at each gradient step."""
    noise: NonNegativeFloat = 0.1
    """Standard deviation of the noise that explores, where actions reach from -1 to 1."""


PRESETS = {
    "Pendulum-v1": Config(**PENDULUM, updates_per_step=0.25, tau=0.02),
}


def build(config: Config, networks: Networks) -> DDPGPolicy:
    """The policy, with an actor and a critic."""
    from rlfast.exploration import GaussianNoise
    from rlfast.policy import DDPGPolicy
    from rlfast.utils.optim import adam

    return networks.policy(
        DDPGPolicy,
        actor=networks.deterministic_actor(),
        actor_optim=adam(config.actor_learning_rate),
        critic=networks.action_value(),
        critic_optim=adam(config.learning_rate),
        tau=config.tau,
        gamma=config.gamma,
        exploration_noise=GaussianNoise(sigma=config.noise),
        estimation_step=config.n_step,
        compile=config.compile,
    )
