"""Dropout Q-functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import PENDULUM_SOFT, SoftConfig
from rlfast.utils.arguments.validation import PositiveFloat, PositiveInt, UnitFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import DroQPolicy

TITLE = "DroQ"
SUMMARY = "soft actor-critic with dropout in its critics and many gradient steps, for continuous actions"


@dataclass(frozen=True, kw_only=True)
class Config(SoftConfig):
    """Soft actor-critic with dropout in its critics and many gradient steps, for continuous actions."""

    updates_per_step: PositiveFloat = 20.0
    ensemble_size: PositiveInt = 2
    """Critics."""
    dropout: UnitFloat = 0.01
    """Probability that a unit of a critic's hidden layers is left out."""
    actor_delay: PositiveInt = 20
    """Gradient steps of the critics for one of the actor."""


PRESETS = {
    "Pendulum-v1": Config(**PENDULUM_SOFT, actor_delay=4, batch_size=128, updates_per_step=1.0, tau=0.02),
}


def build(config: Config, networks: Networks) -> DroQPolicy:
    """The policy, with critics that have dropout, and an actor that gives normal distributions."""
    from torch import nn

    from rlfast.policy import DroQPolicy
    from rlfast.utils.net.ensemble import EnsembleLayerNorm, EnsembleLinear
    from rlfast.utils.optim import adam

    def layer(size: int, inputs: int, outputs: int) -> nn.Module:
        linear, norm = EnsembleLinear(size, inputs, outputs), EnsembleLayerNorm(size, outputs)
        return nn.Sequential(linear, nn.Dropout(config.dropout), norm)  # arXiv:2110.02034, figure 1

    return DroQPolicy(
        actor=networks.normal_actor(conditioned_sigma=True),
        actor_optim=adam(config.learning_rate),
        critic=networks.action_values_by(config.ensemble_size, hidden_layer=layer),
        critic_optim=adam(config.learning_rate),
        actor_delay=config.actor_delay,
        tau=config.tau,
        gamma=config.gamma,
        alpha=config.temperature(networks.action_size),
        estimation_step=config.n_step,
        compile=config.compile,
        **networks.spaces,
    )
