"""Soft actor-critic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlfast.experiment.config import NormalConfig, Presets, presets, search, settings

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "SAC"
SUMMARY = "soft actor-critic, for continuous actions"


@settings("SACPolicy")
class Config(NormalConfig):
    """Soft actor-critic, for continuous actions."""

    def build(self, networks: Networks) -> BasePolicy:
        """The policy, with two critics and an actor that gives normal distributions."""
        critics, actor = networks.two(networks.action_value), networks.normal_actor()
        return networks.policy(actor=actor, actor_optim=networks.optim(), alpha=networks.alpha(), **critics)


PRESETS: Presets = {
    "Pendulum-v1": {**presets.PENDULUM_SOFT, "updates_per_step": 0.25, "tau": 0.02},
    "InvertedPendulum-v5": {
        **presets.PENDULUM_SOFT | {"stop_return": 950.0, "max_steps": 50_000, "gamma": 0.98},
        "updates_per_step": 0.25,
        "tau": 0.02,
    },
    **dict.fromkeys(presets.ROBOTS, presets.MUJOCO),
    "HalfCheetah-v5": {**presets.MUJOCO, "learning_rate": 1e-3, "auto_alpha": False},
    "Ant-v5": {**presets.MUJOCO, **presets.ANT, "network": "simba", "hidden_sizes": (128,)},  # with mlp, 1,410 at most
}

SEARCH: search.Search = search.ranges(Config, search.CONTINUOUS)
