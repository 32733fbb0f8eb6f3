"""Trains the policies of ``foreign.py`` as their users would; as a script, prints the results."""

import json
import sys

import gymnasium as gym
import numpy as np
import torch
from foreign import OF_PENDULUM, OFF_POLICY, ON_POLICY, Greedy

from rlfast.data import Batch, Collector, PrioritizedVectorReplayBuffer, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.trainer import OffpolicyTrainer, OnpolicyTrainer


def environments(kind, number):
    name = "Pendulum-v1" if kind in OF_PENDULUM else "CartPole-v1"
    envs = DummyVectorEnv([lambda: gym.make(name, max_episode_steps=20) for _ in range(number)])
    envs.seed(1)
    return envs


def trained(kind, prioritized=False):
    """Give the policy and what two epochs told."""
    np.random.seed(0)
    torch.manual_seed(0)
    policy = kind()
    buffer = PrioritizedVectorReplayBuffer(400, 2, alpha=0.6, beta=0.4) if prioritized else VectorReplayBuffer(400, 2)
    train = Collector(policy, environments(kind, 2), buffer, exploration_noise=True)
    test = Collector(policy, environments(kind, 2))
    train.reset()
    options = {
        "policy": policy,
        "train_collector": train,
        "test_collector": test,
        "max_epoch": 2,
        "step_per_epoch": 80,
        "step_per_collect": 40,
        "episode_per_test": 2,
        "batch_size": 16,
        "verbose": False,
        "show_progress": False,
    }
    if kind in ON_POLICY:
        trainer = OnpolicyTrainer(**options, repeat_per_collect=2)
    else:
        trainer = OffpolicyTrainer(**options, update_per_step=0.25)
    epochs = list(trainer)
    last = epochs[-1].training_stat
    return policy, {
        "losses": sorted(last.get_loss_stats_dict()),
        "smoothed": sorted(last.smoothed_loss),
        "timed": last.train_time > 0,
        "steps": epochs[-1].info_stat.gradient_step,
        "asked": getattr(policy, "asked", getattr(getattr(policy, "policy", None), "asked", {})).get("learning"),
    }


def main():
    told = {}
    for kind in OFF_POLICY:
        for prioritized in (False, True):
            told[f"{kind.__name__} {prioritized}"] = trained(kind, prioritized)[1]
    for kind in ON_POLICY:
        told[kind.__name__] = trained(kind)[1]
    policy = Greedy(action_space=gym.spaces.Discrete(2))
    collector = Collector(policy, environments(Greedy, 2), VectorReplayBuffer(100, 2))
    collector.reset()
    collector.collect(n_step=20)
    stats = policy.update(8, collector.buffer)
    told["Greedy"] = [stats.get_loss_stats_dict(), policy.update(8, None).get_loss_stats_dict()]
    told["Batch"] = type(policy(Batch(obs=np.zeros((1, 4)), info={}))).__name__
    print(json.dumps(told))  # noqa: T201 (it is a script)


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    main()
