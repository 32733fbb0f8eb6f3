"""Dropout Q-functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from rlfast.experiment.config import EntropyConfig, Presets, presets, search, settings
from rlfast.utils.arguments.validation import PositiveInt, UnitFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "DroQ"
SUMMARY = "soft actor-critic with dropout in its critics and many gradient steps, for continuous actions"


@settings("DroQPolicy")
class Config(EntropyConfig):
    """Soft actor-critic with dropout in its critics and many gradient steps, for continuous actions."""

    network: ClassVar[Literal["mlp"]] = "mlp"  # type: ignore[misc]
    """Always mlp: its layers have dropout."""
    updates_per_step = 20.0
    ensemble_size: PositiveInt = 2
    """Critics."""
    dropout: UnitFloat = 0.01
    """Probability that a unit of a critic's hidden layers is left out."""

    def build(self, networks: Networks) -> BasePolicy:
        """The policy, with critics that have dropout, and an actor that gives normal distributions."""
        from torch import nn

        from rlfast.utils.net.ensemble import EnsembleLayerNorm, EnsembleLinear

        def layer(size: int, inputs: int, outputs: int) -> nn.Module:
            linear, norm = EnsembleLinear(size, inputs, outputs), EnsembleLayerNorm(size, outputs)
            return nn.Sequential(linear, nn.Dropout(self.dropout), norm)  # arXiv:2110.02034, figure 1

        return networks.policy(
            actor=networks.normal_actor(),
            actor_optim=networks.optim(),
            critic=networks.action_values_by(self.ensemble_size, hidden_layer=layer),
            critic_optim=networks.optim(),
            alpha=networks.alpha(),
        )


PRESETS: Presets = {
    "Pendulum-v1": {**presets.PENDULUM_SOFT, "actor_delay": 4, "batch_size": 128, "updates_per_step": 1.0, "tau": 0.02}
}

SEARCH: search.Search = search.ranges(
    Config,
    search.CONTINUOUS,
    {"updates_per_step": search.OneOf((5.0, 10.0, 20.0)), "dropout": search.Between(0.001, 0.1, log=True)},
)
