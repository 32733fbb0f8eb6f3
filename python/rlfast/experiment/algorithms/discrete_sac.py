"""Soft actor-critic for discrete actions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rlfast.experiment.config import ALE, ATARI_REPLAY, CATCH_REPLAY, SoftConfig
from rlfast.utils.arguments.validation import FiniteFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import DiscreteSACPolicy

TITLE = "Discrete SAC"
SUMMARY = "soft actor-critic, for discrete actions"


@dataclass(frozen=True, kw_only=True)
class Config(SoftConfig):
    """Soft actor-critic for discrete actions."""

    env: str = "CartPole-v1"
    target_entropy: FiniteFloat | None = None
    """That of the actions that a learned temperature aims at. Default: 0.98 of that of equally likely actions."""
    deterministic_eval: bool = True
    """Whether actions of tests are the likeliest ones, and not drawn."""


PRESETS = {
    "CartPole-v1": Config(
        stop_return=475.0,
        num_envs=8,
        collect_steps=64,
        updates_per_step=0.125,
        hidden_sizes=(128, 128),
        learning_rate=1e-3,
        batch_size=256,
        n_step=3,
        tau=0.02,
        alpha=0.01,
        auto_alpha=False,
        buffer_size=50_000,
    ),
    "Catch-v0": Config(
        **CATCH_REPLAY | {"max_steps": 40_000, "n_step": 3},
        tau=0.02,
        alpha=0.1,
        auto_alpha=False,
    ),
    ALE: Config(
        **{**ATARI_REPLAY, "batch_size": 64, "start_steps": 640},
        learning_rate=1e-5,
        alpha=0.05,
        auto_alpha=False,
        deterministic_eval=False,
    ),
}


def build(config: Config, networks: Networks) -> DiscreteSACPolicy:
    """The policy, with two critics of all actions and an actor that gives their logits."""
    from rlfast.policy import DiscreteSACPolicy
    from rlfast.utils.optim import adam

    actions = networks.actions
    actor = networks.choice_actor()
    critic, critic2 = networks.choice_values(), networks.choice_values()
    target = 0.98 * math.log(actions) if config.target_entropy is None else config.target_entropy
    optim = adam(config.learning_rate)
    policy = networks.policy(
        DiscreteSACPolicy,
        actor=actor,
        actor_optim=optim,
        critic=critic,
        critic_optim=optim,
        critic2=critic2,
        critic2_optim=optim,
        tau=config.tau,
        gamma=config.gamma,
        alpha=replace(config, target_entropy=target).temperature(actions),
        estimation_step=config.n_step,
        compile=config.compile,
    )
    policy.deterministic_eval = config.deterministic_eval
    return policy
