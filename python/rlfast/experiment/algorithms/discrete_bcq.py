"""Batch-constrained Q-learning of discrete actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import OfflineChoiceConfig
from rlfast.utils.arguments.validation import NonNegativeFloat, PositiveInt, UnitFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import DiscreteBCQPolicy

TITLE = "Discrete BCQ"
SUMMARY = "batch-constrained Q-learning, from data with discrete actions"


@dataclass(frozen=True, kw_only=True)
class Config(OfflineChoiceConfig):
    """Batch-constrained Q-learning of discrete actions."""

    n_step: PositiveInt = 1
    """Number of rewards summed before bootstrapping."""
    unlikely_action_threshold: UnitFloat = 0.3
    """Actions whose probability is below this part of the greatest one are not taken."""
    imitation_logits_penalty: NonNegativeFloat = 0.01
    """Weight of the squared outputs of the imitator."""


PRESETS = {
    "CartPole-v1": Config(
        max_steps=6_000,
        eval_interval=2_000,
        hidden_sizes=(64, 64),
        learning_rate=5e-4,
        batch_size=256,
        n_step=10,
        target_update_freq=200,
    ),
}


def build(config: Config, networks: Networks) -> DiscreteBCQPolicy:
    """The policy, with a network of values and an imitator."""
    from rlfast.policy import DiscreteBCQPolicy
    from rlfast.utils.optim import adam

    return DiscreteBCQPolicy(
        model=networks.action_values(),
        imitator=networks.action_values(),
        optim=adam(config.learning_rate),
        discount_factor=config.gamma,
        estimation_step=config.n_step,
        target_update_freq=config.target_update_freq,
        unlikely_action_threshold=config.unlikely_action_threshold,
        imitation_logits_penalty=config.imitation_logits_penalty,
        compile=config.compile,
        **networks.spaces,
    )
