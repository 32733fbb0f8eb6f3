"""Proximal policy optimization."""

from __future__ import annotations

from typing import Any

from rlfast.experiment.config import AdvantageConfig, Presets, Schedule, presets, search, settings

TITLE = "PPO"
SUMMARY = "proximal policy optimization, for discrete and continuous actions"


@settings("PPOPolicy")
class Config(AdvantageConfig):
    """Proximal policy optimization, for discrete, multi-discrete and continuous actions."""

    batch_size = 64
    clip_schedule: Schedule = "constant"
    """Schedule of that number: constant; linear to 0 at max_steps; or exponential, see schedule_factor."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.compile and self.clip_schedule != "constant":
            raise ValueError(f"--clip-schedule {self.clip_schedule} excludes --compile: a graph has one clip range")

    def set_schedules(self, policy: Any, env_step: int) -> None:
        """Sets the clip range."""
        policy.eps_clip = self.scheduled(self.clip_schedule, self.eps_clip, env_step)


BOX2D: dict[str, Any] = {
    "num_envs": 16,
    "normalize_obs": True,
    "normalize_reward": True,
    "lr_schedule": "linear",
    "batch_size": 256,
    "repeat": 8,
    "compile": True,
}
"""What the presets for Box2D's tasks have in common."""

MUJOCO: dict[str, Any] = {
    "max_steps": 1_000_000,
    "eval_episodes": 10,
    "eval_envs": 10,
    "num_envs": 1,
    "normalize_obs": True,
    "normalize_reward": True,
    "compile": True,
}
"""What the presets for MuJoCo's robots have in common."""

CLEANRL: dict[str, Any] = {
    **MUJOCO,
    "eval_interval": 51_200,
    "hidden_sizes": (64, 64),
    "lr_schedule": "linear",
    "log_std": 0.0,
    "collect_steps": 2_048,
}
"""The numbers that CleanRL uses for MuJoCo."""

MANY_ENVS: dict[str, Any] = {
    **CLEANRL,
    "num_envs": 64,
    "normalize_reward": False,
    "reward_normalization": True,
    "advantage_normalization": False,
    "recompute_advantage": True,
    "vf_coef": 0.25,
    "log_std": -0.5,
    "adam_eps": 1e-8,
}
"""Those for 64 environments, which learn more on HalfCheetah, Walker2d and Ant."""

PRESETS: Presets = {
    "CartPole-v1": {
        "stop_return": 475.0,
        "eval_interval": 4_096,
        "learning_rate": 2e-3,
        "discount_factor": 0.98,
        "collect_steps": 1_024,
        "batch_size": 256,
    },
    "Acrobot-v1": {
        "stop_return": -100.0,
        "max_steps": 200_000,
        "num_envs": 16,
        "learning_rate": 1e-3,
        "batch_size": 256,
    },
    "LunarLander-v3": {
        **BOX2D,
        "stop_return": 200.0,
        "max_steps": 600_000,
        "eval_interval": 20_480,
        "learning_rate": 1e-3,
        "discount_factor": 0.999,
        "gae_lambda": 0.98,
        "collect_steps": 4_096,
        "ent_coef": 0.01,
    },
    "BipedalWalker-v3": {
        **BOX2D,
        "stop_return": 300.0,
        "max_steps": 1_500_000,
        "eval_interval": 65_536,
        "hidden_sizes": (256, 256),
        "log_std": -0.5,
        "collect_steps": 8_192,
    },
    "Pendulum-v1": {
        "stop_return": -200.0,
        "max_steps": 300_000,
        "learning_rate": 1e-3,
        "discount_factor": 0.9,
        "eval_interval": 16_384,
    },
    "InvertedPendulum-v5": {"stop_return": 950.0, "learning_rate": 1e-3, "log_std": -0.5},
    **dict.fromkeys(presets.ROBOTS, CLEANRL),
    **dict.fromkeys(("HalfCheetah-v5", "Walker2d-v5"), MANY_ENVS),
    "Ant-v5": {**MANY_ENVS, **presets.ANT},  # with contact forces, it does not learn to walk
    "Catch-v0": {
        **presets.CATCH,
        "max_steps": 100_000,
        "activation": "relu",
        "learning_rate": 1e-3,
        "collect_steps": 1_024,
        "repeat": 4,
        "batch_size": 128,
        "ent_coef": 0.01,
    },
    presets.ALE: {
        **presets.ATARI,
        "activation": "relu",
        "shared_features": True,
        "learning_rate": 2.5e-4,
        "lr_schedule": "linear",
        "collect_steps": 1_000,
        "repeat": 4,
        "batch_size": 256,
        "eps_clip": 0.1,
        "value_clip": True,
        "vf_coef": 0.25,
        "ent_coef": 0.01,
        "deterministic_eval": False,
    },
}

SEARCH: search.Search = search.ranges(Config, search.CLIPPED)
