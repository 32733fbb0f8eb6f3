"""Implicit Q-learning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlfast.experiment.config import OfflineControlConfig, Presets, presets, search, settings

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "IQL"
SUMMARY = "implicit Q-learning, from data with continuous actions"


@settings("IQLPolicy")
class Config(OfflineControlConfig):
    """Implicit Q-learning."""

    def build(self, networks: Networks) -> BasePolicy:
        """The policy, with an actor of normal distributions, two critics and a value."""
        return networks.policy(
            actor=networks.normal_actor(conditioned_sigma=False, bounded=True),
            actor_optim=networks.optim(),
            **networks.two(networks.action_value),
            value=networks.state_value(),
            value_optim=networks.optim(),
        )


PRESETS: Presets = {
    "Pendulum-v1": {**presets.PENDULUM_DATA, "max_steps": 6_000, "learning_rate": 1e-3, "temperature": 0.5}
}

SEARCH: search.Search = search.ranges(
    Config,
    search.OFFLINE,
    {"expectile": search.OneOf((0.6, 0.7, 0.8, 0.9)), "temperature": search.Between(0.5, 10.0, log=True)},
)
