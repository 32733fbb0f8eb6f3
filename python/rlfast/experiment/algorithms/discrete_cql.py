"""Conservative Q-learning of discrete actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlfast.experiment.config import OfflineChoiceConfig, settings

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "Discrete CQL"
SUMMARY = "conservative Q-learning of quantiles, from data with discrete actions"


@settings("DiscreteCQLPolicy")
class Config(OfflineChoiceConfig):
    """Conservative Q-learning of discrete actions."""

    num_quantiles = 50


PRESETS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "max_steps": 6_000,
        "eval_interval": 2_000,
        "hidden_sizes": (64, 64),
        "learning_rate": 5e-4,
        "batch_size": 256,
        "estimation_step": 10,
        "target_update_freq": 200,
        "min_q_weight": 5.0,
    },
}


def build(networks: Networks) -> BasePolicy:
    """The policy, with a network of distributions of returns."""
    model = networks.action_values(atoms=networks.config.num_quantiles)
    return networks.policy(model=model, optim=networks.optim())
