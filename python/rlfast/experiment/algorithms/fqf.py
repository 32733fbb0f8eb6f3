"""Fully parameterized quantile functions, which learn at which levels to learn quantiles of returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlfast.experiment.config import Presets, QLearningConfig, presets, search, settings
from rlfast.utils.arguments.validation import NonNegativeFloat, PositiveInt

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "FQF"
SUMMARY = "quantile functions that learn their own levels, for discrete actions"


@settings("FQFPolicy")
class Config(QLearningConfig):
    """Fully parameterized quantile functions, which learn at which levels to learn quantiles of returns."""

    num_fractions = 16
    fraction_learning_rate: NonNegativeFloat = 1e-5
    """Adam's step size for the network that proposes the levels."""
    num_cosines: PositiveInt = 64
    """Cosines that a level is embedded by."""

    def build(self, networks: Networks) -> BasePolicy:
        """The policy, with a network of quantiles at levels that another proposes."""
        from rlfast.utils.net.discrete import FractionProposalNetwork, FullQuantileFunction

        sizes = self.hidden_sizes[-1:]
        return networks.policy(
            model=networks.quantiles(sizes, cosines=self.num_cosines, kind=FullQuantileFunction),
            optim=networks.optim(),
            fraction_model=FractionProposalNetwork(self.num_fractions, *sizes).to(self.device),
            fraction_optim=networks.adam(self.fraction_learning_rate),
        )


PRESETS: Presets = {
    "CartPole-v1": {
        **presets.CARTPOLE_QUANTILES,
        "learning_rate": 2e-3,
        "batch_size": 128,
        "estimation_step": 5,
        "hidden_sizes": (128,),
        "eps_end": 0.02,
    },
    "Catch-v0": {**presets.CATCH_DISTRIBUTIONS},
    presets.ALE: {
        **presets.ATARI_VALUES,
        "learning_rate": 5e-5,
        "num_fractions": 32,
        "fraction_learning_rate": 2.5e-9,
        "ent_coef": 10.0,
    },
}

SEARCH: search.Search = search.ranges(
    Config,
    search.VALUES,
    {"fraction_learning_rate": search.Between(1e-8, 1e-4, log=True), "num_fractions": search.OneOf((8, 16, 32))},
)
