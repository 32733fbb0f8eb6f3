"""Loggers: one of the user on BaseLogger, LazyLogger, and TensorBoard with its intervals."""

import json

import gymnasium as gym
import numpy as np
import torch
from tianshou.data import Batch, Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.policy import BasePolicy
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


import tempfile

from tianshou.utils import BaseLogger, LazyLogger, TensorboardLogger
from torch.utils.tensorboard import SummaryWriter


class Remember(BaseLogger):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.written = []

    def write(self, step_type, step, data):
        self.written.append([step_type, int(step), sorted(k for k in data if "time" not in k and "speed" not in k)])

    def save_data(self, epoch, env_step, gradient_step, save_checkpoint_fn=None):
        if save_checkpoint_fn:
            save_checkpoint_fn(epoch, env_step, gradient_step)

    def restore_data(self):
        return 0, 0, 0


out = {}
mine = Remember(train_interval=1, test_interval=1, update_interval=1)
for logger in (mine, LazyLogger(), TensorboardLogger(SummaryWriter(tempfile.mkdtemp()), train_interval=5)):
    policy, train, test = collectors()
    saved = []
    OffpolicyTrainer(
        policy=policy,
        train_collector=train,
        test_collector=test,
        max_epoch=2,
        step_per_epoch=10,
        step_per_collect=10,
        episode_per_test=2,
        batch_size=4,
        update_per_step=0.1,
        logger=logger,
        save_checkpoint_fn=lambda epoch, env_step, gradient_step: saved.append([epoch, env_step, gradient_step]) or "x",
        verbose=False,
        show_progress=False,
    ).run()
    if logger is mine:
        out["saved"] = saved
out["kinds"] = sorted({w[0] for w in mine.written})
out["test"] = [w[1] for w in mine.written if "test/reward" in w[2] or any(k.startswith("test/") for k in w[2])][:2]
print(json.dumps(out))
