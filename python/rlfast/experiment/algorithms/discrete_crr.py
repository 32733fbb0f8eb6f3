"""Critic regularized regression."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlfast.experiment.config import OfflineChoiceConfig, Presets, search, settings

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "Discrete CRR"
SUMMARY = "critic regularized regression, from data with discrete actions"


@settings("DiscreteCRRPolicy")
class Config(OfflineChoiceConfig):
    """Critic regularized regression."""

    deterministic_eval = True

    def build(self, networks: Networks) -> BasePolicy:
        """The policy, with an actor and a network of action values; in tests it takes the likeliest action."""
        actor, critic = networks.choice_actor(), networks.choice_values()
        return networks.policy(actor=actor, critic=critic, optim=networks.optim())


PRESETS: Presets = {
    "CartPole-v1": {
        "max_steps": 6_000,
        "eval_interval": 3_000,
        "batch_size": 256,
        "policy_improvement_mode": "binary",
        "min_q_weight": 0.1,
    }
}

SEARCH: search.Search = search.ranges(
    Config,
    search.OFFLINE,
    {"min_q_weight": search.Between(0.1, 10.0, log=True), "policy_improvement_mode": search.OneOf(("exp", "binary"))},
)
