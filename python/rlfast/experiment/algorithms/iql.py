"""Implicit Q-learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import OfflineControlConfig
from rlfast.utils.arguments.validation import PositiveFloat, UnitFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import IQLPolicy

TITLE = "IQL"
SUMMARY = "implicit Q-learning, from data with continuous actions"


@dataclass(frozen=True, kw_only=True)
class Config(OfflineControlConfig):
    """Implicit Q-learning."""

    expectile: UnitFloat = 0.7
    """Expectile of the values of actions that the value of a state is; 0.5 is their mean."""
    temperature: PositiveFloat = 3.0
    """Factor of advantages in the weights of actions; small factors are imitation."""


PRESETS = {
    "Pendulum-v1": Config(
        max_steps=6_000,
        eval_interval=2_000,
        hidden_sizes=(64, 64),
        learning_rate=1e-3,
        gamma=0.95,
        tau=0.01,
        temperature=0.5,
    ),
}


def build(config: Config, networks: Networks) -> IQLPolicy:
    """The policy, with an actor of normal distributions, two critics and a value."""
    from rlfast.policy import IQLPolicy
    from rlfast.utils.optim import adam

    optim = adam(config.learning_rate)
    return IQLPolicy(
        actor=networks.normal_actor(conditioned_sigma=False, bounded=True),
        actor_optim=optim,
        critic=networks.action_value(layer_norm=config.layer_norm),
        critic_optim=optim,
        critic2=networks.action_value(layer_norm=config.layer_norm),
        critic2_optim=optim,
        tau=config.tau,
        gamma=config.gamma,
        estimation_step=config.n_step,
        value=networks.state_value(),
        value_optim=optim,
        expectile=config.expectile,
        temperature=config.temperature,
        compile=config.compile,
        **networks.spaces,
    )
