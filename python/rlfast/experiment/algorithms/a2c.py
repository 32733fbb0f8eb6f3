"""Advantage actor-critic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlfast.experiment.config import AdvantageConfig, settings

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "A2C"
SUMMARY = "advantage actor-critic, for discrete and continuous actions"


@settings("A2CPolicy")
class Config(AdvantageConfig):
    """Advantage actor-critic, for discrete, multi-discrete and continuous actions."""

    learning_rate = 7e-4
    collect_steps = 128
    batch_size = 128
    repeat = 1
    ent_coef = 0.0
    max_grad_norm = 0.5


PRESETS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "stop_return": 475.0,
        "eval_interval": 4_096,
        "max_steps": 300_000,
        "learning_rate": 2e-3,
        "discount_factor": 0.98,
    }
}


def build(networks: Networks) -> BasePolicy:
    """The policy, with an actor and a critic whose first weights are orthogonal."""
    actor, dist_fn, critic = networks.actor_critic()
    return networks.policy(actor=actor, critic=critic, dist_fn=dist_fn, optim=networks.optim())
