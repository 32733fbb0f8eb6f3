"""Fixtures for tests of policies without the engine: a slow buffer over the oracle, and small networks."""

import numpy as np
import pytest
import torch

from oracle.replay import Replay
from rlfast.data import Batch
from rlfast.policy import DQNPolicy
from rlfast.policy.compile import compiled_update
from rlfast.utils.net.common import Net


class OracleBuffer:
    """As much of a replay buffer as policies ask for."""

    def __init__(self, *capacities, prioritized=False):
        self.replay = Replay(capacities, alpha=0.6 if prioritized else None)
        self.prioritized = prioritized
        self.rng = np.random.default_rng(0)
        self.priorities = []
        if prioritized:
            self.update_weight = self._update_weight

    def __getitem__(self, indices):
        return self.batch(indices)

    def add(self, ring=0, **fields):
        self.replay.add(ring, {(key,): np.asarray(value) for key, value in fields.items()})

    def rows(self, indices):
        return [self.replay.at(index) for index in np.ravel(indices)]

    def batch(self, indices):
        fields = {path[0]: value for path, value in self.replay.take(self.rows(indices)).items()}
        batch = Batch(**fields, info=Batch(), policy=Batch())
        if self.prioritized:
            batch.weight = self.replay.weights(self.rows(indices))
        return batch

    def all(self):
        return np.array([self.replay.index(row) for row in self.replay.live()], np.int64)

    def sample(self, size):
        indices = self.all() if size == 0 else self.rng.choice(self.all(), size or len(self.all()))
        return self.batch(indices), indices

    def get(self, indices, key, default_value=None, stack_num=None):
        return self.batch(indices)[key]

    def nstep(self, indices, n_step, gamma):
        rewards, discounts, last = zip(
            *(self.replay.nstep(row, n_step, gamma) for row in self.rows(indices)), strict=True
        )
        return np.array(rewards), np.array(discounts), np.array([self.replay.index(row) for row in last])

    @property
    def terminated(self):
        flags = np.zeros(sum(ring.capacity for ring in self.replay.rings), bool)
        for row in self.replay.live():
            flags[self.replay.index(row)] = row.terminated
        return flags

    def unfinished_index(self):
        return np.array([self.replay.index(row) for row in self.replay.unfinished_rows()], np.int64)

    def _update_weight(self, indices, priorities):
        magnitudes = np.abs(np.asarray(priorities.detach()))
        self.priorities.append(magnitudes)
        self.replay.update_priority(self.rows(indices), magnitudes)


def fill(buffer, steps, rings=1, obs_dim=4, actions=3, seed=0):
    """Random transitions: a fifth of the steps ends an episode, half of these by time."""
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=(rings, obs_dim)).astype(np.float32)
    for _ in range(steps):
        for ring in range(rings):
            obs_next = rng.normal(size=obs_dim).astype(np.float32)
            end = rng.random() < 0.2
            terminated = bool(end and rng.random() < 0.5)
            buffer.add(
                ring,
                obs=obs[ring],
                act=rng.integers(actions),
                rew=float(rng.normal()),
                terminated=terminated,
                truncated=bool(end and not terminated),
                obs_next=obs_next,
            )
            obs[ring] = rng.normal(size=obs_dim) if end else obs_next
    return buffer


@pytest.fixture
def make_buffer():
    """Give a filled buffer: ``make_buffer(*capacities, steps=..., prioritized=...)``."""

    def make(*capacities, steps=40, prioritized=False, **options):
        return fill(OracleBuffer(*capacities, prioritized=prioritized), steps, rings=len(capacities), **options)

    return make


@pytest.fixture
def make_dqn():
    """Give a DQN for observations of 4 numbers and 3 actions; options are those of ``DQNPolicy``."""
    from gymnasium.spaces import Discrete

    def make(model=None, lr=1e-2, seed=0, **options):
        torch.manual_seed(seed)
        model = model or Net(4, 3, hidden_sizes=[16])
        options = {"action_space": Discrete(3), "optim": torch.optim.Adam(model.parameters(), lr=lr)} | options
        return DQNPolicy(model=model, **options)

    return make


@pytest.fixture
def as_it_is(monkeypatch):
    """What would be compiled runs as the function that it is."""
    monkeypatch.setattr(compiled_update.graph_gradients, "has_gradients_in_graphs", lambda: True)
    monkeypatch.setattr(torch, "compile", lambda update, *, fullgraph, backend, **options: update)
