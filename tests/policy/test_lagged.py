"""Target networks whose tensors are remembered, and looked for again where a network has changed."""

import copy
import gc
import weakref

import pytest
import torch
from torch import nn

from rlfast.policy.lagged import LaggedNetworks


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
    LaggedNetworks.soft_update(target, source, 0.5)
    for old, now, aim in zip(before, target.parameters(), source.parameters(), strict=True):
        torch.testing.assert_close(now.detach(), old + (aim.detach() - old) / 2)
    for now, aim in zip(target.buffers(), source.buffers(), strict=True):
        assert torch.equal(now, aim)


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


CHANGES = [
    replaced_parameter,
    replaced_buffer,
    replaced_module,
    replaced_within,
    removed_and_added,
    assigned_state,
    other_dtype,
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
        LaggedNetworks.soft_update(target, source, 0.5)


def test_other_structures_are_refused():
    with pytest.raises(ValueError):
        LaggedNetworks.soft_update(nn.Linear(2, 2), nn.Linear(2, 2, bias=False), 0.5)


def test_networks_are_not_kept():
    target, source = pair()
    assert_follows(target, source)
    gone = weakref.ref(target), weakref.ref(source)
    del target, source
    gc.collect()
    assert [one() for one in gone] == [None, None]
