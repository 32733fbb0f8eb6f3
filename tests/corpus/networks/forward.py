"""The numbers that networks of known weights give."""

import json

import numpy as np
import torch
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ActorProb, Critic


def known(module):
    with torch.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(torch.sin(torch.arange(p.numel(), dtype=torch.float32) * 0.3 + i).reshape(p.shape))
    return module


obs = np.linspace(-1, 1, 6).reshape(2, 3).astype(np.float32)
net = known(Net(3, 2, hidden_sizes=[4, 4], dueling_param=({"hidden_sizes": [3]}, {"hidden_sizes": [3]})))
prob = known(ActorProb(Net(3, hidden_sizes=[4]), 2, max_action=3.0, conditioned_sigma=True))
critic = known(Critic(Net(3, 2, hidden_sizes=[4], concat=True)))
mu, sigma = prob(obs)[0]
print(json.dumps({"net": net(obs)[0].tolist(), "mu": mu.tolist(), "sigma": sigma.tolist(), "q": critic(obs, np.ones((2, 2), np.float32)).tolist()}))
