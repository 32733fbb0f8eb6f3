"""Twin delayed deep deterministic policy gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import PENDULUM, DeterministicConfig
from rlfast.utils.arguments.validation import NonNegativeFloat, PositiveInt

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import TD3Policy

TITLE = "TD3"
SUMMARY = "twin delayed deep deterministic policy gradient, for continuous actions"


@dataclass(frozen=True, kw_only=True)
class Config(DeterministicConfig):
    """Twin delayed deep deterministic policy gradient, for continuous actions."""

    policy_noise: NonNegativeFloat = 0.2
    """Standard deviation of the noise of the targets' actions, where these reach from -1 to 1."""
    noise_clip: NonNegativeFloat = 0.5
    """Largest noise of the targets' actions; 0 for no limit."""
    update_actor_freq: PositiveInt = 2
    """Gradient steps of the critics for one of the actor and the target networks."""


PRESETS = {
    "Pendulum-v1": Config(**PENDULUM, updates_per_step=0.25, tau=0.02),
    "MountainCarContinuous-v0": Config(
        stop_return=90.0,
        max_steps=100_000,
        eval_interval=5_000,
        hidden_sizes=(64, 64),
        batch_size=256,
        updates_per_step=0.5,
        start_random=False,  # the goal is found by noise that keeps its direction, and by independent actions never
        noise=0.5,
        noise_process="ornstein-uhlenbeck",
        compile=True,
    ),
    "InvertedPendulum-v5": Config(
        **PENDULUM | {"stop_return": 950.0, "max_steps": 100_000, "gamma": 0.98}, updates_per_step=0.25, tau=0.02
    ),
}


def build(config: Config, networks: Networks) -> TD3Policy:
    """The policy, with an actor and two critics."""
    from rlfast.policy import TD3Policy
    from rlfast.utils.optim import adam

    return networks.policy(
        TD3Policy,
        actor=networks.deterministic_actor(),
        actor_optim=adam(config.actor_learning_rate),
        critic=networks.action_value(),
        critic_optim=adam(config.learning_rate),
        tau=config.tau,
        gamma=config.gamma,
        exploration_noise=config.exploration_noise(),
        policy_noise=config.policy_noise,
        noise_clip=config.noise_clip,
        update_actor_freq=config.update_actor_freq,
        estimation_step=config.n_step,
        compile=config.compile,
    )
