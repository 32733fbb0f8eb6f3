"""The arguments of on-policy algorithms: passes over a roll-out, and the scaling of actions that are not of a Box."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from rlfast.data import Batch, ReplayBuffer
from rlfast.functional import Categorical
from rlfast.policy import A2CPolicy, GAILPolicy, NPGPolicy, PGPolicy, PPOPolicy, PQNPolicy, TRPOPolicy
from rlfast.utils.net.common import Net
from rlfast.utils.net.discrete import Actor, Critic
from rlfast.utils.optim import adam

DISCRETE = gym.spaces.Discrete(2)


class Discriminator(torch.nn.Linear):
    def forward(self, pairs):
        return super().forward(torch.as_tensor(pairs, dtype=torch.float32))


def rows():
    buffer = ReplayBuffer(16)
    for i in range(8):
        obs = np.full(2, i, np.float32)
        buffer.add(Batch(obs=obs, act=i % 2, rew=1.0, terminated=i == 7, truncated=False, obs_next=obs + 1, info={}))
    return buffer


def make(kind, space=DISCRETE, dist_fn=Categorical, outputs=2):
    given = {"actor": Actor(Net(2, hidden_sizes=[4]), outputs, softmax_output=False), "optim": adam(1e-3)}
    if kind is PQNPolicy:
        return kind(model=Net(2, 2, [4]), optim=adam(1e-3), action_space=space)
    if kind is not PGPolicy:
        given["critic"] = Critic(Net(2, hidden_sizes=[4]))
    if kind is GAILPolicy:
        disc = Discriminator(3, 1)
        given |= {"expert_buffer": rows(), "disc_net": disc, "disc_optim": torch.optim.Adam(disc.parameters())}
    return kind(**given, dist_fn=dist_fn, action_space=space)


KINDS = [A2CPolicy, GAILPolicy, NPGPolicy, PGPolicy, PPOPolicy, TRPOPolicy]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("space", "outputs"), [(DISCRETE, 2), (gym.spaces.Discrete(2, start=3), 2), (gym.spaces.MultiBinary(2), 2)]
)
def test_only_actions_of_a_box_are_scaled(kind, space, outputs):
    policy = make(kind, space, outputs=outputs)
    assert policy.action_scaling is False
    act = np.array([[0, 1]]) if isinstance(space, gym.spaces.MultiBinary) else np.array([0, 1])
    np.testing.assert_array_equal(policy.map_action(act), act + getattr(space, "start", 0))


def test_actions_of_a_box_are_scaled_by_default():
    policy = make(PPOPolicy, gym.spaces.Box(-3, 3, (2,)), outputs=2)
    assert policy.action_scaling is True
    assert policy.map_action(np.array([[1.0, -0.5]])).tolist() == [[3.0, -1.5]]


@pytest.mark.parametrize("kind", [*KINDS, PQNPolicy])
@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"batch_size": -1, "repeat": 1}, "batch_size must"),
        ({"batch_size": 4, "repeat": 0}, "repeat must be"),
        ({"batch_size": 4, "repeat": -2}, "repeat must be"),
        ({"batch_size": 2.5, "repeat": 1}, "batch_size must"),
        ({"batch_size": "4", "repeat": 1}, "batch_size must"),
    ],
)
def test_passes_that_mean_nothing_are_refused_before_anything_changes(kind, options, match):
    policy = make(kind)
    policy.rew_norm = kind is not PQNPolicy
    before = {name: value.clone() for name, value in policy.named_parameters()}
    with pytest.raises((TypeError, ValueError), match=match):
        policy.update(0, rows(), **options)
    assert all(torch.equal(before[name], value) for name, value in policy.named_parameters())
    assert kind is PQNPolicy or policy.ret_rms.count == 0


@pytest.mark.parametrize("batch_size", [None, 0, 3, 100, np.int64(4)])
def test_any_minibatch_is_taken(batch_size):
    policy = make(PPOPolicy)
    assert np.isfinite(policy.update(0, rows(), batch_size=batch_size, repeat=2).loss.mean)
