"""TD3 with behavioural cloning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlfast.experiment.config import OfflineControlConfig, settings

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "TD3+BC"
SUMMARY = "TD3 with behavioural cloning, from data with continuous actions"


@settings("TD3BCPolicy")
class Config(OfflineControlConfig):
    """TD3 with behavioural cloning."""


PRESETS: dict[str, dict[str, Any]] = {
    "Pendulum-v1": {
        "max_steps": 8_000,
        "eval_interval": 2_000,
        "hidden_sizes": (64, 64),
        "learning_rate": 5e-4,
        "gamma": 0.95,
        "tau": 0.01,
        "alpha": 0.5,
    },
}


def build(networks: Networks) -> BasePolicy:
    """The policy, with an actor and two critics."""
    actor = networks.deterministic_actor()
    return networks.policy(actor=actor, actor_optim=networks.optim(), **networks.two(networks.action_value))
