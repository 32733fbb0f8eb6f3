"""A DQN whose forward, exploration_noise, process_fn and learn are overridden."""

import json

import gymnasium as gym
import numpy as np
import torch
from tianshou.data import Batch, ReplayBuffer
from tianshou.policy import DQNPolicy
from tianshou.utils.net.common import Net

calls = []


class Mine(DQNPolicy):
    def forward(self, batch, state=None, model="model", **kwargs):
        calls.append(["forward", model])
        return super().forward(batch, state, model=model, **kwargs)

    def exploration_noise(self, act, batch):
        calls.append(["noise", list(np.shape(act))])
        return super().exploration_noise(act, batch)

    def process_fn(self, batch, buffer, indices):
        batch.rew = batch.rew * 1.0
        calls.append(["process", len(indices)])
        return super().process_fn(batch, buffer, indices)

    def learn(self, batch, *args, **kwargs):
        calls.append(["learn", sorted(kwargs)])
        return super().learn(batch, *args, **kwargs)


torch.manual_seed(0)
net = Net(state_shape=(4,), action_shape=2, hidden_sizes=[8], device="cpu")
with torch.no_grad():
    for i, p in enumerate(net.parameters()):
        p.copy_(torch.sin(torch.arange(p.numel(), dtype=torch.float32) + i).reshape(p.shape) / 2)
policy = Mine(
    model=net,
    optim=torch.optim.Adam(net.parameters(), lr=1e-2),
    action_space=gym.spaces.Discrete(2),
    discount_factor=0.9,
    estimation_step=3,
    target_update_freq=2,
)
rng = np.random.default_rng(0)
buffer = ReplayBuffer(30)
for t in range(25):
    buffer.add(
        Batch(
            obs=rng.normal(size=4).astype(np.float32),
            act=int(rng.integers(2)),
            rew=float(rng.normal()),
            terminated=t % 6 == 5,
            truncated=t % 9 == 8,
            obs_next=rng.normal(size=4).astype(np.float32),
            info={},
        )
    )
losses = [policy.update(0, buffer).loss for _ in range(4)]
policy.set_eps(0.0)
act = policy.exploration_noise(np.zeros(3, int), Batch(obs=np.zeros((3, 4)), info={}))
forwards = [c[1] for c in calls if c[0] == "forward"]
others = [c for c in calls if c[0] != "forward"]
print(json.dumps({"losses": losses, "asked": sorted(set(forwards)), "others": others, "act": act.tolist(), "weights": torch.cat([p.flatten() for p in net.parameters()]).tolist()}))
