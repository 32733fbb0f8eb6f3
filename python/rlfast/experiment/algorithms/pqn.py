"""Parallelised Q-network."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from rlfast.experiment.config import ExplorationConfig, OnPolicyConfig, Presets, presets, search, settings

TITLE = "PQN"
SUMMARY = "parallelised Q-network, for discrete actions, without a replay buffer"


@settings("PQNPolicy", without=("clip_loss_grad", "estimation_step", "is_double", "target_update_freq"))
class Config(OnPolicyConfig, ExplorationConfig):
    """Settings of parallelised Q-networks, for discrete actions."""

    orthogonal: ClassVar[bool] = True
    """Always True: convolutions begin with orthogonal weights."""
    hidden_sizes = (64, 64)
    learning_rate = 1e-3
    num_envs = 32
    batch_size = 128
    repeat = 4
    layer_norm: bool = True
    """Normalize each layer, convolutions included, which keeps values from growing without bound."""
    optimizer: Literal["adam", "radam"] = "adam"
    """The optimizer: Adam, or RAdam (arXiv:1908.03265), the paper's, whose first steps are shorter."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.compile and self.optimizer == "radam":
            raise ValueError("--optimizer radam excludes --compile: leave one out")


ATARI: dict[str, Any] = {
    **presets.ATARI,
    "num_envs": 128,
    "collect_steps": 4_096,
    "activation": "relu",
    "optimizer": "radam",
    "learning_rate": 2.5e-4,
    "adam_eps": 1e-8,
    "batch_size": 128,
    "repeat": 2,
    "eps_end": 0.001,
    "eps_steps": 1_000_000,
    "eval_eps": 0.005,
    "eval_interval": 409_600,
}
"""The numbers of the authors' code for Atari games."""

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
    },
    "Catch-v0": {
        **presets.CATCH,
        "max_steps": 80_000,
        "eval_interval": 4_096,
        "activation": "relu",
        "learning_rate": 1e-3,
        "collect_steps": 512,
        "batch_size": 64,
        "eps_steps": 8_000,
    },
    presets.ALE: ATARI,
    "ALE/Pong-v5": {
        **ATARI,
        "max_steps": 6_000_000,
        "num_envs": 64,
        "backend": "process",
        "collect_steps": 2_048,
        "channels": (16, 32, 32),
        "hidden_sizes": (256,),
        "dtype": "bfloat16",
        "optimizer": "adam",
        "learning_rate": 5e-4,
        "adam_eps": 1e-5,
        "eps_end": 0.01,
        "eps_steps": 250_000,
        "eval_eps": 0.0,
        "eval_interval": 204_800,
    },
}

SEARCH: search.Search = search.ranges(
    Config,
    search.ROLL_OUTS,
    {
        "q_lambda": search.OneOf((0.0, 0.5, 0.65, 0.9)),
        "repeat": search.OneOf((1, 2, 4)),
        "max_grad_norm": search.Between(0.5, 20.0, log=True),
    },
)
