"""PPO on MuJoCo's HalfCheetah-v5, declared by a builder. It takes about half an hour.

python examples/ppo_mujoco.py
"""

from torch import nn

from rlfast.highlevel.config import SamplingConfig
from rlfast.highlevel.env import EnvFactoryRegistered, VectorEnvType
from rlfast.highlevel.experiment import ExperimentConfig, PPOExperimentBuilder
from rlfast.highlevel.params.lr_scheduler import LRSchedulerFactoryLinear
from rlfast.highlevel.params.policy_params import PPOParams


def train(steps: int = 1_000_000, seed: int = 0, folder: str | None = None) -> float:
    """Return the best mean return of 10 test episodes; with a folder, checkpoints and curves are written to it."""
    sampling = SamplingConfig(
        num_epochs=-(-steps // 51_200),
        step_per_epoch=min(steps, 51_200),
        step_per_collect=min(steps, 2_048),
        repeat_per_collect=10,
        num_train_envs=8,
        num_test_envs=10,
        num_test_episodes=10,
    )
    persistence = {"persistence_enabled": folder is not None, "persistence_base_dir": folder or "log"}
    params = PPOParams(
        lr=3e-4,
        lr_scheduler_factory=LRSchedulerFactoryLinear(sampling),
        ent_coef=0.0,
        vf_coef=0.25,
        max_grad_norm=0.5,
        deterministic_eval=True,
        recompute_advantage=True,
    )
    experiment = (
        PPOExperimentBuilder(
            EnvFactoryRegistered(task="HalfCheetah-v5", venv_type=VectorEnvType.AUTO),
            ExperimentConfig(seed=seed, watch=False, device="cpu", **persistence),
            sampling,
        )
        .with_ppo_params(params)
        .with_actor_factory_default((64, 64), nn.Tanh, continuous_unbounded=True)
        .with_critic_factory_default((64, 64), nn.Tanh)
        .with_settings(normalize_obs=True, normalize_reward=True)
        .build()
    )
    result = experiment.run().trainer_result
    return float("nan") if result is None else result.best_reward


if __name__ == "__main__":
    print(f"mean return: {train(folder='log'):.0f}")
