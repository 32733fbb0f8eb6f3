"""A policy of the user's own: plain dataclass statistics, its own optimizer, n-step targets, the error as weight."""

import json
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
from tianshou.data import Batch, PrioritizedVectorReplayBuffer, VectorReplayBuffer, to_torch_as
from tianshou.policy import BasePolicy
from tianshou.policy.base import TrainingStats


@dataclass
class MyStats(TrainingStats):
    loss: float = 0.0
    biggest: float = 0.0


class Linear(BasePolicy):
    def __init__(self, model, optim, gamma=0.9, n_step=2, **kwargs):
        super().__init__(**kwargs)
        self.model = model
        self.optim = optim
        self.gamma = gamma
        self.n_step = n_step
        self.counter = 0

    def forward(self, batch, state=None, **kwargs):
        obs = torch.as_tensor(batch.obs, dtype=torch.float32)
        q = self.model(obs)
        return Batch(act=q.argmax(dim=1), logits=q, state=state)

    def _target_q(self, buffer, indices):
        batch = buffer[indices]
        with torch.no_grad():
            return self.model(torch.as_tensor(batch.obs_next, dtype=torch.float32)).max(dim=1)[0]

    def process_fn(self, batch, buffer, indices):
        return self.compute_nstep_return(batch, buffer, indices, self._target_q, self.gamma, self.n_step)

    def learn(self, batch, *args, **kwargs):
        self.optim.zero_grad()
        q = self.model(torch.as_tensor(batch.obs, dtype=torch.float32))
        q = q[np.arange(len(q)), batch.act]
        returns = to_torch_as(batch.returns.flatten(), q)
        td = returns - q
        loss = (td.pow(2) * batch.pop("weight", 1.0)).mean()
        batch.weight = td
        loss.backward()
        self.optim.step()
        self.counter += 1
        return MyStats(loss=loss.item(), biggest=td.abs().max().item())


def fill(buffer):
    rng = np.random.default_rng(0)
    for t in range(10):
        buffer.add(
            Batch(
                obs=rng.normal(size=(2, 3)),
                act=rng.integers(2, size=2),
                rew=rng.normal(size=2),
                terminated=np.array([t % 4 == 3, False]),
                truncated=np.array([False, t % 5 == 4]),
                obs_next=rng.normal(size=(2, 3)),
                info={},
            )
        )
    return buffer


out = {}
for kind, options in ((VectorReplayBuffer, {}), (PrioritizedVectorReplayBuffer, {"alpha": 0.6, "beta": 0.4})):
    buffer = fill(kind(40, 2, **options))
    model = torch.nn.Linear(3, 2)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.linspace(-1, 1, p.numel()).reshape(p.shape))
    policy = Linear(model, torch.optim.SGD(model.parameters(), lr=0.1), action_space=gym.spaces.Discrete(2))
    stats = [policy.update(0, buffer) for _ in range(3)]
    out[kind.__name__] = {
        "losses": [s.loss for s in stats],
        "biggest": [s.biggest for s in stats],
        "dict": sorted(stats[0].get_loss_stats_dict()),
        "weights": torch.cat([p.flatten() for p in model.parameters()]).tolist(),
        "timed": stats[0].train_time > 0,
        "count": policy.counter,
    }
print(json.dumps(out))
