import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from torch import nn
from torch.distributions import Normal

from rlfast.data import Batch, VectorReplayBuffer
from rlfast.functional import Categorical
from rlfast.policy import PGPolicy
from rlfast.policy.rollout import Minibatch


class Fixed(nn.Module):
    """An actor whose outputs, by the number of the observation, are its parameters."""

    def __init__(self, values):
        super().__init__()
        self.values = nn.Parameter(torch.tensor(values))

    def forward(self, obs, state=None, info=None):
        return self.values[torch.as_tensor(obs).long()], state


def make_pg(values=((0.0, 0.0), (0.0, 0.0)), **options):
    actor = Fixed(values)
    given = {"optim": torch.optim.SGD([actor.values], lr=1.0), "dist_fn": Categorical, "discount_factor": 0.5}
    return PGPolicy(actor=actor, **given | options, action_space=Discrete(2), action_scaling=False)


def rows(*ends):
    """Give a buffer of rewards 1, 2, 3, ..., and how each step ends: an ``e`` for a terminal state, ``t`` for time."""
    buffer = VectorReplayBuffer(len(ends), 1)
    for step, end in enumerate(ends):
        flags = {"terminated": np.array([end == "e"]), "truncated": np.array([end == "t"])}
        number = np.array([step % 2])
        buffer.add(Batch(obs=number, act=number, rew=np.array([step + 1.0]), obs_next=number, info={}, **flags))
    return buffer


def returns(policy, buffer):
    batch, indices = buffer.sample(0)
    return policy.process_fn(batch, buffer, indices).returns.tolist()


def test_returns_by_hand():
    assert returns(make_pg(), rows("-", "-", "e", "-", "e")) == [1 + 0.5 * (2 + 0.5 * 3), 3.5, 3, 6.5, 5]


@pytest.mark.pitfall("A1")
@pytest.mark.parametrize(("end", "expected"), [("e", 2.0), ("t", 2.0 + 0.5 * 10), ("-", 2.0 + 0.5 * 10)])
def test_what_follows_an_episode_that_is_cut_off_counts_as_the_mean(end, expected):
    policy = make_pg(reward_normalization=True)
    policy.ret_rms.mean, policy.ret_rms.var, policy.ret_rms.count = np.array(10.0), np.array(1.0), 10
    assert returns(policy, rows("e", end))[1] == pytest.approx(expected - 10, abs=1e-6)


def test_normalized_returns():
    policy, buffer = make_pg(reward_normalization=True), rows("-", "-", "e", "-", "e")
    plain = np.array([2.75, 3.5, 3, 6.5, 5])
    assert returns(policy, buffer) == pytest.approx(plain, abs=1e-6)  # nothing is known before
    assert (float(policy.ret_rms.mean), float(policy.ret_rms.var)) == pytest.approx((plain.mean(), plain.var()))
    assert returns(policy, buffer) == pytest.approx((plain - plain.mean()) / plain.std(), abs=1e-6)
    assert policy.ret_rms.count == 10


def test_returns_that_were_all_alike_are_divided_by_a_small_number():
    policy = make_pg(reward_normalization=True)
    policy.ret_rms.mean, policy.ret_rms.var, policy.ret_rms.count = np.array(1.0), np.array(0.0), 10
    assert returns(policy, rows("e", "e")) == pytest.approx([0.0, 1e4])


def test_returns_are_as_they_are_once_they_are_no_longer_to_be_normalized():
    policy = make_pg(reward_normalization=True)
    policy.ret_rms.mean, policy.ret_rms.var, policy.ret_rms.count = np.array(1.0), np.array(4.0), 10
    policy.rew_norm = False
    assert returns(policy, rows("e", "e")) == [1.0, 2.0]


def test_returns_are_like_the_actor():
    policy, buffer = make_pg(), rows("-", "e")
    batch, indices = buffer.sample(0)
    assert policy.process_fn(batch, buffer, indices).returns.dtype == torch.float32
    policy.to("meta")
    assert policy.process_fn(*buffer.sample(0)[:1], buffer, indices).returns.device.type == "meta"


def test_loss_and_step_by_hand():
    policy = make_pg()
    rows = Minibatch(torch.tensor([0, 1]), torch.tensor([0, 1]), returns=torch.tensor([3.0, 1.0]))
    losses = policy.gradient_step(rows)
    assert losses["loss"].item() == pytest.approx(np.log(2) * (3 + 1) / 2)
    # half the return times one minus the probability, and minus the other's probability
    assert policy.actor.values.flatten().tolist() == pytest.approx([0.75, -0.75, -0.25, 0.25])


def test_each_dimension_of_an_action_has_the_return_of_its_row():
    policy = make_pg(((0.0, 0.0), (0.0, 0.0)), dist_fn=lambda loc: Normal(loc, 1.0))
    acts = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    policy.gradient_step(Minibatch(torch.tensor([0, 1]), acts, returns=torch.tensor([10.0, 100.0])))
    assert policy.actor.values.flatten().tolist() == pytest.approx([2.5, 5.0, 75.0, 100.0])  # return * act / 4


def test_there_is_no_critic():
    policy = make_pg()
    assert not hasattr(policy, "critic")
    assert {name.split(".")[0] for name in policy.state_dict()} == {"actor", "_extra_state"}
    with pytest.raises(TypeError):
        make_pg(critic=Fixed(((0.0,), (0.0,))))
