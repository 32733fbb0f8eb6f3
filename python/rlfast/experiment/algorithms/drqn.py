"""Deep recurrent Q-learning, for environments whose observations lack a part of the state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rlfast.experiment.config import QLearningConfig
from rlfast.utils.arguments.validation import NonNegativeFloat, NonNegativeInt, PositiveInt, UnitFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import DQNPolicy

TITLE = "DRQN"
SUMMARY = "deep recurrent Q-learning, for discrete actions and partial observations"


@dataclass(frozen=True, kw_only=True)
class Config(QLearningConfig):
    """Deep recurrent Q-learning: a network with a memory, which learns from the state that it had while acting."""

    compile: ClassVar[bool] = False  # type: ignore[misc]
    """Always False: a recurrent update is no single graph."""
    recurrent: bool = True
    hidden_sizes: tuple[PositiveInt, ...] = (64,)
    learning_rate: NonNegativeFloat = 3e-3
    burn_in: NonNegativeInt = 3
    """Number of steps before each transition that the network processes first, from the stored state on."""
    observe: tuple[NonNegativeInt, ...] = ()
    """Indices of the numbers of an observation that the policy sees, such as 0 2. Default: all."""
    huber: bool = False
    """Huber loss instead of the square."""
    eps_end: UnitFloat = 0.02


PRESETS = {
    "CartPole-v1": Config(
        stop_return=400.0,
        observe=(0, 2),
        batch_size=64,
        n_step=4,
        collect_steps=32,
        updates_per_step=0.25,
        target_update_freq=100,
        buffer_size=40_000,
        eps_steps=8_000,
    ),
}


def build(config: Config, networks: Networks) -> DQNPolicy:
    """The policy, with a recurrent network of action values."""
    from rlfast.policy import DQNPolicy
    from rlfast.utils.optim import adam

    if not config.recurrent:
        raise ValueError("DRQN needs a memory: leave out --no-recurrent, or train dqn")
    return DQNPolicy(
        model=networks.action_values(dueling=config.dueling),
        optim=adam(config.learning_rate),
        discount_factor=config.gamma,
        estimation_step=config.n_step,
        target_update_freq=config.target_update_freq,
        is_double=config.double,
        clip_loss_grad=config.huber,
        **networks.spaces,
    )
