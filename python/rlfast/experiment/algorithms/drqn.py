"""Deep recurrent Q-learning, for environments whose observations lack a part of the state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlfast.experiment.config import Presets, QLearningConfig, search, settings
from rlfast.utils.arguments.validation import NonNegativeInt

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "DRQN"
SUMMARY = "deep recurrent Q-learning, for discrete actions and partial observations"


@settings("DQNPolicy", without=("compile",))
class Config(QLearningConfig):
    """Deep recurrent Q-learning: a network with a memory, which learns from the state that it had while acting."""

    recurrent: bool = True
    hidden_sizes = (64,)
    learning_rate = 3e-3
    burn_in: NonNegativeInt = 3
    """Number of steps before each transition that the network processes first, from the stored state on."""
    observe: tuple[NonNegativeInt, ...] = ()
    """Indices of the numbers of an observation that the policy sees, such as 0 2. Default: all."""
    eps_end = 0.02

    def build(self, networks: Networks) -> BasePolicy:
        """The policy, with a recurrent network of action values."""
        if not self.recurrent:
            raise ValueError("DRQN needs a memory: leave out --no-recurrent, or train dqn")
        return networks.policy(model=networks.action_values(), optim=networks.optim())


PRESETS: Presets = {
    "CartPole-v1": {
        "stop_return": 400.0,
        "observe": (0, 2),
        "batch_size": 64,
        "estimation_step": 4,
        "collect_steps": 32,
        "updates_per_step": 0.25,
        "target_update_freq": 100,
        "buffer_size": 40_000,
        "eps_steps": 8_000,
    }
}

SEARCH: search.Search = search.ranges(Config, search.VALUES)
