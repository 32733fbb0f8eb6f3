"""Learning-rate schedulers, several at once, and soft updates of target networks."""

import json

import torch
from tianshou.policy import BasePolicy
from tianshou.utils import MultipleLRSchedulers


class Still(BasePolicy):
    def forward(self, batch, state=None, **kwargs):
        return batch

    def learn(self, batch, *args, **kwargs):
        return {}


import gymnasium as gym

a, b = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
with torch.no_grad():
    for p in a.parameters():
        p.fill_(1.0)
    for p in b.parameters():
        p.fill_(3.0)
optims = [torch.optim.SGD(n.parameters(), lr=1.0) for n in (a, b)]
schedulers = [torch.optim.lr_scheduler.StepLR(o, step_size=1, gamma=g) for o, g in zip(optims, (0.5, 0.1))]
both = MultipleLRSchedulers(*schedulers)
policy = Still(action_space=gym.spaces.Discrete(2), lr_scheduler=both)
for o in optims:
    o.step()
policy.lr_scheduler.step()
policy.soft_update(a, b, 0.25)
state = both.state_dict()
print(json.dumps({"lr": [o.param_groups[0]["lr"] for o in optims], "soft": [p.flatten().tolist() for p in a.parameters()], "state": len(state)}))
