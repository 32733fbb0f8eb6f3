"""Quantile regression QRDQN, which learns quantiles of returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlfast.experiment.config import ALE, ATARI_VALUES, CATCH_VALUES, QLearningConfig, settings

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "QRDQN"
SUMMARY = "quantile regression QRDQN, which learns quantiles of returns, for discrete actions"


@settings("QRDQNPolicy")
class Config(QLearningConfig):
    """Quantile regression QRDQN, which learns quantiles of returns."""

    num_quantiles = 50


PRESETS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {"stop_return": 475.0, "target_update_freq": 25, "num_quantiles": 20},
    "Catch-v0": {**CATCH_VALUES, "num_quantiles": 20},
    ALE: {**ATARI_VALUES, "num_quantiles": 200},
}


def build(networks: Networks) -> BasePolicy:
    """The policy, with a network of distributions of returns."""
    model = networks.action_values(atoms=networks.config.num_quantiles)
    return networks.policy(model=model, optim=networks.optim())
