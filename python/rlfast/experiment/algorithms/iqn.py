"""Implicit quantile networks, which learn quantiles of returns at any level."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlfast.experiment.config import Presets, QLearningConfig, presets, search, settings
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

    def build(self, networks: Networks) -> BasePolicy:
        """The policy, with a network of quantiles at levels that are drawn."""
        sizes = self.hidden_sizes[-1:] if self.head_sizes is None else self.head_sizes
        return networks.policy(model=networks.quantiles(sizes, cosines=self.num_cosines), optim=networks.optim())


PRESETS: Presets = {
    "CartPole-v1": {**presets.CARTPOLE_QUANTILES, "hidden_sizes": (64,), "eps_steps": 5_000},
    "Catch-v0": {**presets.CATCH_DISTRIBUTIONS},
    presets.ALE: {**presets.ATARI_VALUES},
}

SEARCH: search.Search = search.ranges(Config, search.VALUES, {"sample_size": search.OneOf((16, 32, 64))})
