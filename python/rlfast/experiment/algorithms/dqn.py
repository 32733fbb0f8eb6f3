"""Deep Q-learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import ALE, ATARI_VALUES, CATCH_VALUES, QLearningConfig

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import DQNPolicy

TITLE = "DQN"
SUMMARY = "deep Q-learning, for discrete actions"


@dataclass(frozen=True, kw_only=True)
class Config(QLearningConfig):
    """Deep Q-learning: double, dueling, n-step and prioritized as you like."""

    huber: bool = True
    """Huber loss instead of the square."""


PRESETS = {
    "CartPole-v1": Config(
        stop_return=475.0, learning_rate=3e-3, batch_size=256, updates_per_step=0.125, target_update_freq=25
    ),
    "Acrobot-v1": Config(stop_return=-100.0, learning_rate=6.3e-4, n_step=1, target_update_freq=250),
    "LunarLander-v3": Config(  # near those of Tianshou's example, whose learning rate is 13 times as high
        stop_return=200.0,
        max_steps=800_000,
        eval_interval=20_480,
        num_envs=16,
        dueling=True,
        n_step=4,
        learning_rate=1e-3,
        lr_schedule="linear",
        batch_size=128,
        collect_steps=16,
        updates_per_step=0.0625,
        target_update_freq=500,
        buffer_size=100_000,
        start_steps=2_000,
        eps_end=0.01,
        eps_steps=200_000,
        compile=True,
    ),
    "Catch-v0": Config(**CATCH_VALUES),
    ALE: Config(**ATARI_VALUES, huber=False),
}


def build(config: Config, networks: Networks) -> DQNPolicy:
    """The policy, with a network of action values."""
    from rlfast.policy import DQNPolicy
    from rlfast.utils.optim import adam

    return networks.policy(
        DQNPolicy,
        model=networks.action_values(dueling=config.dueling),
        optim=adam(config.learning_rate),
        discount_factor=config.gamma,
        estimation_step=config.n_step,
        target_update_freq=config.target_update_freq,
        is_double=config.double,
        clip_loss_grad=config.huber,
        compile=config.compile,
    )
