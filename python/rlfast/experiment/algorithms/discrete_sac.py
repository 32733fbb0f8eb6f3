"""Soft actor-critic for discrete actions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rlfast.experiment.config import EntropyConfig, Presets, presets, search, settings
from rlfast.utils.arguments.validation import FiniteFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "Discrete SAC"
SUMMARY = "soft actor-critic, for discrete actions"


@settings("DiscreteSACPolicy")
class Config(EntropyConfig):
    """Soft actor-critic for discrete actions."""

    env = "CartPole-v1"
    target_entropy: FiniteFloat | None = None
    """That of the actions that a learned temperature aims at. Default: 0.98 of that of equally likely actions."""
    deterministic_eval: bool = True
    """Whether actions of tests are the likeliest ones, and not drawn."""

    def build(self, networks: Networks) -> BasePolicy:
        """The policy, with two critics of all actions and an actor that gives their logits."""
        actor, critics = networks.choice_actor(), networks.two(networks.choice_values)
        alpha = self.make_alpha(0.98 * math.log(networks.actions))
        policy = networks.policy(actor=actor, actor_optim=networks.optim(), alpha=alpha, **critics)
        policy.deterministic_eval = self.deterministic_eval
        return policy


PRESETS: Presets = {
    "CartPole-v1": {
        "stop_return": 475.0,
        "max_steps": 200_000,
        "num_envs": 8,
        "collect_steps": 64,
        "updates_per_step": 0.125,
        "hidden_sizes": (128, 128),
        "learning_rate": 1e-3,
        "batch_size": 256,
        "estimation_step": 3,
        "tau": 0.02,
        "alpha": 0.01,
        "auto_alpha": False,
        "buffer_size": 50_000,
    },
    "Catch-v0": {
        **presets.CATCH_REPLAY | {"max_steps": 40_000, "estimation_step": 3},
        "tau": 0.02,
        "alpha": 0.1,
        "auto_alpha": False,
    },
    presets.ALE: {
        **presets.ATARI_REPLAY,
        "batch_size": 64,
        "start_steps": 640,
        "learning_rate": 1e-5,
        "alpha": 0.05,
        "auto_alpha": False,
        "deterministic_eval": False,
    },
}

SEARCH: search.Search = search.ranges(Config, search.CONTINUOUS)
