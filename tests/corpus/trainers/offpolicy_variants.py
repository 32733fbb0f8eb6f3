"""Off-policy runs: with several ratios of updates, stopped early, and as an iterator over epochs."""


import json

import gymnasium as gym
import numpy as np
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


COMMON = {"episode_per_test": 2, "batch_size": 4, "verbose": False, "show_progress": False}
ratios = {}
for ratio, per_collect in ((1, 4), (0.25, 8), (2.0, 3), (0.1, 10)):
    policy, train, test = collectors()
    result = OffpolicyTrainer(
        policy=policy,
        train_collector=train,
        test_collector=test,
        max_epoch=1,
        step_per_epoch=80,
        step_per_collect=per_collect,
        update_per_step=ratio,
        **COMMON,
    ).run()
    ratios[f"{ratio} {per_collect}"] = [len(policy.updates), result.gradient_step, result.train_step]

stopped = {}
for in_train in (True, False):
    policy, train, test = collectors()
    result = OffpolicyTrainer(
        policy=policy,
        train_collector=train,
        test_collector=test,
        max_epoch=5,
        step_per_epoch=30,
        step_per_collect=3,
        update_per_step=0.5,
        stop_fn=lambda mean: mean >= 5,
        test_in_train=in_train,
        **COMMON,
    ).run()
    stopped[str(in_train)] = [result.train_step, result.best_reward, len(policy.updates)]

policy, train, test = collectors()
trainer = OffpolicyTrainer(
    policy=policy,
    train_collector=train,
    test_collector=test,
    max_epoch=3,
    step_per_epoch=10,
    step_per_collect=10,
    update_per_step=0.1,
    **COMMON,
)
epochs = []
for stats in trainer:
    epochs.append(
        [
            stats.epoch,
            stats.train_collect_stat.n_collected_steps,
            stats.train_collect_stat.n_collected_episodes,
            stats.test_collect_stat.returns_stat.mean,
            stats.info_stat.gradient_step,
            stats.info_stat.best_reward,
            type(stats.training_stat).__name__,
        ]
    )
epochs.append([trainer.env_step, trainer.best_reward, trainer.best_epoch, trainer.max_epoch])
print(json.dumps({"ratios": ratios, "stop_early": stopped, "epochs": epochs}))
