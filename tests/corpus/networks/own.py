"""A network of the user in a DQN: convolutions over frames, given a dict of keyword arguments."""

import json

import numpy as np
import gymnasium as gym
import torch
from tianshou.data import Batch, ReplayBuffer
from tianshou.policy import DQNPolicy
from torch import nn


class Frames(nn.Module):
    def __init__(self, channels, actions):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(channels, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 4 * 4, actions))

    def forward(self, obs, state=None, info={}):
        return self.net(torch.as_tensor(obs, dtype=torch.float32) / 255), state


net = Frames(2, 3)
with torch.no_grad():
    for i, p in enumerate(net.parameters()):
        p.copy_(torch.sin(torch.arange(p.numel(), dtype=torch.float32) * 0.3 + i).reshape(p.shape))
policy = DQNPolicy(model=net, optim=torch.optim.SGD(net.parameters(), lr=1e-3), action_space=gym.spaces.Discrete(3), is_double=False)
rng = np.random.default_rng(0)
buffer = ReplayBuffer(12)
for t in range(12):
    buffer.add(Batch(obs=rng.integers(256, size=(2, 6, 6)).astype(np.uint8), act=t % 3, rew=1.0, terminated=t == 5, truncated=False, obs_next=rng.integers(256, size=(2, 6, 6)).astype(np.uint8), info={}))
losses = [policy.update(0, buffer).loss for _ in range(3)]
print(json.dumps({"losses": losses, "act": policy(Batch(obs=buffer.obs[:4], info={})).act.tolist()}))
