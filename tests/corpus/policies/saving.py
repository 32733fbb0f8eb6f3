"""state_dict to a file and back, deepcopy, train and eval modes, moving."""

import copy
import io
import json

import gymnasium as gym
import numpy as np
import torch
from tianshou.data import Batch
from tianshou.policy import DQNPolicy
from tianshou.utils.net.common import Net


def make(seed):
    torch.manual_seed(seed)
    net = Net(3, 2, hidden_sizes=[4], dueling_param=({"hidden_sizes": [4]}, {"hidden_sizes": [4]}))
    return DQNPolicy(
        model=net, optim=torch.optim.Adam(net.parameters()), action_space=gym.spaces.Discrete(2), target_update_freq=3
    )


first, second = make(0), make(1)
file = io.BytesIO()
torch.save(first.state_dict(), file)
file.seek(0)
second.load_state_dict(torch.load(file, weights_only=False))
batch = Batch(obs=np.eye(3, dtype=np.float32), info={})
third = copy.deepcopy(first)
q = [p(batch).logits for p in (first, second, third)]
names = sorted(n for n in first.state_dict() if n.startswith(("model.", "model_old.")))
modes = []
for mode in (True, False):
    third.train(mode)
    modes.append([third.training, third.model.training, third.model_old.training])
print(
    json.dumps(
        {
            "same": [bool(torch.equal(q[0], other)) for other in q[1:]],
            "models": len(names) // 2,
            "modes": modes,
            "on": [p.device.type for p in third.to("cpu").parameters()][:1],
            "twins": sorted({n.split(".")[0] for n in first.state_dict()} & {"model", "model_old"}),
        }
    )
)
