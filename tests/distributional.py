"""Networks and transitions on which policies of discrete actions are tested that learn distributions of returns."""

import numpy as np
import torch
from gymnasium.spaces import Discrete
from torch import nn

from rlfast import policy as policies
from rlfast.data import Batch, VectorReplayBuffer
from rlfast.utils.net.common import Net
from rlfast.utils.net.discrete import (
    FractionProposalNetwork,
    FullQuantileFunction,
    ImplicitQuantileNetwork,
    NoisyLinear,
)
from rlfast.utils.optim import adam


class Table(nn.Module):
    """What a network gives by state number, as parameters; some policies give it observations with their mask."""

    def __init__(self, values):
        super().__init__()
        self.values = nn.Parameter(torch.tensor(values))

    def forward(self, obs, state=None, info=None):
        obs = obs.obs if isinstance(obs, Batch) else obs
        return self.values[torch.as_tensor(obs, dtype=torch.int64).flatten()], state


def noisy_net(**options):
    streams = {"hidden_sizes": [6], "linear_layer": NoisyLinear}
    return Net(4, 2, [8], dueling_param=(streams, streams), **options)


MODELS = {
    "C51": lambda: Net(4, 2, [8], softmax=True, num_atoms=3),
    "QRDQN": lambda: Net(4, 2, [8], num_atoms=2),
    "Rainbow": lambda: noisy_net(softmax=True, num_atoms=3),
    "IQN": lambda: ImplicitQuantileNetwork(Net(4, hidden_sizes=[8]), 2, num_cosines=6),
    "FQF": lambda: FullQuantileFunction(Net(4, hidden_sizes=[8]), 2, num_cosines=6),
}
OPTIONS = {
    "C51": {"num_atoms": 3, "v_min": 0.0, "v_max": 2.0},
    "QRDQN": {"num_quantiles": 2},
    "Rainbow": {"num_atoms": 3, "v_min": 0.0, "v_max": 2.0},
    "IQN": {"sample_size": 5, "online_sample_size": 3, "target_sample_size": 4},
    "FQF": {"num_fractions": 3},
}


def make(name, model=None, seed=0, **options):
    """Give a policy of two actions; ``name`` is that of the algorithm."""
    torch.manual_seed(seed)
    given = {"model": model or MODELS[name](), "optim": adam(1e-2), "action_space": Discrete(2)}
    if name == "FQF":
        given |= {"fraction_model": FractionProposalNetwork(3, 8), "fraction_optim": adam(1e-2)}
    policy = getattr(policies, f"{name}Policy")(**{**given, **OPTIONS[name], **options})
    policy.seed(seed)
    return policy


def transitions(kind=VectorReplayBuffer, **options):
    rng, buffer = np.random.default_rng(0), kind(100, 2, seed=0, **options)
    for t in range(50):
        obs, obs_next = rng.normal(size=(2, 2, 4)).astype(np.float32)
        flags = {"terminated": np.full(2, t % 10 == 9), "truncated": np.full(2, t % 7 == 6)}
        act = rng.integers(2, size=2)
        buffer.add(Batch(obs=obs, act=act, rew=rng.normal(size=2), obs_next=obs_next, info={}, **flags))
    return buffer


def line(*rewards):
    """Give an episode through the states 0, 1, ... by action 0, ended by its last reward."""
    buffer = VectorReplayBuffer(len(rewards), 1)
    for t, reward in enumerate(rewards):
        flags = {"terminated": np.array([t + 1 == len(rewards)]), "truncated": np.array([False])}
        buffer.add(
            Batch(
                obs=np.array([t]),
                act=np.array([0]),
                rew=np.array([reward]),
                obs_next=np.array([min(t + 1, len(rewards) - 1)]),
                info={},
                **flags,
            )
        )
    return buffer


def weights(module):
    return torch.cat([p.detach().flatten().clone() for p in module.parameters()])
