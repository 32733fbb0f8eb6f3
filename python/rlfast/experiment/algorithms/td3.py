"""Twin delayed deep deterministic policy gradient."""

from __future__ import annotations

from rlfast.experiment.config import DeterministicConfig, Presets, presets, search, settings

TITLE = "TD3"
SUMMARY = "twin delayed deep deterministic policy gradient, for continuous actions"


@settings("TD3Policy")
class Config(DeterministicConfig):
    """Twin delayed deep deterministic policy gradient, for continuous actions."""


PRESETS: Presets = {
    "Pendulum-v1": {**presets.PENDULUM, "updates_per_step": 0.25, "tau": 0.02},
    "MountainCarContinuous-v0": {
        "stop_return": 90.0,
        "max_steps": 100_000,
        "eval_interval": 5_000,
        "hidden_sizes": (64, 64),
        "batch_size": 256,
        "updates_per_step": 0.5,
        "start_random": False,  # the goal is found by noise that keeps its direction, and by independent actions never
        "noise": 0.5,
        "noise_process": "ornstein-uhlenbeck",
        "compile": True,
    },
    **{task: {**presets.MUJOCO, "start_steps": 25_000} for task in presets.ROBOTS},
    "InvertedPendulum-v5": {
        **presets.PENDULUM | {"stop_return": 950.0, "max_steps": 100_000, "gamma": 0.98},
        "updates_per_step": 0.25,
        "tau": 0.02,
    },
}

SEARCH: search.Search = search.ranges(
    Config, search.CONTINUOUS, {"policy_noise": search.Between(0.1, 0.4), "update_actor_freq": search.OneOf((1, 2, 4))}
)
