"""XQC."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, ClassVar, Literal

from rlfast.experiment.config import EntropyConfig, Presets, presets, search, settings
from rlfast.utils.arguments.validation import FiniteFloat, NonNegativeInt, PositiveInt, UnitFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import Alpha, BasePolicy
    from rlfast.utils.net.common import TLinearLayer

TITLE = "XQC"
SUMMARY = "soft actor-critic with normalized layers, unit weights and categorical critics, for continuous actions"


@settings("XQCPolicy")
class Config(EntropyConfig):
    """Soft actor-critic with normalized layers, unit weights and categorical critics, for continuous actions."""

    network: ClassVar[Literal["mlp"]] = "mlp"  # type: ignore[misc]
    """Always mlp: its layers are batch normalized."""
    reads_rows: ClassVar[bool] = True
    alpha = 0.01
    target_entropy: FiniteFloat | None = None
    """The target of the entropy. Default: minus half the number of action dimensions."""
    hidden_sizes = (256, 256, 256, 256)
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
        from rlfast.utils.net.ensemble import UnitLinear

        actor_layer, critic_layer = self._layers(), self._layers(self.ensemble_size)
        return networks.policy(
            actor=networks.normal_actor(linear_layer=actor_layer),
            actor_optim=networks.optim(),
            critic=networks.action_values_by(
                self.ensemble_size,
                values=self.num_atoms,
                hidden_layer=lambda _, inputs, outputs: critic_layer(inputs, outputs),
                last_layer=lambda size, inputs, outputs: UnitLinear(inputs, outputs, size, bias=True),
            ),
            critic_optim=networks.optim(),
            alpha=networks.alpha(),
        )

    def make_alpha(self, target: float) -> Alpha:
        """Returns the temperature, with half the target.

        :param target: twice the target of the entropy, without a ``target_entropy``.
        """
        return super().make_alpha(target / 2)

    def _layers(self, members: int | None = None) -> TLinearLayer:
        """Returns what makes the hidden layers of a network in order, but for activations.

        Each is normalized before its activation; the first also normalizes its input.
        """
        from torch import nn

        from rlfast.utils.net.ensemble import BatchRenorm, UnitLinear

        numbers = count()

        def norm(size: int) -> nn.Module:
            return BatchRenorm(size, members, momentum=self.momentum, warmup_steps=self.warmup_steps)

        def layer(inputs: int, outputs: int) -> nn.Module:
            first = [norm(inputs)] if next(numbers) == 0 else []
            return nn.Sequential(*first, UnitLinear(inputs, outputs, members), norm(outputs))

        return layer


MUJOCO = {
    **presets.MUJOCO,
    "start_steps": 5_000,
    "hidden_sizes": (256, 256),
    "critic_hidden_sizes": (256, 256),
    "num_atoms": 51,
}
"""Critics of a size for processors: a step takes about twice the time of one of soft actor-critic."""

PRESETS: Presets = {
    "Pendulum-v1": {**presets.PENDULUM_NORMALIZED, "alpha": 0.01, "num_atoms": 51, "tau": 0.02},
    **dict.fromkeys(presets.ROBOTS, MUJOCO),
}

SEARCH: search.Search = search.ranges(Config, search.CONTINUOUS)
