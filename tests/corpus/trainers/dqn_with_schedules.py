"""A DQN run with an epsilon schedule in train_fn and a fixed epsilon in test_fn."""

import json

import gymnasium as gym
import numpy as np
import torch
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.policy import BasePolicy, DQNPolicy
from tianshou.policy.base import TrainingStats
from tianshou.trainer import OffpolicyTrainer


class Ladder(gym.Env):
    observation_space = gym.spaces.Box(0, 10, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, length=5):
        self.length = length

    def reset(self, seed=None, options=None):
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.full(1, self.t, np.float32), 1.0, self.t == self.length, False, {}


class Still(BasePolicy):
    """Takes action 0, and counts its updates."""

    def __init__(self):
        super().__init__(action_space=gym.spaces.Discrete(2))
        self.updates = []

    def forward(self, batch, state=None, **kwargs):
        return Batch(act=np.zeros(len(batch.obs), int))

    def learn(self, batch, *args, **kwargs):
        self.updates.append(len(batch))
        return TrainingStats()


def collectors(size=200, lengths=(5, 5)):
    policy = Still()
    envs = [DummyVectorEnv([lambda n=n: Ladder(n) for n in lengths]) for _ in range(2)]
    train = Collector(policy, envs[0], VectorReplayBuffer(size, len(lengths)), exploration_noise=True)
    test = Collector(policy, envs[1])
    train.reset()
    test.reset()
    return policy, train, test


from tianshou.utils.net.common import Net

torch.manual_seed(0)
net = Net((1,), 2, hidden_sizes=[8])
policy = DQNPolicy(model=net, optim=torch.optim.Adam(net.parameters(), lr=1e-3), action_space=gym.spaces.Discrete(2), target_update_freq=4)
train = Collector(policy, DummyVectorEnv([Ladder] * 2), VectorReplayBuffer(100, 2), exploration_noise=True)
test = Collector(policy, DummyVectorEnv([Ladder] * 2), exploration_noise=True)
train.reset()
test.reset()
train.collect(n_step=16, random=True)
eps = []


def train_fn(epoch, env_step):
    policy.set_eps(max(0.1, 1 - env_step / 40))
    eps.append(policy.eps)


def test_fn(epoch, env_step):
    policy.set_eps(0.0)


result = OffpolicyTrainer(
    policy=policy,
    train_collector=train,
    test_collector=test,
    max_epoch=2,
    step_per_epoch=20,
    step_per_collect=4,
    episode_per_test=2,
    batch_size=16,
    update_per_step=0.25,
    train_fn=train_fn,
    test_fn=test_fn,
    stop_fn=lambda mean: mean > 100,
    verbose=False,
    show_progress=False,
).run()
print(json.dumps({"eps": eps, "best": result.best_reward, "steps": result.train_step, "updates": result.gradient_step}))
