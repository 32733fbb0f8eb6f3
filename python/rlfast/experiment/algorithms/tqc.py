"""Truncated quantile critics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlfast.experiment.config import ExploringConfig, Presets, presets, search, settings
from rlfast.utils.arguments.validation import PositiveInt

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "TQC"
SUMMARY = "truncated quantile critics, for continuous actions"


@settings("TQCPolicy")
class Config(ExploringConfig):
    """Truncated quantile critics, for continuous actions."""

    ensemble_size: PositiveInt = 5
    """Critics."""
    num_quantiles: PositiveInt = 25
    """Quantiles of the return that each critic gives."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.top_quantiles_to_drop_per_net >= self.num_quantiles:
            raise ValueError(
                f"--top-quantiles-to-drop-per-net {self.top_quantiles_to_drop_per_net} must be less than "
                f"--num-quantiles {self.num_quantiles}"
            )

    def build(self, networks: Networks) -> BasePolicy:
        """The policy, with an ensemble of critics of quantiles and an actor that gives normal distributions."""
        return networks.policy(
            actor=networks.normal_actor(),
            actor_optim=networks.optim(),
            critic=networks.action_values_by(self.ensemble_size, values=self.num_quantiles),
            critic_optim=networks.optim(),
            alpha=networks.alpha(),
        )


MUJOCO = {**presets.MUJOCO, "ensemble_size": 2}  # as in sb3-contrib
PRESETS: Presets = {
    "Pendulum-v1": {**presets.PENDULUM_SOFT, "updates_per_step": 0.25, "ensemble_size": 2, "tau": 0.02},
    **dict.fromkeys(presets.ROBOTS, MUJOCO),
    # how many quantiles of each critic targets leave out: the paper, appendix B, with five critics
    "HalfCheetah-v5": {**MUJOCO, "top_quantiles_to_drop_per_net": 0},
    "Hopper-v5": {**MUJOCO, "top_quantiles_to_drop_per_net": 5},
}

SEARCH: search.Search = search.ranges(
    Config, search.CONTINUOUS, {"top_quantiles_to_drop_per_net": search.OneOf((0, 1, 2, 5))}
)
