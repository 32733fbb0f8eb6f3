"""Randomized ensembled double Q-learning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlfast.experiment.config import NormalConfig, Presets, presets, search, settings

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "REDQ"
SUMMARY = "randomized ensembled double Q-learning, for continuous actions"


@settings("REDQPolicy")
class Config(NormalConfig):
    """Randomized ensembled double Q-learning, for continuous actions."""

    updates_per_step = 20.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.subset_size > self.ensemble_size:
            raise ValueError(f"--subset-size {self.subset_size} must be at most --ensemble-size {self.ensemble_size}")

    def build(self, networks: Networks) -> BasePolicy:
        """The policy, with an ensemble of critics and an actor that gives normal distributions."""
        return networks.policy(
            actor=networks.normal_actor(),
            actor_optim=networks.optim(),
            critic=networks.action_values_by(self.ensemble_size),
            critic_optim=networks.optim(),
            alpha=networks.alpha(),
        )


PRESETS: Presets = {
    "Pendulum-v1": {
        **presets.PENDULUM_SOFT,
        "actor_delay": 4,
        "ensemble_size": 5,
        "batch_size": 128,
        "updates_per_step": 1.0,
        "tau": 0.02,
    }
}

SEARCH: search.Search = search.ranges(
    Config,
    search.CONTINUOUS,
    {"updates_per_step": search.OneOf((5.0, 10.0, 20.0)), "ensemble_size": search.OneOf((5, 10))},
)
