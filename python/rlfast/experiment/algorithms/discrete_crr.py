"""Critic regularized regression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlfast.experiment.config import OfflineChoiceConfig, settings

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "Discrete CRR"
SUMMARY = "critic regularized regression, from data with discrete actions"


@settings("DiscreteCRRPolicy")
class Config(OfflineChoiceConfig):
    """Critic regularized regression."""

    deterministic_eval = True


PRESETS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "max_steps": 6_000,
        "eval_interval": 3_000,
        "batch_size": 256,
        "policy_improvement_mode": "binary",
        "min_q_weight": 0.1,
    },
}


def build(networks: Networks) -> BasePolicy:
    """The policy, with an actor and a network of action values; in tests it takes the likeliest action."""
    from rlfast.utils.net.discrete import Actor, Critic

    actions, (features, size) = networks.actions, networks.features()
    given: dict[str, Any] = {"preprocess_net_output_dim": size, "device": networks.config.device}
    return networks.policy(
        actor=Actor(features, actions, softmax_output=False, **given),
        critic=Critic(networks.features()[0], last_size=actions, **given),
        optim=networks.optim(),
    )
