"""Experiments that builders declare learn, with the defaults of their algorithms where nothing else is said."""

import sys
from dataclasses import replace

import pytest

from rlfast.highlevel import experiment as builders
from rlfast.highlevel.config import SamplingConfig
from rlfast.highlevel.env import EnvFactoryRegistered, VectorEnvType
from rlfast.highlevel.params import policy_params as params
from rlfast.highlevel.params.alpha import AutoAlphaFactoryDefault
from rlfast.highlevel.params.noise import MaxActionScaledGaussian
from rlfast.highlevel.trainer import EpochStopCallbackRewardThreshold, EpochTrainCallbackDQNEpsLinearDecay

ROLLOUTS = SamplingConfig(
    num_epochs=25,
    step_per_epoch=4_096,
    step_per_collect=2_048,
    repeat_per_collect=10,
    num_train_envs=8,
    num_test_envs=20,
    num_test_episodes=20,
)
REPLAY = SamplingConfig(
    num_epochs=20,
    step_per_epoch=1_000,
    step_per_collect=10,
    num_train_envs=1,
    num_test_envs=20,
    num_test_episodes=20,
    buffer_size=20_000,
    batch_size=128,
    start_timesteps=1_000,
    start_timesteps_random=True,
)


def gaussian(builder):
    return builder.with_actor_factory_default((64, 64), continuous_unbounded=True, continuous_conditioned_sigma=True)


def ppo(make):
    builder = make("PPO", ROLLOUTS).with_ppo_params(
        params.PPOParams(lr=1e-3, max_grad_norm=0.5, deterministic_eval=True)
    )
    return builder.with_actor_factory_default((64, 64))


def trpo(make):
    chosen = params.TRPOParams(deterministic_eval=True)
    sampling = replace(ROLLOUTS, repeat_per_collect=1)
    return make("TRPO", sampling).with_trpo_params(chosen).with_actor_factory_default((64, 64))


def dqn(make):
    sizes = {"num_train_envs": 8, "step_per_collect": 64, "batch_size": 256, "buffer_size": 50_000}
    sampling = replace(REPLAY, num_epochs=50, step_per_epoch=2_048, update_per_step=0.125, **sizes)
    chosen = params.DQNParams(lr=3e-3, estimation_step=3, target_update_freq=25, clip_loss_grad=True)
    callback = EpochTrainCallbackDQNEpsLinearDecay(1.0, 0.05, 10_000)
    builder = make("DQN", sampling).with_dqn_params(chosen).with_epoch_train_callback(callback)
    return builder.with_model_factory_default((128, 128))


def discrete_sac(make):
    alpha = AutoAlphaFactoryDefault(1e-3, target_entropy_coefficient=0.3)
    sampling = replace(REPLAY, num_epochs=30, update_per_step=0.25)
    return make("DiscreteSAC", sampling).with_sac_params(params.DiscreteSACParams(alpha=alpha))


def sac(make):
    chosen = params.SACParams(alpha=AutoAlphaFactoryDefault(1e-3))
    return gaussian(make("SAC", REPLAY)).with_sac_params(chosen)


def redq(make):
    chosen = params.REDQParams(alpha=AutoAlphaFactoryDefault(1e-3), ensemble_size=5, actor_delay=5)
    return gaussian(make("REDQ", REPLAY)).with_redq_params(chosen)


def td3(make):
    chosen = params.TD3Params(exploration_noise=MaxActionScaledGaussian(0.1))
    return make("TD3", REPLAY).with_td3_params(chosen).with_actor_factory_default((64, 64))


def ddpg(make):
    chosen = params.DDPGParams(exploration_noise=MaxActionScaledGaussian(0.1))
    return make("DDPG", REPLAY).with_ddpg_params(chosen).with_actor_factory_default((64, 64))


REACHED = {
    ppo: ("CartPole-v1", 475),
    trpo: ("CartPole-v1", 475),
    dqn: ("CartPole-v1", 475),
    discrete_sac: ("CartPole-v1", 475),
    sac: ("Pendulum-v1", -250),
    redq: ("Pendulum-v1", -250),
    td3: ("Pendulum-v1", -250),
    ddpg: ("Pendulum-v1", -250),
}
"""The threshold of CartPole is its own; Pendulum has none."""


@pytest.mark.learning
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("declare", REACHED)
def test_experiments_learn(declare, tmp_path):
    task, threshold = REACHED[declare]

    def make(name, sampling):
        config = builders.ExperimentConfig(seed=0, device="cpu", watch=False, persistence_base_dir=str(tmp_path))
        env = EnvFactoryRegistered(task=task, venv_type=VectorEnvType.AUTO)
        builder = getattr(builders, f"{name}ExperimentBuilder")(env, config, sampling).with_settings(progress=False)
        return builder.with_epoch_stop_callback(EpochStopCallbackRewardThreshold(threshold))

    result = declare(make).build().run("learned").trainer_result
    sys.stdout.write(f"{declare.__name__}: {result.best_reward:.4g} after {result.train_step} steps\n")
    assert result.best_reward >= threshold
