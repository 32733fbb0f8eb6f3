"""CrossQ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import PENDULUM_SOFT, EntropyConfig
from rlfast.utils.arguments.validation import NonNegativeFloat, NonNegativeInt, PositiveInt, UnitFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import CrossQPolicy

TITLE = "CrossQ"
SUMMARY = "soft actor-critic with batch normalization in place of target networks, for continuous actions"


@dataclass(frozen=True, kw_only=True)
class Config(EntropyConfig):
    """Soft actor-critic with batch normalization in place of target networks, for continuous actions."""

    learning_rate: NonNegativeFloat = 1e-3
    ensemble_size: PositiveInt = 2
    """Critics."""
    critic_hidden_sizes: tuple[PositiveInt, ...] = (1024, 1024)
    """Units of the hidden layers of each critic."""
    policy_delay: PositiveInt = 3
    """Gradient steps of the critics for one of the actor."""
    momentum: UnitFloat = 0.01
    """How far running averages of normalization move in each gradient step."""
    warmup_steps: NonNegativeInt = 100_000
    """Gradient steps of plain batch normalization, before running averages correct it."""


PRESETS = {
    "Pendulum-v1": Config(**PENDULUM_SOFT, updates_per_step=0.25, critic_hidden_sizes=(64, 64), policy_delay=1),
}


def build(config: Config, networks: Networks) -> CrossQPolicy:
    """The policy, with normalized critics and a normalized actor that gives normal distributions."""
    from torch import nn

    from rlfast.policy import CrossQPolicy
    from rlfast.utils.net.ensemble import BatchRenorm, EnsembleLinear
    from rlfast.utils.optim import adam

    def norm(inputs: int, size: int | None = None) -> nn.Module:
        return BatchRenorm(inputs, size, momentum=config.momentum, warmup_steps=config.warmup_steps)

    def layer(size: int, inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(norm(inputs, size), EnsembleLinear(size, inputs, outputs))

    optim, sizes = adam(config.learning_rate, betas=(0.5, 0.999)), config.critic_hidden_sizes
    return CrossQPolicy(
        actor=networks.normal_actor(
            conditioned_sigma=True, linear_layer=lambda i, o: nn.Sequential(norm(i), nn.Linear(i, o))
        ),
        actor_optim=optim,
        critic=networks.action_values_by(
            config.ensemble_size, hidden_layer=layer, last_layer=layer, hidden_sizes=sizes
        ),
        critic_optim=optim,
        policy_delay=config.policy_delay,
        gamma=config.gamma,
        alpha=config.temperature(networks.action_size),
        estimation_step=config.n_step,
        compile=config.compile,
        **networks.spaces,
    )
