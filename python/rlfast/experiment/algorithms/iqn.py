"""Implicit quantile networks, which learn quantiles of returns at any level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import ALE, ATARI_VALUES, CATCH_DISTRIBUTIONS, QLearningConfig
from rlfast.utils.arguments.validation import PositiveInt

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import IQNPolicy

TITLE = "IQN"
SUMMARY = "implicit quantile networks, which learn quantiles of returns at any level, for discrete actions"


@dataclass(frozen=True, kw_only=True)
class Config(QLearningConfig):
    """Implicit quantile networks, which learn quantiles of returns at any level."""

    samples: PositiveInt = 32
    """Levels of an action value in tests, 2 or more."""
    online_samples: PositiveInt = 8
    """Levels of the trained network, 2 or more."""
    target_samples: PositiveInt = 8
    """Levels of the target network, 2 or more."""
    cosines: PositiveInt = 64
    """Cosines that a level is embedded by."""
    head_sizes: tuple[PositiveInt, ...] | None = None
    """Number of units of each hidden layer above these. Default: one layer, as large as the last of hidden_sizes."""


PRESETS = {
    "CartPole-v1": Config(
        stop_return=475.0,
        learning_rate=3e-3,
        gamma=0.97,
        batch_size=64,
        updates_per_step=0.125,
        target_update_freq=25,
        hidden_sizes=(64,),
        eps_steps=5_000,
    ),
    "Catch-v0": Config(**CATCH_DISTRIBUTIONS),
    ALE: Config(**ATARI_VALUES),
}


def build(config: Config, networks: Networks) -> IQNPolicy:
    """The policy, with a network of quantiles at levels that are drawn."""
    from rlfast.policy import IQNPolicy
    from rlfast.utils.optim import adam

    return networks.policy(
        IQNPolicy,
        model=networks.quantiles(
            config.hidden_sizes[-1:] if config.head_sizes is None else config.head_sizes, cosines=config.cosines
        ),
        optim=adam(config.learning_rate),
        discount_factor=config.gamma,
        sample_size=config.samples,
        online_sample_size=config.online_samples,
        target_sample_size=config.target_samples,
        estimation_step=config.n_step,
        target_update_freq=config.target_update_freq,
        is_double=config.double,
        compile=config.compile,
    )
