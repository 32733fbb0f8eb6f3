"""Quantile regression QRDQN, which learns quantiles of returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import ALE, ATARI_VALUES, CATCH_VALUES, QLearningConfig
from rlfast.utils.arguments.validation import PositiveInt

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import QRDQNPolicy

TITLE = "QRDQN"
SUMMARY = "quantile regression QRDQN, which learns quantiles of returns, for discrete actions"


@dataclass(frozen=True, kw_only=True)
class Config(QLearningConfig):
    """Quantile regression QRDQN, which learns quantiles of returns."""

    quantiles: PositiveInt = 50
    """Quantiles of the return of each action, 2 or more."""


PRESETS = {
    "CartPole-v1": Config(stop_return=475.0, target_update_freq=25, quantiles=20),
    "Catch-v0": Config(**CATCH_VALUES, quantiles=20),
    ALE: Config(**ATARI_VALUES, quantiles=200),
}


def build(config: Config, networks: Networks) -> QRDQNPolicy:
    """The policy, with a network of distributions of returns."""
    from rlfast.policy import QRDQNPolicy
    from rlfast.utils.optim import adam

    return QRDQNPolicy(
        model=networks.action_values(dueling=config.dueling, atoms=config.quantiles),
        optim=adam(config.learning_rate),
        discount_factor=config.gamma,
        estimation_step=config.n_step,
        target_update_freq=config.target_update_freq,
        is_double=config.double,
        num_quantiles=config.quantiles,
        compile=config.compile,
        **networks.spaces,
    )
