"""map_action and its inverse for bounds, methods and types; compute_action; masks."""

import json

import gymnasium as gym
import numpy as np
import torch
from tianshou.data import Batch
from tianshou.policy import BasePolicy, DQNPolicy
from tianshou.utils.net.common import Net


class Still(BasePolicy):
    def forward(self, batch, state=None, **kwargs):
        return Batch(act=np.full((len(batch.obs), 2), 0.25), state=state)

    def learn(self, batch, *args, **kwargs):
        return {}


out = {}
space = gym.spaces.Box(np.array([0, -3], np.float32), np.array([5, 3], np.float32))
for method in ("clip", "tanh", None):
    for scaling in (True, False):
        policy = Still(action_space=space, action_scaling=scaling, action_bound_method=method)
        acts = np.array([[0.5, -0.5], [0.0, 1.0]])
        mapped = policy.map_action(acts)
        out[f"{method} {scaling}"] = [mapped.tolist(), policy.map_action_inverse(mapped).tolist()]
        out[f"{method} {scaling} one"] = policy.compute_action(np.zeros(3)).tolist()
policy = Still(action_space=space)
out["tensor"] = policy.map_action(torch.tensor([[2.0, 0.0]])).tolist()
out["type"] = [policy.action_type, Still(action_space=gym.spaces.Discrete(3), action_scaling=False).action_type]

net = Net(2, 3, hidden_sizes=[])
with torch.no_grad():
    for p in net.parameters():
        p.copy_(torch.arange(p.numel(), dtype=torch.float32).reshape(p.shape))
dqn = DQNPolicy(model=net, optim=torch.optim.SGD(net.parameters(), lr=0.1), action_space=gym.spaces.Discrete(3))
obs = np.array([[1.0, 2.0], [-1.0, -2.0]], np.float32)
free = dqn(Batch(obs=Batch(obs=obs, mask=np.ones((2, 3), bool)), info={}))
masked = dqn(Batch(obs=Batch(obs=obs, mask=np.array([[1, 1, 0], [0, 1, 1]], bool)), info={}))
out["dqn"] = [free.act.tolist(), masked.act.tolist(), free.logits.tolist(), int(dqn.compute_action(obs[0]))]
print(json.dumps(out))
