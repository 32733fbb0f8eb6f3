"""Implicit quantile networks, which learn quantiles of returns at any level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlfast.experiment.config import ALE, ATARI_VALUES, CATCH_DISTRIBUTIONS, QLearningConfig, settings
from rlfast.utils.arguments.validation import PositiveInt

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "IQN"
SUMMARY = "implicit quantile networks, which learn quantiles of returns at any level, for discrete actions"


@settings("IQNPolicy")
class Config(QLearningConfig):
    """Implicit quantile networks, which learn quantiles of returns at any level."""

    num_cosines: PositiveInt = 64
    """Cosines that a level is embedded by."""
    head_sizes: tuple[PositiveInt, ...] | None = None
    """Number of units of each hidden layer above these. Default: one layer, as large as the last of hidden_sizes."""


PRESETS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "stop_return": 475.0,
        "learning_rate": 3e-3,
        "discount_factor": 0.97,
        "batch_size": 64,
        "updates_per_step": 0.125,
        "target_update_freq": 25,
        "hidden_sizes": (64,),
        "eps_steps": 5_000,
    },
    "Catch-v0": {**CATCH_DISTRIBUTIONS},
    ALE: {**ATARI_VALUES},
}


def build(networks: Networks) -> BasePolicy:
    """The policy, with a network of quantiles at levels that are drawn."""
    config = networks.config
    sizes = config.hidden_sizes[-1:] if config.head_sizes is None else config.head_sizes
    return networks.policy(model=networks.quantiles(sizes, cosines=config.num_cosines), optim=networks.optim())
