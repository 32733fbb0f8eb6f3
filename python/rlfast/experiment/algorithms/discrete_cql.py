"""Conservative Q-learning of discrete actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import OfflineChoiceConfig
from rlfast.utils.arguments.validation import NonNegativeFloat, PositiveInt

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import DiscreteCQLPolicy

TITLE = "Discrete CQL"
SUMMARY = "conservative Q-learning of quantiles, from data with discrete actions"


@dataclass(frozen=True, kw_only=True)
class Config(OfflineChoiceConfig):
    """Conservative Q-learning of discrete actions."""

    n_step: PositiveInt = 1
    """Number of rewards summed before bootstrapping."""
    quantiles: PositiveInt = 50
    """Quantiles of the return of each action, 2 or more."""
    min_q_weight: NonNegativeFloat = 10.0
    """Weight of the penalty on values of actions that are not in the data."""


PRESETS = {
    "CartPole-v1": Config(
        max_steps=6_000,
        eval_interval=2_000,
        hidden_sizes=(64, 64),
        learning_rate=5e-4,
        batch_size=256,
        n_step=10,
        target_update_freq=200,
        min_q_weight=5.0,
    ),
}


def build(config: Config, networks: Networks) -> DiscreteCQLPolicy:
    """The policy, with a network of distributions of returns."""
    from rlfast.policy import DiscreteCQLPolicy
    from rlfast.utils.optim import adam

    return DiscreteCQLPolicy(
        model=networks.action_values(atoms=config.quantiles),
        optim=adam(config.learning_rate),
        min_q_weight=config.min_q_weight,
        discount_factor=config.gamma,
        num_quantiles=config.quantiles,
        estimation_step=config.n_step,
        target_update_freq=config.target_update_freq,
        compile=config.compile,
        **networks.spaces,
    )
