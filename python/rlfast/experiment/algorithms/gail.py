"""Generative adversarial imitation of an expert."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rlfast.experiment.config import AdvantageConfig, DataConfig
from rlfast.utils.arguments.validation import NonNegativeFloat, PositiveInt

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import GAILPolicy

TITLE = "GAIL"
SUMMARY = "generative adversarial imitation of an expert's data, by PPO in the environment"


@dataclass(frozen=True, kw_only=True)
class Config(AdvantageConfig, DataConfig):
    """Generative adversarial imitation of an expert."""

    env: str = "Pendulum-v1"
    normalize_obs: Literal[False] = False
    """Always False: the expert's observations are those of the environment."""
    normalize_reward: Literal[False] = False
    """Always False: the policy learns from rewards of the discriminator."""
    eps_clip: NonNegativeFloat = 0.2
    """Bound of the change of the ratio of probabilities."""
    normalize_advantage: bool = True
    """Whether advantages have mean 0 and deviation 1 in each gradient step."""
    vf_coef: NonNegativeFloat = 0.5
    """Weight of the critic's loss."""
    ent_coef: NonNegativeFloat = 0.0
    """Weight of the entropy."""
    max_grad_norm: NonNegativeFloat = 0.5
    """Largest norm of a gradient."""
    disc_learning_rate: NonNegativeFloat = 3e-4
    """Learning rate of Adam for the discriminator."""
    disc_update_num: PositiveInt = 4
    """Gradient steps of the discriminator on each roll-out."""


PRESETS = {
    "Pendulum-v1": Config(
        max_steps=200_000, eval_interval=20_480, learning_rate=1e-3, lr_schedule="linear", gamma=0.95
    ),
    "InvertedPendulum-v5": Config(max_steps=65_536, learning_rate=1e-3, log_std=-0.5, disc_update_num=20),
}


def build(config: Config, networks: Networks) -> GAILPolicy:
    """The policy, with an actor, a critic and a discriminator."""
    from rlfast.data import ReplayBuffer
    from rlfast.policy import GAILPolicy
    from rlfast.utils.optim import adam

    actor, dist_fn, critic = networks.actor_critic(log_std=config.log_std, shared=config.shared_features)
    return GAILPolicy(
        actor=actor,
        critic=critic,
        optim=adam(config.learning_rate, eps=config.adam_eps),
        dist_fn=dist_fn,
        expert_buffer=ReplayBuffer(1) if networks.data is None else networks.data,
        disc_net=networks.discriminator(),
        disc_optim=adam(config.disc_learning_rate),
        disc_update_num=config.disc_update_num,
        action_scaling=networks.continuous,
        eps_clip=config.eps_clip,
        advantage_normalization=config.normalize_advantage,
        reward_normalization=config.scale_returns,
        vf_coef=config.vf_coef,
        ent_coef=config.ent_coef,
        max_grad_norm=config.max_grad_norm,
        gae_lambda=config.gae_lambda,
        discount_factor=config.gamma,
        deterministic_eval=config.deterministic_eval,
        compile=config.compile,
        **networks.spaces,
    )
