"""TD3 with behavioural cloning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import OfflineControlConfig
from rlfast.utils.arguments.validation import NonNegativeFloat, PositiveInt

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import TD3BCPolicy

TITLE = "TD3+BC"
SUMMARY = "TD3 with behavioural cloning, from data with continuous actions"


@dataclass(frozen=True, kw_only=True)
class Config(OfflineControlConfig):
    """TD3 with behavioural cloning."""

    alpha: NonNegativeFloat = 2.5
    """Weight of the value beside the distance from the actions of the data."""
    policy_noise: NonNegativeFloat = 0.2
    """Standard deviation of the noise of the targets' actions, where these reach from -1 to 1."""
    noise_clip: NonNegativeFloat = 0.5
    """Largest noise of the targets' actions; 0 for no limit."""
    update_actor_freq: PositiveInt = 2
    """Gradient steps of the critics for one of the actor and the target networks."""


PRESETS = {
    "Pendulum-v1": Config(
        max_steps=8_000,
        eval_interval=2_000,
        hidden_sizes=(64, 64),
        learning_rate=5e-4,
        gamma=0.95,
        tau=0.01,
        alpha=0.5,
    ),
}


def build(config: Config, networks: Networks) -> TD3BCPolicy:
    """The policy, with an actor and two critics."""
    from rlfast.policy import TD3BCPolicy
    from rlfast.utils.optim import adam

    optim = adam(config.learning_rate)
    return TD3BCPolicy(
        actor=networks.deterministic_actor(),
        actor_optim=optim,
        critic=networks.action_value(layer_norm=config.layer_norm),
        critic_optim=optim,
        critic2=networks.action_value(layer_norm=config.layer_norm),
        critic2_optim=optim,
        tau=config.tau,
        gamma=config.gamma,
        estimation_step=config.n_step,
        alpha=config.alpha,
        policy_noise=config.policy_noise,
        noise_clip=config.noise_clip,
        update_actor_freq=config.update_actor_freq,
        compile=config.compile,
        **networks.spaces,
    )
