"""Randomized ensembled double Q-learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rlfast.experiment.config import PENDULUM_SOFT, NormalConfig
from rlfast.utils.arguments.validation import PositiveFloat, PositiveInt

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import REDQPolicy

TITLE = "REDQ"
SUMMARY = "randomized ensembled double Q-learning, for continuous actions"


@dataclass(frozen=True, kw_only=True)
class Config(NormalConfig):
    """Randomized ensembled double Q-learning, for continuous actions."""

    updates_per_step: PositiveFloat = 20.0
    ensemble_size: PositiveInt = 10
    """Critics."""
    subset_size: PositiveInt = 2
    """Critics that make the targets of a gradient step."""
    actor_delay: PositiveInt = 20
    """Gradient steps of the critics for one of the actor."""
    target_mode: Literal["min", "mean"] = "min"
    """Whether targets take the least value of those critics, or the mean."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.subset_size > self.ensemble_size:
            raise ValueError(f"--subset-size {self.subset_size} must be at most --ensemble-size {self.ensemble_size}")


PRESETS = {
    "Pendulum-v1": Config(
        **PENDULUM_SOFT, actor_delay=4, ensemble_size=5, batch_size=128, updates_per_step=1.0, tau=0.02
    ),
}


def build(config: Config, networks: Networks) -> REDQPolicy:
    """The policy, with an ensemble of critics and an actor that gives normal distributions."""
    from rlfast.policy import REDQPolicy
    from rlfast.utils.optim import adam

    return networks.policy(
        REDQPolicy,
        actor=networks.normal_actor(
            conditioned_sigma=config.conditioned_sigma, log_std=config.log_std, bounded=config.bounded
        ),
        actor_optim=adam(config.learning_rate),
        critic=networks.action_values_by(config.ensemble_size),
        critic_optim=adam(config.learning_rate),
        ensemble_size=config.ensemble_size,
        subset_size=config.subset_size,
        tau=config.tau,
        gamma=config.gamma,
        alpha=config.temperature(networks.action_size),
        estimation_step=config.n_step,
        actor_delay=config.actor_delay,
        target_mode=config.target_mode,
        compile=config.compile,
    )
