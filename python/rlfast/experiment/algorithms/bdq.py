"""Branching DQN, for actions of several dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlfast.experiment.config import Presets, QLearningConfig, search, settings
from rlfast.utils.arguments.validation import PositiveInt

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "BDQ"
SUMMARY = "branching DQN, for continuous actions in steps"


@settings("BranchingDQNPolicy")
class Config(QLearningConfig):
    """Branching DQN: each dimension of a continuous action is cut into steps, and has action values of its own."""

    env = "Pendulum-v1"
    choices: PositiveInt = 11
    """Values in each dimension of an action, its bounds included, 2 or more."""
    clip_loss_grad = True

    def build(self, networks: Networks) -> BasePolicy:
        """The policy, with a branch for each dimension of the actions."""
        return networks.policy(model=networks.branches(self.choices), optim=networks.optim())


PRESETS: Presets = {
    "Pendulum-v1": {
        "stop_return": -300.0,
        "max_steps": 50_000,
        "eval_interval": 1_000,
        "collect_steps": 8,
        "hidden_sizes": (64, 64),
        "batch_size": 64,
        "learning_rate": 2e-3,
        "discount_factor": 0.95,
        "estimation_step": 1,
        "updates_per_step": 0.5,
        "target_update_freq": 50,
        "clip_loss_grad": False,
        "eps_steps": 2_000,
    }
}

SEARCH: search.Search = search.ranges(Config, search.VALUES, {"choices": search.OneOf((5, 11, 25))})
