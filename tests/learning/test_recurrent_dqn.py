"""A recurrent DQN on a task that needs memory: CartPole with hidden velocities."""

import sys

import gymnasium as gym
import numpy as np
import pytest
import torch

from rlfast.data import Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.policy import DQNPolicy
from rlfast.trainer import OffpolicyTrainer
from rlfast.utils.net.common import Recurrent
from rlfast.utils.optim import adam

LIMITS = np.array([2.4, 0.21], np.float32)  # where an episode ends: metres, radians


class Positions(gym.ObservationWrapper):
    """Where cart and pole are, in parts of their limits, and not how quickly they move."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def observation(self, observation):
        return observation[[0, 2]] / LIMITS


def cart_poles(number, seed):
    envs = DummyVectorEnv([lambda: Positions(gym.make("CartPole-v1"))] * number)
    envs.seed(seed)
    return envs


@pytest.mark.learning
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(3))
def test_it_remembers_what_it_cannot_see(seed):
    torch.manual_seed(seed)
    policy = DQNPolicy(
        model=Recurrent(layer_num=1, state_shape=2, action_shape=2, hidden_layer_size=64),
        optim=adam(3e-3),
        action_space=gym.spaces.Discrete(2),
        estimation_step=4,
        target_update_freq=100,  # with the square: Huber's loss seeks the median, which no end of an episode moves
    )
    policy.seed(seed)
    buffer = VectorReplayBuffer(40_000, 8, stack_num=4, seed=seed)
    trainer = OffpolicyTrainer(
        policy=policy,
        max_epoch=100,
        batch_size=64,
        train_collector=Collector(policy, cart_poles(8, seed), buffer, exploration_noise=True),
        test_collector=Collector(policy, cart_poles(20, 1000 + seed)),
        step_per_epoch=2_000,
        step_per_collect=32,
        update_per_step=0.25,
        episode_per_test=20,
        train_fn=lambda _, env_step: policy.set_eps(max(0.02, 1 - env_step / 8_000)),
        test_fn=lambda *_: policy.set_eps(0.0),
        stop_fn=lambda mean_return: mean_return >= 400,
        start_timesteps=1_000,
        max_step=100_000,
        verbose=False,
        show_progress=False,
    )
    info = trainer.run()
    sys.stdout.write(f"{info}\n")
    assert info.best_reward >= 400
