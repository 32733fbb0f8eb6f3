"""Deep deterministic policy gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import PENDULUM, DeterministicConfig

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import DDPGPolicy

TITLE = "DDPG"
SUMMARY = "deep deterministic policy gradient, for continuous actions"


@dataclass(frozen=True, kw_only=True)
class Config(DeterministicConfig):
    """Deep deterministic policy gradient, for continuous actions."""


PRESETS = {
    "Pendulum-v1": Config(**PENDULUM, updates_per_step=0.25, tau=0.02),
}


def build(config: Config, networks: Networks) -> DDPGPolicy:
    """The policy, with an actor and a critic."""
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
        exploration_noise=config.exploration_noise(),
        estimation_step=config.n_step,
        compile=config.compile,
    )
