"""Pairs and ensembles of critics; the tests of algorithms test their steps."""

import pytest
import torch
from torch import nn

from continuous import Lines, ensemble
from rlfast.policy.critics import check_ensemble, check_single, ensemble_values, reinitialized, twin_critics
from rlfast.utils.net.continuous import Critic
from rlfast.utils.optim import adam


class Constant(nn.Module):
    """A value that is the same everywhere."""

    def __init__(self, value):
        super().__init__()
        self.value = nn.Parameter(torch.tensor(value))

    def forward(self, obs, act):
        return self.value.expand(len(obs), 1)


def test_second_critic_begins_elsewhere():
    layers = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 1)))
    for ours, theirs in zip(layers.parameters(), reinitialized(layers).parameters(), strict=True):
        assert ours.shape == theirs.shape
        assert not torch.equal(ours, theirs)


def test_second_optimizer_is_like_the_first():
    first = nn.Linear(2, 1)
    twins = twin_critics(first, torch.optim.SGD(first.parameters(), lr=0.5, momentum=0.25), None, None)
    assert twins.critic2 is not first
    assert (twins.critic2_optim.defaults["lr"], twins.critic2_optim.defaults["momentum"]) == (0.5, 0.25)
    assert twins.critic2_optim.param_groups[0]["params"] == [*twins.critic2.parameters()]


def test_optimizer_of_critic_that_is_not_given():
    first = nn.Linear(2, 1)
    with pytest.raises(ValueError, match="critic2_optim holds no parameters of the critic2 that is made here"):
        twin_critics(first, adam(), None, torch.optim.SGD(first.parameters(), lr=0.5))


@pytest.mark.parametrize("critic", [lambda: ensemble(5), lambda: Lines([0.0, 1.0, 2.0, 3.0, 4.0], [0.0] * 5)])
def test_some_members(critic):
    network = critic()
    obs, act = torch.randn(7, 4), torch.randn(7, 2)
    act = act if isinstance(network, Critic) else act[:, :1]
    some = ensemble_values(network, obs, act, torch.tensor([3, 0]))
    torch.testing.assert_close(some, network(obs, act)[[3, 0]].squeeze(2))
    assert ensemble_values(network, obs, act).shape == (5, 7)


def test_other_members_are_not_computed():
    network, computed = ensemble(5), []
    network.last.register_forward_hook(lambda _, args, output: computed.append(len(output)))
    ensemble_values(network, torch.zeros(7, 4), torch.zeros(7, 2), torch.tensor([3, 0]))
    assert computed == [2]


def test_several_values_of_each_member():
    act = torch.zeros(1, 1)
    values = ensemble_values(Lines([0.0, 0.0], [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]), act, act)
    assert values.tolist() == [[[0.0, 1.0, 2.0]], [[3.0, 4.0, 5.0]]]


def test_other_critics_are_refused():
    check_ensemble(ensemble(5), 5)
    check_single(Constant(0.0))
    with pytest.raises(ValueError, match="ensemble_size is 10, but critic is an ensemble of 5: give both the same"):
        check_ensemble(ensemble(5), 10)
    with pytest.raises(TypeError, match="critic must be a Module"):
        check_ensemble(None)
    with pytest.raises(ValueError, match="got an ensemble of 5; REDQPolicy takes ensembles"):
        check_single(ensemble(5))
    with pytest.raises(ValueError, match=r"critic must give \[ensemble_size, 2, 1\], got \[2, 1\]: make it of"):
        ensemble_values(Constant(0.0), torch.zeros(2, 1), torch.zeros(2, 1))
