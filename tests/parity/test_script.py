"""A script for Tianshou 1.0 runs after ``sed s/tianshou/rlfast/``."""

import os
import subprocess
import sys

import pytest

from machine import PATIENCE

SCRIPT = """
import sys

import gymnasium as gym
import torch
from torch.utils.tensorboard import SummaryWriter

import tianshou as ts
from tianshou.data import Collector, PrioritizedVectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.policy import DQNPolicy
from tianshou.trainer import OffpolicyTrainer
from tianshou.utils import TensorboardLogger
from tianshou.utils.net.common import Net

folder, env = sys.argv[1], gym.make("CartPole-v1")
train_envs = DummyVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(4)])
test_envs = ts.env.DummyVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(4)])
train_envs.seed(1)
test_envs.seed(1)
net = Net(state_shape=env.observation_space.shape, action_shape=env.action_space.n, hidden_sizes=[16])
policy = DQNPolicy(model=net, optim=torch.optim.Adam(net.parameters(), lr=1e-3), discount_factor=0.9,
                   action_space=env.action_space, estimation_step=3, target_update_freq=10)
buffer = PrioritizedVectorReplayBuffer(1000, buffer_num=4, alpha=0.6, beta=0.4)
train_collector = Collector(policy, train_envs, buffer, exploration_noise=True)
test_collector = ts.data.Collector(policy, test_envs, exploration_noise=True)
policy.set_eps(1)
train_collector.reset()
train_collector.collect(n_step=64)
result = OffpolicyTrainer(
    policy=policy, train_collector=train_collector, test_collector=test_collector, max_epoch=2, step_per_epoch=80,
    step_per_collect=8, episode_per_test=4, batch_size=16, update_per_step=0.25,
    train_fn=lambda epoch, env_step: policy.set_eps(0.1), test_fn=lambda epoch, env_step: policy.set_eps(0.05),
    stop_fn=lambda mean: mean >= env.spec.reward_threshold, logger=TensorboardLogger(SummaryWriter(folder)),
    save_best_fn=lambda policy: torch.save(policy.state_dict(), folder + "/best.pth"),
).run()
policy.load_state_dict(torch.load(folder + "/best.pth"))
policy.eval()
stats = test_collector.collect(n_episode=4)
print(result.train_step, result.gradient_step, result.timing.total_time > 0, len(stats.returns), len(stats.lens))
"""
TIANSHOU = os.environ.get("RLFAST_TIANSHOU_PYTHON")
INTERPRETERS = [
    pytest.param(sys.executable, "rlfast", id="rlfast"),
    pytest.param(TIANSHOU, "tianshou", id="tianshou", marks=pytest.mark.skipif(
        not TIANSHOU, reason="RLFAST_TIANSHOU_PYTHON names no interpreter with tianshou==1.0.0 to compare with")),
]  # fmt: skip


@pytest.mark.parametrize(("python", "library"), INTERPRETERS)
def test_the_script_runs(python, library, tmp_path):
    command = [python, "-c", SCRIPT.replace("tianshou", library), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "160 40 True 4 4"
    assert (tmp_path / "best.pth").exists()
