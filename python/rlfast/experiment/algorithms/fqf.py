"""Fully parameterized quantile functions, which learn at which levels to learn quantiles of returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import ALE, ATARI_VALUES, CATCH_DISTRIBUTIONS, QLearningConfig
from rlfast.utils.arguments.validation import FiniteFloat, NonNegativeFloat, PositiveInt

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import FQFPolicy

TITLE = "FQF"
SUMMARY = "quantile functions that learn their own levels, for discrete actions"


@dataclass(frozen=True, kw_only=True)
class Config(QLearningConfig):
    """Fully parameterized quantile functions, which learn at which levels to learn quantiles of returns."""

    fractions: PositiveInt = 16
    """Intervals between the levels, 2 or more."""
    fraction_learning_rate: NonNegativeFloat = 1e-5
    """Adam's step size for the network that proposes the levels."""
    entropy_coef: FiniteFloat = 0.0
    """How much it is worth that the intervals are of the same width."""
    cosines: PositiveInt = 64
    """Cosines that a level is embedded by."""


PRESETS = {
    "CartPole-v1": Config(
        stop_return=475.0,
        learning_rate=2e-3,
        n_step=5,
        updates_per_step=0.125,
        target_update_freq=25,
        hidden_sizes=(128,),
        eps_end=0.02,
    ),
    "Catch-v0": Config(**CATCH_DISTRIBUTIONS),
    ALE: Config(
        **{**ATARI_VALUES, "learning_rate": 5e-5},
        fractions=32,
        fraction_learning_rate=2.5e-9,
        entropy_coef=10.0,
    ),
}


def build(config: Config, networks: Networks) -> FQFPolicy:
    """The policy, with a network of quantiles at levels that another proposes."""
    from rlfast.policy import FQFPolicy
    from rlfast.utils.net.discrete import FractionProposalNetwork, FullQuantileFunction
    from rlfast.utils.optim import adam

    actions, (features, size) = networks.actions, networks.features()
    return FQFPolicy(
        model=FullQuantileFunction(
            features,
            actions,
            config.hidden_sizes[-1:],
            num_cosines=config.cosines,
            preprocess_net_output_dim=size,
            device=config.device,
        ),
        optim=adam(config.learning_rate),
        fraction_model=FractionProposalNetwork(config.fractions, size).to(config.device),
        fraction_optim=adam(config.fraction_learning_rate),
        discount_factor=config.gamma,
        num_fractions=config.fractions,
        ent_coef=config.entropy_coef,
        estimation_step=config.n_step,
        target_update_freq=config.target_update_freq,
        is_double=config.double,
        compile=config.compile,
        **networks.spaces,
    )
