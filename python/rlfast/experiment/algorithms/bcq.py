"""Batch-constrained Q-learning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlfast.experiment.config import OfflineControlConfig, Presets, presets, search, settings
from rlfast.utils.arguments.validation import PositiveFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "BCQ"
SUMMARY = "batch-constrained Q-learning, from data with continuous actions"


@settings("BCQPolicy")
class Config(OfflineControlConfig):
    """Batch-constrained Q-learning."""

    phi: PositiveFloat = 0.05
    """The largest movement of a generated action."""

    def build(self, networks: Networks) -> BasePolicy:
        """The policy, with an autoencoder, a network that moves actions, and two critics."""
        return networks.policy(
            actor_perturbation=networks.perturbation(self.phi),
            actor_perturbation_optim=networks.optim(),
            **networks.two(networks.action_value),
            vae=networks.autoencoder(2 * networks.action_size),
            vae_optim=networks.optim(),
        )


PRESETS: Presets = {
    "Pendulum-v1": presets.PENDULUM_DATA | {"max_steps": 10_000, "eval_interval": 10_000, "forward_sampled_times": 20}
}

SEARCH: search.Search = search.ranges(
    Config, search.OFFLINE, {"lmbda": search.Between(0.5, 1.0), "phi": search.Between(0.01, 0.2, log=True)}
)
