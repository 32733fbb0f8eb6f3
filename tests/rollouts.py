"""Actors of every kind and a roll-out, for tests of on-policy algorithms."""

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch import nn
from torch.distributions import Independent, Normal

from rlfast.data import Batch, VectorReplayBuffer
from rlfast.functional import Categorical, DiagonalNormal, MultiCategorical
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import ActorProb, StateDependentNoise
from rlfast.utils.net.discrete import Actor

MULTI = MultiDiscrete([2, 3])
HEADS = {
    "categorical": (Discrete(3), Categorical, lambda: Actor(Net(4, hidden_sizes=[8]), 3, softmax_output=False)),
    "probabilities": (Discrete(3), torch.distributions.Categorical, lambda: Actor(Net(4, hidden_sizes=[8]), 3)),
    "multi": (
        MULTI,
        lambda logits: MultiCategorical(logits, MULTI.nvec),
        lambda: Actor(Net(4, hidden_sizes=[8]), 5, softmax_output=False),
    ),
    "normal": (Box(-2, 2, (2,)), DiagonalNormal, lambda: ActorProb(Net(4, hidden_sizes=[8]), 2, unbounded=True)),
    "independent": (
        Box(-2, 2, (2,)),
        lambda loc, scale: Independent(Normal(loc, scale), 1),
        lambda: ActorProb(Net(4, hidden_sizes=[8]), 2, conditioned_sigma=True),
    ),
    "sde": (
        Box(-2, 2, (2,)),
        DiagonalNormal,
        lambda: ActorProb(Net(4, hidden_sizes=[8]), 2, unbounded=True, sde=StateDependentNoise),
    ),
    "per dimension": (Box(-2, 2, (2,)), Normal, lambda: ActorProb(Net(4, hidden_sizes=[8]), 2, unbounded=True)),
}


class Table(nn.Module):
    """An actor, or with one column a critic, whose outputs are its parameters, by the number of the observation."""

    def __init__(self, values):
        super().__init__()
        self.values = nn.Parameter(torch.tensor(values))

    def forward(self, obs, state=None, info=None):
        obs = obs.obs if isinstance(obs, Batch) else obs  # a network of one's own gets the observation whole
        out = self.values[torch.as_tensor(obs).long()]
        return (out, state) if self.values.shape[1] > 1 else out


def rollout(policy, steps=40, rings=2, **options):
    """Give a buffer of what ``policy`` did at random observations; a fifth of the steps ends an episode."""
    rng = np.random.default_rng(0)
    buffer = VectorReplayBuffer(steps * rings, rings, **options)
    for _ in range(steps):
        obs, obs_next = rng.normal(size=(2, rings, 4)).astype(np.float32)
        act = policy(Batch(obs=obs, info={})).act.numpy()
        end = rng.random(rings) < 0.2
        flags = {"terminated": end & (rng.random(rings) < 0.5)}
        flags["truncated"] = end & ~flags["terminated"]
        buffer.add(Batch(obs=obs, act=act, rew=rng.normal(size=rings), obs_next=obs_next, info={}, **flags))
    return buffer


def weights(policy):
    return torch.cat([p.detach().flatten().clone() for p in policy.parameters()])
