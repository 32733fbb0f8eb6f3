"""XQC."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from rlfast.experiment.config import EntropyConfig, Presets, presets, settings
from rlfast.utils.arguments.validation import NonNegativeInt, PositiveInt, UnitFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "XQC"
SUMMARY = "soft actor-critic with normalized layers, unit weights and categorical critics, for continuous actions"


@settings("XQCPolicy")
class Config(EntropyConfig):
    """Soft actor-critic with normalized layers, unit weights and categorical critics, for continuous actions."""

    network: ClassVar[Literal["mlp"]] = "mlp"  # type: ignore[misc]
    """Always mlp: its layers are batch normalized."""
    reads_rows: ClassVar[bool] = True
    alpha = 0.01
    ensemble_size: PositiveInt = 2
    """Critics."""
    critic_hidden_sizes: tuple[PositiveInt, ...] = (512, 512, 512, 512)
    """Units of the hidden layers of each critic."""
    momentum: UnitFloat = 0.01
    """How far running averages of normalization move in each gradient step."""
    warmup_steps: NonNegativeInt = 10_000_000
    """Gradient steps of plain batch normalization, before running averages correct it."""

    def build(self, networks: Networks) -> BasePolicy:
        """The policy, with normalized critics and a normalized actor that gives normal distributions."""
        from torch import nn

        from rlfast.utils.net.ensemble import BatchRenorm, EnsembleLinear, UnitLinear

        def norm(inputs: int, size: int | None = None) -> nn.Module:
            return BatchRenorm(inputs, size, momentum=self.momentum, warmup_steps=self.warmup_steps)

        def hidden(size: int, inputs: int, outputs: int) -> nn.Module:
            return nn.Sequential(norm(inputs, size), UnitLinear(inputs, outputs, size))

        def last(size: int, inputs: int, outputs: int) -> nn.Module:
            return nn.Sequential(norm(inputs, size), EnsembleLinear(size, inputs, outputs))

        return networks.policy(
            actor=networks.normal_actor(linear_layer=lambda i, o: nn.Sequential(norm(i), UnitLinear(i, o))),
            actor_optim=networks.optim(),
            critic=networks.action_values_by(
                self.ensemble_size,
                values=self.num_atoms,
                hidden_layer=hidden,
                last_layer=last,
            ),
            critic_optim=networks.optim(),
            alpha=networks.alpha(),
        )


MUJOCO = {**presets.MUJOCO, "start_steps": 5_000, "critic_hidden_sizes": (256, 256), "num_atoms": 51}
"""Critics of a size for processors: a step takes about twice the time of one of soft actor-critic."""

PRESETS: Presets = {
    "Pendulum-v1": {
        **presets.PENDULUM_SOFT,
        "alpha": 0.01,
        "updates_per_step": 0.25,
        "critic_hidden_sizes": (64, 64),
        "policy_delay": 1,
        "num_atoms": 51,
        "tau": 0.02,
    },
    **dict.fromkeys(presets.ROBOTS, MUJOCO),
}
