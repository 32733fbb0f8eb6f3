"""Networks on other devices, which choose actions by a copy on the CPU."""

import numpy as np
import pytest
import torch
from torch import nn

from policy.native.test_choosers import dqn, observations, pg
from rlfast.data import Batch
from rlfast.functional.distributions import Categorical
from rlfast.policy.native import lowering
from rlfast.utils.net.common import Net
from rlfast.utils.runtime.native import NotNativeError

CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"))


@pytest.fixture(params=["cpu", CUDA])
def device(request, monkeypatch):
    """A device whose networks are copied; the CPU stands for one where there is none."""
    if request.param == "cpu":
        monkeypatch.setattr(lowering, "is_elsewhere", lambda network: True)
    return request.param


def test_the_copy_chooses_by_the_weights_of_now(device):
    policy, obs = dqn().to(device), observations()
    chooser = policy.native_chooser((4,))
    for _ in range(2):
        for weights in policy.model.parameters():
            nn.init.normal_(weights)
        wanted = policy(Batch(obs=obs, info={})).act
        assert np.array_equal(chooser.choose(obs), wanted)
        assert [policy.compute_action(row) for row in obs[:5]] == wanted[:5].tolist()
    assert policy.native_chooser((4,)) is chooser
    for weights in policy.model.parameters():
        weights.data = torch.randn_like(weights)
    assert np.array_equal(policy.native_chooser((4,)).choose(obs), policy(Batch(obs=obs, info={})).act)


def test_the_copy_draws_as_the_policy(device):
    policy, obs = pg(Categorical, softmax=False).to(device), observations()
    taken = []
    for act in (lambda: policy(Batch(obs=obs, info={})).act.cpu(), lambda: policy.native_chooser((4,)).choose(obs)):
        policy.seed(3)
        taken.append(np.asarray(act()).tolist())
    assert taken[0] == taken[1]


def test_weights_of_an_export_are_those_of_now(device):
    policy = dqn().to(device)
    policy.described((4,))
    nn.init.constant_(policy.model.model.model[0].bias, 7.0)
    parts = [part for node in policy.described((4,)).nodes for part in node if isinstance(part, np.ndarray)]
    assert any((part == 7.0).all() for part in parts)


def test_whole_numbers_among_the_tensors_are_computed_on_the_device(device):
    policy = dqn().to(device)
    policy.model.register_buffer("count", torch.zeros(1, dtype=torch.int64))
    with pytest.raises(NotNativeError, match="not all of its tensors are contiguous float32"):
        policy.native_chooser((4,))


def test_large_networks_are_computed_on_the_device(device):
    policy = dqn()
    policy.model = Net(4, 3, [512, 512]).to(device)
    with pytest.raises(NotNativeError, match=r"it is on .*, where its 266,755 numbers are computed sooner"):
        policy.native_chooser((4,))
