"""Recurrent replay distributed DQN, for environments whose observations lack a part of the state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import SequenceConfig
from rlfast.utils.arguments.validation import NonNegativeFloat, PositiveInt, UnitFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import R2D2Policy

TITLE = "R2D2"
SUMMARY = "recurrent Q-learning from prioritized sequences, for discrete actions and partial observations"


@dataclass(frozen=True, kw_only=True)
class Config(SequenceConfig):
    """Recurrent replay distributed DQN: prioritized sequences, burn-in from stored states, and rescaled values."""

    dueling: bool = True
    prioritized: bool = True
    alpha: NonNegativeFloat = 0.9
    beta: UnitFloat = 0.6
    beta_end: UnitFloat = 0.6
    n_step: PositiveInt = 5
    target_update_freq: PositiveInt = 100
    eta: UnitFloat = 0.9
    """Share of the largest error in the priority of a sequence; the rest is that of the mean error."""
    rescaling: NonNegativeFloat = 1e-3
    """Epsilon of the rescaling of values, sign(x) (sqrt(|x| + 1) - 1) + epsilon x."""
    max_grad_norm: NonNegativeFloat = 40.0
    """Largest norm of a gradient."""


PRESETS = {
    "CartPole-v1": Config(
        stop_return=400.0,
        observe=(0, 2),
        learning_rate=3e-3,
        sequence_length=12,
        burn_in=4,
        batch_size=32,
        collect_steps=32,
        updates_per_step=0.125,
        target_update_freq=100,
        buffer_size=40_000,
        eps_steps=8_000,
        eps_end=0.02,
    )
}


def build(config: Config, networks: Networks) -> R2D2Policy:
    """The policy, with a recurrent network of action values."""
    from rlfast.policy import R2D2Policy
    from rlfast.utils.optim import adam

    return R2D2Policy(
        model=networks.action_values(dueling=config.dueling),
        optim=adam(config.learning_rate),
        discount_factor=config.gamma,
        estimation_step=config.n_step,
        target_update_freq=config.target_update_freq,
        eta=config.eta,
        rescaling=config.rescaling,
        is_double=config.double,
        max_grad_norm=config.max_grad_norm,
        **networks.spaces,
    )
