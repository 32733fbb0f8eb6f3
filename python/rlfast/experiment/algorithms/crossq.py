"""CrossQ."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from rlfast.experiment.config import EntropyConfig, Presets, presets, search, settings
from rlfast.utils.arguments.validation import NonNegativeFloat, NonNegativeInt, PositiveInt, UnitFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "CrossQ"
SUMMARY = "soft actor-critic with batch normalization in place of target networks, for continuous actions"


@settings("CrossQPolicy", without=("tau",))
class Config(EntropyConfig):
    """Soft actor-critic with batch normalization in place of target networks, for continuous actions."""

    network: ClassVar[Literal["mlp"]] = "mlp"  # type: ignore[misc]
    """Always mlp: its layers are batch normalized."""
    learning_rate: NonNegativeFloat = 1e-3
    ensemble_size: PositiveInt = 2
    """Critics."""
    critic_hidden_sizes: tuple[PositiveInt, ...] = (1024, 1024)
    """Units of the hidden layers of each critic."""
    momentum: UnitFloat = 0.01
    """How far running averages of normalization move in each gradient step."""
    warmup_steps: NonNegativeInt = 100_000
    """Gradient steps of plain batch normalization, before running averages correct it."""

    def build(self, networks: Networks) -> BasePolicy:
        """The policy, with normalized critics and a normalized actor that gives normal distributions."""
        from torch import nn

        from rlfast.utils.net.ensemble import BatchRenorm, EnsembleLinear

        def norm(inputs: int, size: int | None = None) -> nn.Module:
            return BatchRenorm(inputs, size, momentum=self.momentum, warmup_steps=self.warmup_steps)

        def layer(size: int, inputs: int, outputs: int) -> nn.Module:
            return nn.Sequential(norm(inputs, size), EnsembleLinear(size, inputs, outputs))

        optim = networks.adam(self.learning_rate, betas=(0.5, 0.999))
        return networks.policy(
            actor=networks.normal_actor(linear_layer=lambda i, o: nn.Sequential(norm(i), nn.Linear(i, o))),
            actor_optim=optim,
            critic=networks.action_values_by(self.ensemble_size, hidden_layer=layer, last_layer=layer),
            critic_optim=optim,
            alpha=networks.alpha(),
        )


MUJOCO = {**presets.MUJOCO, "start_steps": 5_000, "critic_hidden_sizes": (256, 256)}
PRESETS: Presets = {
    "Pendulum-v1": presets.PENDULUM_NORMALIZED,
    **dict.fromkeys(presets.ROBOTS, MUJOCO),
    "Hopper-v5": {**MUJOCO, "lr_schedule": "linear"},  # chosen on seed 100; seeds 0 to 2 gain nothing
    "Ant-v5": {**MUJOCO, **presets.ANT},  # the paper trained on Ant-v4
}

SEARCH: search.Search = search.ranges(
    Config, search.CONTINUOUS, {"policy_delay": search.OneOf((1, 2, 3)), "ensemble_size": search.OneOf((2, 4))}
)
