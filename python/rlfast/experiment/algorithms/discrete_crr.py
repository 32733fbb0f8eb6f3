"""Critic regularized regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rlfast.experiment.config import OfflineChoiceConfig
from rlfast.utils.arguments.validation import NonNegativeFloat, PositiveFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import DiscreteCRRPolicy

TITLE = "Discrete CRR"
SUMMARY = "critic regularized regression, from data with discrete actions"


@dataclass(frozen=True, kw_only=True)
class Config(OfflineChoiceConfig):
    """Critic regularized regression."""

    policy_improvement_mode: Literal["exp", "binary", "all"] = "exp"
    """Weight of an action of the data: the exponential of its advantage, whether that is positive, or 1."""
    beta: PositiveFloat = 1.0
    """Divisor of advantages in exponential weights."""
    ratio_upper_bound: PositiveFloat = 20.0
    """The largest exponential weight."""
    min_q_weight: NonNegativeFloat = 10.0
    """Weight of the penalty on values of actions that are not in the data."""


PRESETS = {
    "CartPole-v1": Config(
        max_steps=6_000,
        eval_interval=3_000,
        batch_size=256,
        policy_improvement_mode="binary",
        min_q_weight=0.1,
    ),
}


def build(config: Config, networks: Networks) -> DiscreteCRRPolicy:
    """The policy, with an actor and a network of action values; in tests it takes the likeliest action."""
    from rlfast.policy import DiscreteCRRPolicy
    from rlfast.utils.net.discrete import Actor, Critic
    from rlfast.utils.optim import adam

    actions, (features, size) = networks.actions, networks.features()
    given: dict[str, Any] = {"preprocess_net_output_dim": size, "device": config.device}
    return DiscreteCRRPolicy(
        actor=Actor(features, actions, softmax_output=False, **given),
        critic=Critic(networks.features()[0], last_size=actions, **given),
        optim=adam(config.learning_rate),
        discount_factor=config.gamma,
        policy_improvement_mode=config.policy_improvement_mode,
        ratio_upper_bound=config.ratio_upper_bound,
        beta=config.beta,
        min_q_weight=config.min_q_weight,
        target_update_freq=config.target_update_freq,
        deterministic_eval=True,
        compile=config.compile,
        **networks.spaces,
    )
