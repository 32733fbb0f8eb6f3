"""Generative adversarial imitation of an expert."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rlfast.experiment.config import AdvantageConfig, DataConfig, Presets, search, settings
from rlfast.utils.arguments.validation import NonNegativeFloat

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import BasePolicy

TITLE = "GAIL"
SUMMARY = "generative adversarial imitation of an expert's data, by PPO in the environment"


@settings("GAILPolicy")
class Config(AdvantageConfig, DataConfig):
    """Generative adversarial imitation of an expert."""

    env = "Pendulum-v1"
    normalize_obs: Literal[False] = False
    """Always False: the expert's observations are those of the environment."""
    normalize_reward: Literal[False] = False
    """Always False: the policy learns from rewards of the discriminator."""
    disc_learning_rate: NonNegativeFloat = 3e-4
    """Learning rate of Adam for the discriminator."""

    def build(self, networks: Networks) -> BasePolicy:
        """The policy, with an actor, a critic and a discriminator."""
        from rlfast.data import ReplayBuffer

        actor, dist_fn, critic = networks.actor_critic()
        return networks.policy(
            actor=actor,
            critic=critic,
            dist_fn=dist_fn,
            optim=networks.optim(),
            expert_buffer=ReplayBuffer(1) if networks.data is None else networks.data,
            disc_net=networks.discriminator(),
            disc_optim=networks.adam(self.disc_learning_rate),
        )


PRESETS: Presets = {
    "Pendulum-v1": {
        "max_steps": 200_000,
        "eval_interval": 20_480,
        "learning_rate": 1e-3,
        "lr_schedule": "linear",
        "discount_factor": 0.95,
    },
    "InvertedPendulum-v5": {"max_steps": 65_536, "learning_rate": 1e-3, "log_std": -0.5, "disc_update_num": 20},
}

SEARCH: search.Search = search.ranges(
    Config,
    search.CLIPPED,
    {"disc_learning_rate": search.Between(1e-5, 1e-3, log=True), "disc_update_num": search.OneOf((1, 2, 4, 8))},
)
