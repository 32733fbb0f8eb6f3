"""Batch-constrained Q-learning of discrete actions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlfast.experiment.config import OfflineChoiceConfig, Presets, presets, search, settings

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "Discrete BCQ"
SUMMARY = "batch-constrained Q-learning, from data with discrete actions"


@settings("DiscreteBCQPolicy", without=("clip_loss_grad", "eval_eps"))
class Config(OfflineChoiceConfig):
    """Batch-constrained Q-learning of discrete actions."""

    def build(self, networks: Networks) -> BasePolicy:
        """The policy, with a network of values and an imitator."""
        model, imitator = networks.action_values(), networks.action_values()
        return networks.policy(model=model, imitator=imitator, optim=networks.optim())


PRESETS: Presets = {"CartPole-v1": presets.CARTPOLE_DATA}

SEARCH: search.Search = search.ranges(
    Config,
    search.OFFLINE,
    {"unlikely_action_threshold": search.OneOf((0.1, 0.3, 0.5)), "target_update_freq": search.OneOf((100, 500, 2_000))},
)
