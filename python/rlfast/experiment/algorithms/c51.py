"""Categorical C51, which learns distributions of returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import ALE, ATARI_VALUES, CATCH_DISTRIBUTIONS, QLearningConfig
from rlfast.utils.arguments.validation import FiniteFloat, PositiveInt

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import C51Policy

TITLE = "C51"
SUMMARY = "categorical C51, which learns distributions of returns, for discrete actions"


@dataclass(frozen=True, kw_only=True)
class Config(QLearningConfig):
    """Categorical C51, which learns distributions of returns."""

    atoms: PositiveInt = 51
    """Returns whose probabilities are learned, 2 or more."""
    v_min: FiniteFloat = -10.0
    """The smallest of them."""
    v_max: FiniteFloat = 10.0
    """The largest of them."""


PRESETS = {
    "CartPole-v1": Config(
        stop_return=475.0,
        learning_rate=3e-3,
        batch_size=256,
        updates_per_step=0.125,
        target_update_freq=25,
        v_min=0.0,
        v_max=100.0,
    ),
    "Catch-v0": Config(**CATCH_DISTRIBUTIONS, v_min=-1.0, v_max=1.0),
    ALE: Config(**ATARI_VALUES),
}


def build(config: Config, networks: Networks) -> C51Policy:
    """The policy, with a network of distributions of returns."""
    from rlfast.policy import C51Policy
    from rlfast.utils.optim import adam

    return C51Policy(
        model=networks.action_values(dueling=config.dueling, atoms=config.atoms, softmax=True),
        optim=adam(config.learning_rate),
        discount_factor=config.gamma,
        estimation_step=config.n_step,
        target_update_freq=config.target_update_freq,
        is_double=config.double,
        num_atoms=config.atoms,
        v_min=config.v_min,
        v_max=config.v_max,
        compile=config.compile,
        **networks.spaces,
    )
