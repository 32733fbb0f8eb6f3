"""Twin delayed deep deterministic policy gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlfast.experiment.config import PENDULUM, DeterministicConfig, settings

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "TD3"
SUMMARY = "twin delayed deep deterministic policy gradient, for continuous actions"


@settings("TD3Policy")
class Config(DeterministicConfig):
    """Twin delayed deep deterministic policy gradient, for continuous actions."""


PRESETS: dict[str, dict[str, Any]] = {
    "Pendulum-v1": {**PENDULUM, "updates_per_step": 0.25, "tau": 0.02},
    "MountainCarContinuous-v0": {
        "stop_return": 90.0,
        "max_steps": 100_000,
        "eval_interval": 5_000,
        "hidden_sizes": (64, 64),
        "batch_size": 256,
        "updates_per_step": 0.5,
        "start_random": False,  # the goal is found by noise that keeps its direction, and by independent actions never
        "noise": 0.5,
        "noise_process": "ornstein-uhlenbeck",
        "compile": True,
    },
    "InvertedPendulum-v5": {
        **PENDULUM | {"stop_return": 950.0, "max_steps": 100_000, "gamma": 0.98},
        "updates_per_step": 0.25,
        "tau": 0.02,
    },
}


def build(networks: Networks) -> BasePolicy:
    """The policy, with an actor and two critics."""
    return networks.policy(
        actor=networks.deterministic_actor(),
        actor_optim=networks.adam(networks.config.actor_learning_rate),
        critic=networks.action_value(),
        critic_optim=networks.optim(),
        exploration_noise=networks.config.make_noise(),
    )
