"""Batch-constrained Q-learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rlfast.experiment.config import OfflineControlConfig
from rlfast.utils.arguments.validation import PositiveFloat, PositiveInt, UnitFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BCQPolicy

TITLE = "BCQ"
SUMMARY = "batch-constrained Q-learning, from data with continuous actions"


@dataclass(frozen=True, kw_only=True)
class Config(OfflineControlConfig):
    """Batch-constrained Q-learning."""

    n_step: Literal[1] = 1
    """Always 1."""
    lmbda: UnitFloat = 0.75
    """Weight of the smaller of two values in targets."""
    phi: PositiveFloat = 0.05
    """The largest movement of a generated action."""
    forward_sampled_times: PositiveInt = 100
    """Number of generated actions of which the policy takes the best."""
    num_sampled_action: PositiveInt = 10
    """Number of generated actions in each target."""


PRESETS = {
    "Pendulum-v1": Config(
        max_steps=10_000,
        eval_interval=10_000,
        hidden_sizes=(64, 64),
        learning_rate=5e-4,
        gamma=0.95,
        tau=0.01,
        forward_sampled_times=20,
    ),
}


def build(config: Config, networks: Networks) -> BCQPolicy:
    """The policy, with an autoencoder, a network that moves actions, and two critics."""
    from rlfast.policy import BCQPolicy
    from rlfast.utils.optim import adam

    optim = adam(config.learning_rate)
    return BCQPolicy(
        actor_perturbation=networks.perturbation(config.phi),
        actor_perturbation_optim=optim,
        critic=networks.action_value(layer_norm=config.layer_norm),
        critic_optim=optim,
        critic2=networks.action_value(layer_norm=config.layer_norm),
        critic2_optim=optim,
        vae=networks.autoencoder(2 * networks.action_size),
        vae_optim=optim,
        tau=config.tau,
        gamma=config.gamma,
        lmbda=config.lmbda,
        forward_sampled_times=config.forward_sampled_times,
        num_sampled_action=config.num_sampled_action,
        action_scaling=True,
        compile=config.compile,
        **networks.spaces,
    )
