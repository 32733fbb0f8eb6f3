"""Parallelised Q-network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlfast.experiment.config import ExplorationConfig, OnPolicyConfig
from rlfast.utils.arguments.validation import NonNegativeFloat, PositiveInt, UnitFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import PQNPolicy

TITLE = "PQN"
SUMMARY = "parallelised Q-network, for discrete actions, without a replay buffer"


@dataclass(frozen=True, kw_only=True)
class Config(OnPolicyConfig, ExplorationConfig):
    """Settings of parallelised Q-networks, for discrete actions."""

    hidden_sizes: tuple[PositiveInt, ...] = (64, 64)
    learning_rate: NonNegativeFloat = 1e-3
    num_envs: PositiveInt = 32
    batch_size: PositiveInt = 128
    repeat: PositiveInt = 4
    q_lambda: UnitFloat = 0.65
    """Returns: 0 for one-step, 1 for those of whole roll-outs."""
    layer_norm: bool = True
    """Normalize each layer, which keeps values from growing without bound."""
    max_grad_norm: NonNegativeFloat = 10.0
    """Largest norm of a gradient."""


PRESETS = {
    "CartPole-v1": Config(  # with few random actions, or a larger rate, what was learned is forgotten soon
        stop_return=475.0,
        learning_rate=1e-3,
        lr_schedule="linear",
        q_lambda=0.95,
        eval_interval=4_096,
        collect_steps=1_024,
        eps_end=0.2,
        eps_steps=20_000,
    )
}


def build(config: Config, networks: Networks) -> PQNPolicy:
    """Returns the policy, with a network of action values."""
    from torch.nn import LayerNorm

    from rlfast.policy import PQNPolicy
    from rlfast.utils.optim import adam

    return PQNPolicy(
        model=networks.action_values(norm_layer=LayerNorm if config.layer_norm else None),
        optim=adam(config.learning_rate, eps=config.adam_eps),
        discount_factor=config.gamma,
        q_lambda=config.q_lambda,
        max_grad_norm=config.max_grad_norm,
        compile=config.compile,
        **networks.spaces,
    )
