"""Deep deterministic policy gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlfast.experiment.config import PENDULUM, DeterministicConfig, settings

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "DDPG"
SUMMARY = "deep deterministic policy gradient, for continuous actions"


@settings("DDPGPolicy")
class Config(DeterministicConfig):
    """Deep deterministic policy gradient, for continuous actions."""


PRESETS: dict[str, dict[str, Any]] = {
    "Pendulum-v1": {**PENDULUM, "updates_per_step": 0.25, "tau": 0.02},
}


def build(networks: Networks) -> BasePolicy:
    """The policy, with an actor and a critic."""
    return networks.policy(
        actor=networks.deterministic_actor(),
        actor_optim=networks.adam(networks.config.actor_learning_rate),
        critic=networks.action_value(),
        critic_optim=networks.optim(),
        exploration_noise=networks.config.make_noise(),
    )
