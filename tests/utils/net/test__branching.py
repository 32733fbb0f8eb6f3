import numpy as np
import pytest
import torch

from rlfast.utils.net.common import BranchingNet


def test_advantages_are_centred_in_each_branch():
    net = BranchingNet((2, 2), 3, 4, [8, 7], [6], [5])
    obs = np.random.default_rng(0).normal(size=(5, 2, 2))
    values, state = net(obs, state="carried", info={})
    assert values.shape == (5, 3, 4)
    assert state == "carried"
    features = net.common(obs)
    assert torch.allclose(values.mean(dim=2), net.value(features).expand(5, 3), atol=1e-6)
    second = net.branches[1](features)
    expected = net.value(features) + second - second.mean(1, keepdim=True)
    assert values[:, 1].detach().numpy() == pytest.approx(expected.detach().numpy(), abs=1e-6)


def test_parameter_names_match_tianshou():
    names = [*BranchingNet(4, 2, 3, [8], [], [5]).state_dict()]
    layers = ["common.model.0", "value.model.0", "branches.0.model.0", "branches.0.model.2"]
    layers += ["branches.1.model.0", "branches.1.model.2"]
    assert names == [f"{layer}.{part}" for layer in layers for part in ("weight", "bias")]


def test_nothing_needs_to_be_shared():
    assert BranchingNet(4, 2, 3)(torch.zeros(5, 4))[0].shape == (5, 2, 3)


def test_iterating_branches_ends():
    with pytest.raises(ValueError, match="num_branches must be at most 10,000, got 10,001"):
        BranchingNet(4, 10_001)
