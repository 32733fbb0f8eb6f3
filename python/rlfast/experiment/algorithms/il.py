"""Imitation of the actions of data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import OfflineConfig
from rlfast.utils.arguments.validation import NonNegativeFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import ImitationPolicy

TITLE = "IL"
SUMMARY = "imitation of the actions of data, for discrete and continuous actions"


@dataclass(frozen=True, kw_only=True)
class Config(OfflineConfig):
    """Imitation of the actions of data."""

    learning_rate: NonNegativeFloat = 1e-3
    """Learning rate of Adam."""


PRESETS = {
    "CartPole-v1": Config(max_steps=10_000, eval_interval=5_000, hidden_sizes=(128, 128)),
    "Pendulum-v1": Config(max_steps=6_000, eval_interval=2_000, hidden_sizes=(64, 64)),
}


def build(config: Config, networks: Networks) -> ImitationPolicy:
    """The policy, with an actor of actions or of logits."""
    from rlfast.policy import ImitationPolicy
    from rlfast.utils.optim import adam

    return ImitationPolicy(
        actor=networks.deterministic_actor() if networks.continuous else networks.action_values(),
        optim=adam(config.learning_rate),
        action_scaling=networks.continuous,
        compile=config.compile,
        **networks.spaces,
    )
