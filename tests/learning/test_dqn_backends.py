"""The same training code over every kind of vector environment."""

import gymnasium as gym
import pytest
import torch

from rlfast.data import Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv, NativeVectorEnv, ShmemVectorEnv, SubprocVectorEnv
from rlfast.policy import DQNPolicy
from rlfast.trainer import OffpolicyTrainer
from rlfast.utils.net.common import Net

ENVS = 8


def make():
    return gym.make("CartPole-v1")


def envpool_cart_poles():
    envpool = pytest.importorskip("envpool")
    return envpool.make("CartPole-v1", env_type="gymnasium", num_envs=ENVS, seed=0)


def ray_cart_poles():
    pytest.importorskip("ray")
    from rlfast.env import RayVectorEnv

    return RayVectorEnv([make] * ENVS)


BACKENDS = {
    "native, reset by the collector": lambda: NativeVectorEnv("CartPole-v1", ENVS, autoreset_mode=None),
    "native, same step": lambda: NativeVectorEnv("CartPole-v1", ENVS, autoreset_mode="SAME_STEP"),
    "native, next step": lambda: NativeVectorEnv("CartPole-v1", ENVS),
    "dummy": lambda: DummyVectorEnv([make] * ENVS),
    "subproc": lambda: SubprocVectorEnv([make] * ENVS),
    "shmem": lambda: ShmemVectorEnv([make] * ENVS, placement="process"),
    "envpool": envpool_cart_poles,
    "ray": ray_cart_poles,
}


@pytest.mark.learning
@pytest.mark.filterwarnings("default")  # other libraries warn of themselves
@pytest.mark.parametrize("backend", BACKENDS)
def test_dqn_solves_cartpole(backend):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = Net(state_shape=4, action_shape=2, hidden_sizes=[128, 128])
    policy = DQNPolicy(
        model=net,
        optim=torch.optim.Adam(net.parameters(), lr=3e-3, fused=True),
        action_space=gym.spaces.Discrete(2),
        discount_factor=0.99,
        estimation_step=3,
        target_update_freq=25,
        clip_loss_grad=True,
    )
    policy.seed(0)
    buffer = VectorReplayBuffer(total_size=50_000, buffer_num=ENVS, seed=0)
    train_collector = Collector(policy, BACKENDS[backend](), buffer, exploration_noise=True)
    test_collector = Collector(policy, NativeVectorEnv("CartPole-v1", 20, autoreset_mode=None))
    train_collector.collect(n_step=1_000, random=True, gym_reset_kwargs={} if backend == "envpool" else {"seed": 0})
    with train_collector:
        result = OffpolicyTrainer(
            policy=policy,
            max_epoch=50,
            batch_size=256,
            train_collector=train_collector,
            test_collector=test_collector,
            step_per_epoch=2_000,
            step_per_collect=64,
            episode_per_test=20,
            update_per_step=1 / 8,
            train_fn=lambda _, env_step: policy.set_eps(max(0.05, 1.0 - env_step / 10_000)),
            stop_fn=lambda mean_return: mean_return >= 475,
            show_progress=False,
            verbose=False,
        ).run()
    assert result.best_reward >= 475
