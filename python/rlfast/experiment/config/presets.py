"""What the presets of several algorithms have in common, by environment."""

from __future__ import annotations

from typing import Any

ALE = "ALE/"
"""The name of presets for all games of the Arcade Learning Environment."""
ATARI: dict[str, Any] = {
    "num_envs": 10,
    "eval_envs": 10,
    "eval_episodes": 10,
    "max_steps": 10_000_000,
    "eval_interval": 100_000,
    "hidden_sizes": (512,),
}
"""What the presets for Atari games have in common: the values of Tianshou 1.0's scripts."""
ATARI_REPLAY = ATARI | {
    "collect_steps": 10,
    "updates_per_step": 0.1,
    "buffer_size": 100_000,
    "start_steps": 320,
    "batch_size": 32,
    "estimation_step": 3,
}
"""The same for algorithms with a replay buffer."""
ATARI_VALUES = ATARI_REPLAY | {
    "learning_rate": 1e-4,
    "target_update_freq": 500,
    "eps_start": 1.0,
    "eps_end": 0.05,
    "eps_steps": 1_000_000,
    "eval_eps": 0.005,
}
"""The same for algorithms that learn values of actions."""
CARTPOLE_VALUES: dict[str, Any] = {
    "stop_return": 475.0,
    "learning_rate": 3e-3,
    "batch_size": 256,
    "updates_per_step": 0.125,
    "target_update_freq": 25,
}
"""What the presets for CartPole-v1 have in common, of algorithms that learn values of actions."""
CARTPOLE_QUANTILES = CARTPOLE_VALUES | {"normalize_reward": True}
"""The same for those that learn quantiles: errors of returns near 100 are far above Huber's threshold of 1."""
CARTPOLE_DATA: dict[str, Any] = {
    "max_steps": 6_000,
    "eval_interval": 2_000,
    "hidden_sizes": (64, 64),
    "learning_rate": 5e-4,
    "batch_size": 256,
    "estimation_step": 10,
    "target_update_freq": 200,
}
"""What the presets for CartPole-v1 have in common, of algorithms that learn values from data."""
NATURAL: dict[str, Any] = {"collect_steps": 1_024, "batch_size": 1_024}
"""What the presets of algorithms with natural gradients have in common."""
NATURAL_CRITIC: dict[str, Any] = {"learning_rate": 3e-3, "optim_critic_iters": 30, "reward_normalization": True}
"""What most of them have in common for their critics."""
CARTPOLE_NATURAL = NATURAL | {"stop_return": 475.0, "eval_interval": 4_096, "discount_factor": 0.98}
"""Those for CartPole-v1."""
PENDULUM_NATURAL = {
    **(NATURAL | NATURAL_CRITIC | {"stop_return": -250.0}),
    "max_steps": 500_000,
    "eval_interval": 16_384,
    "discount_factor": 0.9,
}
"""Those for Pendulum-v1."""
CATCH: dict[str, Any] = {
    "stop_return": 0.9,
    "eval_episodes": 100,
    "eval_envs": 50,
    "eval_interval": 1_000,
    "num_envs": 16,
    "channels": (16, 32, 32),
    "hidden_sizes": (128,),
    "gamma": 0.97,
}
"""What the presets for Catch-v0 have in common: small networks, since nearly all of the time goes into them."""
CATCH_REPLAY = CATCH | {
    "max_steps": 20_000,
    "start_steps": 500,
    "orthogonal": True,
    "collect_steps": 16,
    "updates_per_step": 0.25,
    "buffer_size": 10_000,
    "learning_rate": 1e-3,
    "batch_size": 32,
    "estimation_step": 6,
}
"""The same for algorithms with a replay buffer."""
CATCH_VALUES = CATCH_REPLAY | {"target_update_freq": 100, "eps_steps": 2_000, "is_double": False}
"""The same for algorithms that learn values of actions."""
CATCH_DISTRIBUTIONS = CATCH_VALUES | {"max_steps": 40_000, "estimation_step": 3}
"""The same for algorithms that learn distributions of returns."""
PENDULUM: dict[str, Any] = {
    "stop_return": -200.0,
    "max_steps": 20_000,
    "num_envs": 8,
    "eval_interval": 1_000,
    "collect_steps": 8,
    "hidden_sizes": (64, 64),
    "learning_rate": 2e-3,
    "gamma": 0.95,
    "buffer_size": 100_000,
}
"""What the presets for Pendulum-v1 have in common, of algorithms with a replay buffer."""
PENDULUM_SOFT = PENDULUM | {"alpha_learning_rate": 2e-3, "alpha": 0.5}
"""The same for algorithms with a temperature."""
PENDULUM_NORMALIZED = PENDULUM_SOFT | {"updates_per_step": 0.25, "critic_hidden_sizes": (64, 64), "policy_delay": 1}
"""The same for CrossQ and XQC, whose critics are batch normalized."""
PENDULUM_DATA: dict[str, Any] = {
    "max_steps": 8_000,
    "eval_interval": 2_000,
    "hidden_sizes": (64, 64),
    "learning_rate": 5e-4,
    "gamma": 0.95,
    "tau": 0.01,
}
"""What those have in common that learn from data."""
ROBOTS = ("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5", "Humanoid-v5", "InvertedDoublePendulum-v5")
"""The tasks of MuJoCo that have presets."""
ANT: dict[str, Any] = {"env_kwargs": {"include_cfrc_ext_in_observation": False}}
"""Ant-v5 without contact forces among its observations, as Ant-v4 was."""
MUJOCO: dict[str, Any] = {
    "max_steps": 300_000,
    "eval_interval": 10_000,
    "eval_episodes": 10,
    "eval_envs": 10,
    "start_steps": 10_000,
    "buffer_size": 300_000,
    "compile": True,
}
"""What the presets for these have in common, of algorithms with a replay buffer. Networks are smaller than those of the
papers of TQC (three layers of 512) and CrossQ (2,048), and TD3's have two layers of 256, with its paper's rates."""
