"""Target networks whose lists of tensors are cached, and made again after a network has changed."""

import copy
import gc
import pickle
import weakref

import pytest
import torch
from gymnasium.spaces import Discrete
from torch import nn

from rlfast.policy import RandomPolicy
from rlfast.policy.components.lagged_networks import soft_update


def pair():
    source = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Sequential(nn.Linear(3, 1)))
    target = copy.deepcopy(source)
    with torch.no_grad():
        for tensor in (*source.parameters(), *source.buffers()):
            tensor.add_(1)
    return target, source


def assert_follows(target, source):
    """The target goes half of the way, whatever has become of either."""
    with torch.no_grad():
        for parameter in source.parameters():
            parameter.add_(4.0)
    before = [p.detach().clone() for p in target.parameters()]
    soft_update(target, source, 0.5)
    for old, now, aim in zip(before, target.parameters(), source.parameters(), strict=True):
        assert now.dtype == old.dtype
        torch.testing.assert_close(now.detach(), old + (aim.detach().to(old.dtype) - old) / 2)
    for now, aim in zip(target.buffers(), source.buffers(), strict=True):
        assert torch.equal(now, aim.to(now.dtype))


def replaced_parameter(target, source):
    for network in (target, source):
        network[0].weight = nn.Parameter(network[0].weight.detach().clone())


def replaced_buffer(target, source):
    source[1].running_mean = torch.full((3,), 7.0)


def replaced_module(target, source):
    for network in (target, source):
        network[2] = nn.Sequential(nn.Linear(3, 2))


def replaced_within(target, source):
    for network in (target, source):
        network[2][0] = nn.Linear(3, 2)


def removed_and_added(target, source):
    for network in (target, source):
        del network[2]
        gc.collect()
        network.append(nn.Linear(3, 2))


def assigned_state(target, source):
    state = {name: value.clone() for name, value in source.state_dict().items()}
    source.load_state_dict(state, assign=True)


def other_dtype(target, source):
    target.double()
    source.double()


def other_dtype_of_the_source(target, source):
    source.double()


def other_dtype_within_the_source(target, source):
    source[2].bfloat16()


CHANGES = [
    replaced_parameter,
    replaced_buffer,
    replaced_module,
    replaced_within,
    removed_and_added,
    assigned_state,
    other_dtype,
    other_dtype_of_the_source,
    other_dtype_within_the_source,
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_network_that_has_changed_is_looked_at_again(change):
    target, source = pair()
    assert_follows(target, source)
    assert_follows(target, source)
    change(target, source)
    assert_follows(target, source)
    assert_follows(target, source)


def test_another_source():
    target, source = pair()
    assert_follows(target, source)
    assert_follows(target, copy.deepcopy(source))
    assert_follows(target, source)


def test_a_shared_parameter_is_refused_also_later():
    target, source = pair()
    assert_follows(target, source)
    target[0].weight = source[0].weight
    with pytest.raises(ValueError, match=r"share a parameter of shape \(3, 2\)"):
        soft_update(target, source, 0.5)


def test_other_structures_are_refused():
    with pytest.raises(ValueError):
        soft_update(nn.Linear(2, 2), nn.Linear(2, 2, bias=False), 0.5)


def test_other_buffers_are_refused():
    target, source = nn.BatchNorm1d(2, track_running_stats=False), nn.BatchNorm1d(2)
    with pytest.raises(ValueError):
        soft_update(target, source, 0.5)


def test_a_module_may_lie_where_a_removed_one_lay():
    target, source = nn.Module(), nn.Module()
    target.head, source.head = nn.Linear(3, 1), nn.Linear(3, 1)
    for _ in range(20):
        assert_follows(target, source)
        for network in (target, source):
            del network.head
            network.head = nn.Linear(3, 1)


def test_networks_are_not_kept():
    target, source = pair()
    assert_follows(target, source)
    gone = weakref.ref(target), weakref.ref(source)
    del target, source
    gc.collect()
    assert [one() for one in gone] == [None, None]


@pytest.mark.pitfall("F5")
@pytest.mark.parametrize("tau", [0.0, 0.25, 1.0, 0, 1])
def test_any_share_of_the_way(tau):
    target, source = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    nn.init.constant_(target.weight, 2.0)
    nn.init.constant_(source.weight, 10.0)
    soft_update(target, source, tau)
    assert target.weight.item() == 2.0 + 8.0 * tau
    assert source.weight.item() == 10.0


@pytest.mark.parametrize("tau", [-0.01, 1.01, float("nan")])
def test_no_more_than_the_way(tau):
    target, source = nn.Linear(1, 1), nn.Linear(1, 1)
    before = target.weight.item()
    with pytest.raises(ValueError, match=rf"^tau must be in \[0, 1\], got {tau}$"):
        soft_update(target, source, tau)
    assert target.weight.item() == before


def test_what_is_not_trained_may_be_shared():
    target, source = nn.Sequential(nn.Linear(1, 2), nn.Linear(2, 1)), nn.Sequential(nn.Linear(1, 2), nn.Linear(2, 1))
    target[0].weight = source[0].weight
    source[0].weight.requires_grad_(False)
    soft_update(target, source, 1.0)
    assert torch.equal(target[1].weight, source[1].weight)
    target[1].bias = source[1].bias  # after one that is not trained
    with pytest.raises(
        ValueError, match=r"^target and source share a parameter of shape \(1,\): copy the network first$"
    ):
        soft_update(target, source, 1.0)


def test_parameters_without_elements_are_not_shared():
    target, source = (nn.ParameterList([torch.zeros(0), torch.full((1,), value)]) for value in (0.0, 4.0))
    soft_update(target, source, 0.5)
    assert target[1].item() == 2.0


@pytest.mark.pitfall("F8")
def test_targets_never_leave_evaluation_mode():
    policy = RandomPolicy(action_space=Discrete(2))
    policy.network = nn.Sequential(nn.Linear(1, 1), nn.Dropout(0.5))
    policy.target = policy.lagged_copy(policy.network)
    assert policy.train() is policy
    for owner in (policy, copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        for mode in (True, False, True):
            owner.train(mode)
            assert (owner.training, owner.network[1].training) == (mode, mode)
            assert not owner.target.training
            assert not owner.target[1].training
        assert not any(parameter.requires_grad for parameter in owner.target.parameters())
        assert all(parameter.requires_grad for parameter in owner.network.parameters())
        assert owner.target[0].weight.data_ptr() != owner.network[0].weight.data_ptr()
