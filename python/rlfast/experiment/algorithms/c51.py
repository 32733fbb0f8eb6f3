"""Categorical C51, which learns distributions of returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlfast.experiment.config import ALE, ATARI_VALUES, CATCH_DISTRIBUTIONS, QLearningConfig, settings

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "C51"
SUMMARY = "categorical C51, which learns distributions of returns, for discrete actions"


@settings("C51Policy")
class Config(QLearningConfig):
    """Categorical C51, which learns distributions of returns."""


PRESETS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "stop_return": 475.0,
        "learning_rate": 3e-3,
        "batch_size": 256,
        "updates_per_step": 0.125,
        "target_update_freq": 25,
        "v_min": 0.0,
        "v_max": 100.0,
    },
    "Catch-v0": {**CATCH_DISTRIBUTIONS, "v_min": -1.0, "v_max": 1.0},
    ALE: {**ATARI_VALUES},
}


def build(networks: Networks) -> BasePolicy:
    """The policy, with a network of distributions of returns."""
    model = networks.action_values(atoms=networks.config.num_atoms, softmax=True)
    return networks.policy(model=model, optim=networks.optim())
