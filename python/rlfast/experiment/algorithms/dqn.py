"""Deep Q-learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import OffPolicyConfig
from rlfast.utils.validation import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, UnitFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import DQNPolicy

TITLE = "DQN"
SUMMARY = "deep Q-learning, for discrete actions"


@dataclass(frozen=True, kw_only=True)
class Config(OffPolicyConfig):
    """Deep Q-learning: double, dueling, n-step and prioritized as you like."""

    hidden_sizes: tuple[PositiveInt, ...] = (128, 128)
    dueling: bool = False
    """Separate streams for state value and advantages (arXiv:1511.06581)."""
    learning_rate: NonNegativeFloat = 1e-3
    n_step: PositiveInt = 3
    double: bool = True
    """The trained network chooses the action that the target network rates (arXiv:1509.06461)."""
    huber: bool = True
    """Huber loss in place of the square."""
    target_update_freq: NonNegativeInt = 100
    """Gradient steps between copies to the target network; 0: no target network."""
    buffer_size: PositiveInt = 50_000
    batch_size: PositiveInt = 128
    prioritized: bool = False
    """Sample transitions by their temporal difference error (arXiv:1511.05952)."""
    alpha: NonNegativeFloat = 0.6
    """Exponent of the priorities."""
    beta: UnitFloat = 0.4
    """Exponent of the importance weights."""
    collect_steps: PositiveInt = 64
    updates_per_step: PositiveFloat = 0.25
    eps_start: UnitFloat = 1.0
    """Probability of a random action at the start."""
    eps_end: UnitFloat = 0.05
    """Probability of a random action once eps_steps have been taken."""
    eps_steps: NonNegativeInt = 10_000
    """Environment steps over which that probability falls, linearly."""

    def eps_at(self, env_step: int) -> float:
        """Probability of a random action after so many environment steps.

        >>> [round(Config(eps_start=1, eps_end=0, eps_steps=100).eps_at(step), 2) for step in (0, 25, 100, 200)]
        [1.0, 0.75, 0.0, 0.0]
        """
        done = min(env_step / self.eps_steps, 1.0) if self.eps_steps else 1.0
        return self.eps_start + done * (self.eps_end - self.eps_start)


PRESETS = {
    "CartPole-v1": Config(
        stop_return=475.0, learning_rate=3e-3, batch_size=256, updates_per_step=0.125, target_update_freq=25
    ),
}


def build(config: Config, networks: Networks) -> DQNPolicy:
    """The policy, with a network of action values."""
    from rlfast.policy import DQNPolicy
    from rlfast.utils.optim import adam

    return DQNPolicy(
        model=networks.action_values(dueling=config.dueling),
        optim=adam(config.learning_rate),
        discount_factor=config.gamma,
        estimation_step=config.n_step,
        target_update_freq=config.target_update_freq,
        is_double=config.double,
        clip_loss_grad=config.huber,
        compile=config.compile,
        **networks.spaces,
    )


def schedules(config: Config, policy: DQNPolicy, env_step: int) -> None:
    """Lowers how often an action is random."""
    policy.set_eps(config.eps_at(env_step))
