"""Curiosity around DQN, its losses by hand."""

import json

import gymnasium as gym
import numpy as np
import torch
from tianshou.data import Batch, ReplayBuffer
from tianshou.policy import DQNPolicy, ICMPolicy
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import IntrinsicCuriosityModule

space = gym.spaces.Discrete(2)
net = Net(state_shape=3, action_shape=2, hidden_sizes=[4])
module = IntrinsicCuriosityModule(torch.nn.Linear(3, 5), 5, 2, hidden_sizes=[4], device="cpu")
with torch.no_grad():
    for parameter in (*net.parameters(), *module.parameters()):
        parameter.copy_(torch.linspace(-1, 1, parameter.numel()).reshape(parameter.shape))
inner = DQNPolicy(model=net, optim=torch.optim.SGD(net.parameters(), lr=0.1), action_space=space, discount_factor=0.9)
policy = ICMPolicy(
    policy=inner,
    model=module,
    optim=torch.optim.SGD(module.parameters(), lr=0.1),
    action_space=space,
    lr_scale=2.0,
    reward_scale=0.5,
    forward_loss_weight=0.2,
)
buffer = ReplayBuffer(8)
for i in range(8):
    row = Batch(obs=np.full(3, i / 8), act=i % 2, rew=1.0, terminated=i == 7, truncated=False, info={})
    row.obs_next = np.full(3, (i + 1) / 8)
    buffer.add(row)
batch, indices = buffer.sample(0)
prepared = policy.process_fn(batch, buffer, indices)
rewards = prepared.rew.round(4).tolist()
losses = [policy.update(0, buffer).get_loss_stats_dict() for _ in range(3)]
names = sorted(losses[0])
losses = [{name: loss for name, loss in one.items() if name != "loss"} for one in losses]  # DQN's has curiosity in it here
policy.set_eps(0.0)
acts = policy(Batch(obs=np.eye(3), info={})).act
print(
    json.dumps(
        {
            "rewards": rewards,
            "losses": [{name: round(value, 3) for name, value in sorted(one.items())} for one in losses],
            "names": names,
            "weights": [round(float(p.sum()), 3) for p in module.parameters()],
            "acts": np.asarray(acts).tolist(),
            "stays": buffer.rew.tolist(),
        }
    )
)
