"""Truncated quantile critics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import PENDULUM_SOFT, SoftConfig
from rlfast.utils.arguments.validation import NonNegativeInt, PositiveInt

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import TQCPolicy

TITLE = "TQC"
SUMMARY = "truncated quantile critics, for continuous actions"


@dataclass(frozen=True, kw_only=True)
class Config(SoftConfig):
    """Truncated quantile critics, for continuous actions."""

    ensemble_size: PositiveInt = 5
    """Critics."""
    num_quantiles: PositiveInt = 25
    """Quantiles of the return that each critic gives."""
    top_quantiles_to_drop_per_net: NonNegativeInt = 2
    """Quantiles of each critic that targets leave out, the greatest of all critics together."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.top_quantiles_to_drop_per_net >= self.num_quantiles:
            raise ValueError(
                f"--top-quantiles-to-drop-per-net {self.top_quantiles_to_drop_per_net} must be less than "
                f"--num-quantiles {self.num_quantiles}"
            )


PRESETS = {
    "Pendulum-v1": Config(**PENDULUM_SOFT, updates_per_step=0.25, ensemble_size=2, tau=0.02),
}


def build(config: Config, networks: Networks) -> TQCPolicy:
    """The policy, with an ensemble of critics of quantiles and an actor that gives normal distributions."""
    from rlfast.policy import TQCPolicy
    from rlfast.utils.optim import adam

    return TQCPolicy(
        actor=networks.normal_actor(conditioned_sigma=True),
        actor_optim=adam(config.learning_rate),
        critic=networks.action_values_by(config.ensemble_size, values=config.num_quantiles),
        critic_optim=adam(config.learning_rate),
        top_quantiles_to_drop_per_net=config.top_quantiles_to_drop_per_net,
        tau=config.tau,
        gamma=config.gamma,
        alpha=config.temperature(networks.action_size),
        estimation_step=config.n_step,
        compile=config.compile,
        **networks.spaces,
    )
