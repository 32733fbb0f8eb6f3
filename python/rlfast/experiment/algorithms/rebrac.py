"""Revisited behaviour-regularized actor-critic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlfast.experiment.config import OfflineControlConfig, settings

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "ReBRAC"
SUMMARY = "revisited behaviour-regularized actor-critic, from data with continuous actions"


@settings("ReBRACPolicy")
class Config(OfflineControlConfig):
    """Revisited behaviour-regularized actor-critic."""


PRESETS: dict[str, dict[str, Any]] = {
    "Pendulum-v1": {
        "max_steps": 8_000,
        "eval_interval": 2_000,
        "hidden_sizes": (64, 64),
        "learning_rate": 5e-4,
        "gamma": 0.95,
        "tau": 0.01,
        "actor_penalty": 2.0,
        "critic_penalty": 0.0,
    },
}


def build(networks: Networks) -> BasePolicy:
    """The policy, with an actor and two critics."""
    actor = networks.deterministic_actor()
    return networks.policy(actor=actor, actor_optim=networks.optim(), **networks.two(networks.action_value))
