"""Parallelised Q-network."""

from __future__ import annotations

from rlfast.experiment.config import ExplorationConfig, OnPolicyConfig, Presets, settings

TITLE = "PQN"
SUMMARY = "parallelised Q-network, for discrete actions, without a replay buffer"


@settings("PQNPolicy", without=("clip_loss_grad", "estimation_step", "is_double", "target_update_freq"))
class Config(OnPolicyConfig, ExplorationConfig):
    """Settings of parallelised Q-networks, for discrete actions."""

    hidden_sizes = (64, 64)
    learning_rate = 1e-3
    num_envs = 32
    batch_size = 128
    repeat = 4
    layer_norm: bool = True
    """Normalize each layer, which keeps values from growing without bound."""


PRESETS: Presets = {
    "CartPole-v1": {  # with few random actions, or a larger rate, what was learned is forgotten soon
        "stop_return": 475.0,
        "learning_rate": 1e-3,
        "lr_schedule": "linear",
        "q_lambda": 0.95,
        "eval_interval": 4_096,
        "collect_steps": 1_024,
        "eps_end": 0.2,
        "eps_steps": 20_000,
    }
}
