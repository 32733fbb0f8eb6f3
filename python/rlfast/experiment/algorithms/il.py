"""Imitation of the actions of data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlfast.experiment.config import OfflineConfig, Presets, search, settings

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "IL"
SUMMARY = "imitation of the actions of data, for discrete and continuous actions"


@settings("ImitationPolicy")
class Config(OfflineConfig):
    """Imitation of the actions of data."""

    learning_rate = 1e-3

    def build(self, networks: Networks) -> BasePolicy:
        """The policy, with an actor of actions or of logits."""
        actor = networks.deterministic_actor() if networks.continuous else networks.action_values()
        return networks.policy(actor=actor, optim=networks.optim())


PRESETS: Presets = {
    "CartPole-v1": {"max_steps": 10_000, "eval_interval": 5_000, "hidden_sizes": (128, 128)},
    "Pendulum-v1": {"max_steps": 6_000, "eval_interval": 2_000, "hidden_sizes": (64, 64)},
}

SEARCH: search.Search = search.ranges(Config, search.OFFLINE)
