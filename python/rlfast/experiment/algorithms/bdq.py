"""Branching DQN, for actions of several dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import QLearningConfig
from rlfast.utils.arguments.validation import PositiveInt

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BranchingDQNPolicy

TITLE = "BDQ"
SUMMARY = "branching DQN, for continuous actions in steps"


@dataclass(frozen=True, kw_only=True)
class Config(QLearningConfig):
    """Branching DQN: each dimension of a continuous action is cut into steps, and has action values of its own."""

    env: str = "Pendulum-v1"
    choices: PositiveInt = 11
    """Values in each dimension of an action, its bounds included, 2 or more."""
    huber: bool = True
    """Huber loss instead of the square."""


PRESETS = {
    "Pendulum-v1": Config(
        stop_return=-300.0,
        max_steps=50_000,
        eval_interval=1_000,
        collect_steps=8,
        hidden_sizes=(64, 64),
        batch_size=64,
        learning_rate=2e-3,
        gamma=0.95,
        n_step=1,
        updates_per_step=0.5,
        target_update_freq=50,
        huber=False,
        eps_steps=2_000,
    ),
}


def build(config: Config, networks: Networks) -> BranchingDQNPolicy:
    """The policy, with a branch for each dimension of the actions."""
    from rlfast.policy import BranchingDQNPolicy
    from rlfast.utils.optim import adam

    return BranchingDQNPolicy(
        model=networks.branches(config.choices),
        optim=adam(config.learning_rate),
        discount_factor=config.gamma,
        estimation_step=config.n_step,
        target_update_freq=config.target_update_freq,
        is_double=config.double,
        clip_loss_grad=config.huber,
        compile=config.compile,
        **networks.spaces,
    )
