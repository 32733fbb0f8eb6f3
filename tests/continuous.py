"""Transitions, small networks and checks of resuming for tests of algorithms with continuous actions."""

import copy
import math
import pickle

import numpy as np
import torch
from torch import nn

from rlfast.data import Batch, VectorReplayBuffer
from rlfast.utils.net.common import EnsembleLinear, Net
from rlfast.utils.net.continuous import ActorProb, Critic

OBS = Batch(obs=np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32), info={})


def transitions(kind=VectorReplayBuffer, **options):
    """Give 100 transitions of observations of 4 numbers and actions of 2, in two rings."""
    rng, buffer = np.random.default_rng(0), kind(100, 2, seed=0, **options)
    for t in range(50):
        obs, obs_next = rng.normal(size=(2, 2, 4)).astype(np.float32)
        flags = {"terminated": np.full(2, t % 10 == 9), "truncated": np.full(2, t % 7 == 6)}
        act = rng.uniform(-1, 1, (2, 2)).astype(np.float32)
        buffer.add(Batch(obs=obs, act=act, rew=rng.normal(size=2), obs_next=obs_next, info={}, **flags))
    return buffer


def weights(module):
    return torch.cat([p.detach().flatten().clone() for p in module.parameters()])


def moves(module, steps, step):
    """Return whether each of some steps moves the weights of a module."""
    moved, last = [], weights(module)
    for _ in range(steps):
        step()
        moved.append(not torch.equal(last, last := weights(module)))
    return moved


class Line(nn.Module):
    """A critic: ``slope * act + offset``."""

    def __init__(self, slope, offset):
        super().__init__()
        self.slope, self.offset = nn.Parameter(torch.tensor(slope)), nn.Parameter(torch.tensor(offset))

    def forward(self, obs, act):
        return self.slope * torch.as_tensor(act).reshape(-1, 1) + self.offset


class Given(nn.Module):
    """An actor: the same action everywhere."""

    def __init__(self, act):
        super().__init__()
        self.act = nn.Parameter(torch.tensor(act))

    def forward(self, obs, state=None, info=None):
        return self.act.expand(len(obs), 1), state


class Lines(nn.Module):
    """An ensemble of critics ``slope * act + offset``, of which each may have several offsets."""

    def __init__(self, slopes, offsets):
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(slopes)[:, None, None])
        self.offset = nn.Parameter(torch.tensor(offsets).reshape(len(slopes), 1, -1))

    def forward(self, obs, act):
        return self.slope * torch.as_tensor(act).reshape(1, -1, 1) + self.offset


class Seen(Lines):
    """Lines that note how many actions they rate, and in which mode."""

    def __init__(self, *args):
        super().__init__(*args)
        self.calls = []

    def forward(self, obs, act):
        self.calls.append((len(act), self.training, np.ravel(obs).tolist()))
        return super().forward(obs, act)


class GivenNormal(nn.Module):
    """An actor: the same mean and deviation before squashing everywhere."""

    def __init__(self, mean, std):
        super().__init__()
        self.mean, self.std = nn.Parameter(torch.tensor(mean)), nn.Parameter(torch.tensor(std))

    def forward(self, obs, state=None, info=None):
        return (self.mean.expand(len(obs), 1), self.std.expand(len(obs), 1)), state


def step_by_hand(policy, rewards, weight):
    """Learn from two rows, of which the second ends an episode; return the losses, and the sample."""
    act = np.array([[0.5], [-0.5]], np.float32)
    batch = Batch(obs=np.zeros((2, 1)), act=act, obs_next=np.ones((2, 1)), info={})
    batch.reward_sum, batch.discount = np.array(rewards), np.array([0.5, 0.0])
    if weight is not None:
        batch.weight = np.array(weight)
    return policy.learn(batch), batch


LOG_PROB = -0.125 - 0.5 * math.log(2 * math.pi) - math.log(1 - math.tanh(0.5) ** 2)
"""Of the action tanh(0.5) by a standard normal distribution."""


def normal_actor():
    """Give an actor for 4 numbers and 2 actions."""
    return ActorProb(Net(4, hidden_sizes=[8]), 2, unbounded=True, conditioned_sigma=True)


def ensemble(size, layer=EnsembleLinear, **options):
    """Give an ensemble of critics for 4 numbers and 2 actions.

    :param layer: of the hidden layers, ``(size, inputs, outputs)``.
    :param options: of ``Critic``.
    """
    net = Net(4, 2, hidden_sizes=[8], concat=True, linear_layer=lambda i, o: layer(size, i, o))
    return Critic(net, linear_layer=lambda i, o: EnsembleLinear(size, i, o), flatten_input=False, **options)


def assert_resumes_exactly(make, carry):
    """Assert that three updates, a copy of the policy and three more updates equal six updates in one go.

    :param make: makes a policy from a seed.
    :param carry: how the policy is copied: ``"copy"``, ``"pickle"`` or ``"state"``.
    """

    def learn(policy, start, stop):
        told = None
        for step in range(start, stop):
            buffer, indices = transitions(), np.random.default_rng(step).integers(100, size=16)
            told = policy.learn(policy.process_fn(buffer[indices], buffer, indices))
        return weights(policy), told

    half = make()
    learn(half, 0, 3)
    if carry == "state":
        resumed = make(5)
        resumed.load_state_dict(half.state_dict())
    else:
        resumed = copy.deepcopy(half) if carry == "copy" else pickle.loads(pickle.dumps(half))
    (ours, ours_told), (theirs, theirs_told) = learn(resumed, 3, 6), learn(make(), 0, 6)
    assert torch.equal(ours, theirs)
    assert ours_told == theirs_told
