"""REINFORCE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import PolicyGradientConfig
from rlfast.utils.arguments.validation import NonNegativeFloat, PositiveInt

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import PGPolicy

TITLE = "PG"
SUMMARY = "REINFORCE, for discrete and continuous actions"


@dataclass(frozen=True, kw_only=True)
class Config(PolicyGradientConfig):
    """REINFORCE, for discrete, multi-discrete and continuous actions."""

    learning_rate: NonNegativeFloat = 1e-3
    repeat: PositiveInt = 1
    scale_returns: bool = True
    """Subtract the running mean of returns, and divide by their standard deviation."""


PRESETS = {"CartPole-v1": Config(stop_return=475.0, eval_interval=8_192, learning_rate=5e-3, max_steps=300_000)}


def build(config: Config, networks: Networks) -> PGPolicy:
    """The policy, with an actor whose first weights are orthogonal."""
    from rlfast.policy import PGPolicy
    from rlfast.utils.optim import adam

    actor, dist_fn = networks.actor(log_std=config.log_std)
    networks.initialize(actor)
    return networks.policy(
        PGPolicy,
        actor=actor,
        optim=adam(config.learning_rate, eps=config.adam_eps),
        dist_fn=dist_fn,
        action_scaling=networks.continuous,
        reward_normalization=config.scale_returns,
        discount_factor=config.gamma,
        deterministic_eval=config.deterministic_eval,
        compile=config.compile,
    )
