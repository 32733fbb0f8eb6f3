"""Proximal policy optimization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlfast.experiment.config import ALE, ATARI, CATCH, AdvantageConfig, Schedule
from rlfast.utils.arguments.validation import FiniteFloat, NonNegativeFloat, PositiveInt

if TYPE_CHECKING:
    from rlfast.experiment.networks import Networks
    from rlfast.policy import PPOPolicy

TITLE = "PPO"
SUMMARY = "proximal policy optimization, for discrete and continuous actions"


@dataclass(frozen=True, kw_only=True)
class Config(AdvantageConfig):
    """Proximal policy optimization, for discrete, multi-discrete and continuous actions."""

    batch_size: PositiveInt = 64
    eps_clip: NonNegativeFloat = 0.2
    """How far the ratio of probabilities counts."""
    clip_schedule: Schedule = "constant"
    """Schedule of that number: constant; linear to 0 at max_steps; or exponential, see schedule_factor."""
    dual_clip: FiniteFloat | None = None
    """Bound of the loss where the advantage is negative (arXiv:1912.09729), above 1."""
    value_clip: bool = False
    """Clip the critic's step, too."""
    normalize_advantage: bool = True
    """Advantages of mean 0 and deviation 1 in each gradient step."""
    recompute_advantage: bool = False
    """Estimate advantages anew before each pass."""
    vf_coef: NonNegativeFloat = 0.5
    """Weight of the critic's loss."""
    ent_coef: NonNegativeFloat = 0.0
    """Weight of the entropy."""
    max_grad_norm: NonNegativeFloat = 0.5
    """Largest norm of a gradient."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.compile and self.clip_schedule != "constant":
            raise ValueError(
                f"--clip-schedule {self.clip_schedule} cannot be had with --compile: a graph has one clip range"
            )


BOX2D: dict[str, Any] = {
    "num_envs": 16,
    "normalize_obs": True,
    "normalize_reward": True,
    "hidden_sizes": (64, 64),
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

PRESETS = {
    "CartPole-v1": Config(
        stop_return=475.0, eval_interval=4_096, learning_rate=2e-3, gamma=0.98, collect_steps=1_024, batch_size=256
    ),
    "Acrobot-v1": Config(stop_return=-100.0, max_steps=200_000, num_envs=16, learning_rate=1e-3, batch_size=256),
    "LunarLander-v3": Config(
        **BOX2D,
        stop_return=200.0,
        max_steps=600_000,
        eval_interval=20_480,
        learning_rate=1e-3,
        gamma=0.999,
        gae_lambda=0.98,
        collect_steps=4_096,
        ent_coef=0.01,
    ),
    "BipedalWalker-v3": Config(
        **BOX2D,
        stop_return=300.0,
        max_steps=1_500_000,
        eval_interval=65_536,
        learning_rate=5e-4,
        log_std=-0.5,
        gamma=0.995,
        collect_steps=8_192,
    ),
    "Pendulum-v1": Config(stop_return=-200.0, max_steps=300_000, learning_rate=1e-3, gamma=0.9, eval_interval=16_384),
    "InvertedPendulum-v5": Config(stop_return=950.0, learning_rate=1e-3, log_std=-0.5),
    "Hopper-v5": Config(  # the numbers that CleanRL uses for MuJoCo
        **MUJOCO,
        eval_interval=51_200,
        hidden_sizes=(64, 64),
        lr_schedule="linear",
        log_std=0.0,
        collect_steps=2_048,
    ),
    "HalfCheetah-v5": Config(  # the numbers that RL Baselines3 Zoo tuned, with tanh in place of ReLU
        **MUJOCO,
        eval_interval=50_000,
        hidden_sizes=(256, 256),
        learning_rate=2.0633e-5,
        log_std=-2.0,
        gamma=0.98,
        gae_lambda=0.92,
        collect_steps=512,
        repeat=20,
        eps_clip=0.1,
        vf_coef=0.58,
        ent_coef=0.0004,
        max_grad_norm=0.8,
    ),
    "Catch-v0": Config(
        **CATCH,
        max_steps=100_000,
        activation="relu",
        learning_rate=1e-3,
        collect_steps=1_024,
        repeat=4,
        batch_size=128,
        ent_coef=0.01,
    ),
    ALE: Config(
        **ATARI,
        activation="relu",
        shared_features=True,
        learning_rate=2.5e-4,
        lr_schedule="linear",
        collect_steps=1_000,
        repeat=4,
        batch_size=256,
        eps_clip=0.1,
        value_clip=True,
        vf_coef=0.25,
        ent_coef=0.01,
        deterministic_eval=False,
    ),
}


def build(config: Config, networks: Networks) -> PPOPolicy:
    """The policy, with an actor and a critic whose first weights are orthogonal."""
    from rlfast.policy import PPOPolicy
    from rlfast.utils.optim import adam

    actor, dist_fn, critic = networks.actor_critic(log_std=config.log_std, shared=config.shared_features)
    return networks.policy(
        PPOPolicy,
        actor=actor,
        critic=critic,
        optim=adam(config.learning_rate, eps=config.adam_eps),
        dist_fn=dist_fn,
        action_scaling=networks.continuous,
        eps_clip=config.eps_clip,
        dual_clip=config.dual_clip,
        value_clip=config.value_clip,
        advantage_normalization=config.normalize_advantage,
        recompute_advantage=config.recompute_advantage,
        reward_normalization=config.scale_returns,
        vf_coef=config.vf_coef,
        ent_coef=config.ent_coef,
        max_grad_norm=config.max_grad_norm,
        gae_lambda=config.gae_lambda,
        discount_factor=config.gamma,
        deterministic_eval=config.deterministic_eval,
        compile=config.compile,
    )


def schedules(config: Config, policy: PPOPolicy, env_step: int) -> None:
    """Sets the clip range."""
    policy.eps_clip = config.scheduled(config.clip_schedule, config.eps_clip, env_step)
