"""``torch.compile`` puts ``_orig_mod.`` before the names of weights: they load with and without it."""

import gymnasium as gym
import pytest
import torch
from torch import nn

from rlfast.policy import DQNPolicy, ICMPolicy
from rlfast.utils.net.common import Net
from rlfast.utils.net.discrete import IntrinsicCuriosityModule
from rlfast.utils.optim import adam

SPACE = gym.spaces.Discrete(2)


class Parts(nn.Module):
    """A network with a part that is compiled."""

    def __init__(self, compiled):
        super().__init__()
        part = nn.Linear(4, 8)
        self.first, self.last = torch.compile(part) if compiled else part, nn.Linear(8, 2)

    def forward(self, obs, state=None, info=None):
        return self.last(self.first(torch.as_tensor(obs))), state


def whole(compiled):
    net = Net(4, 2, [8])
    return torch.compile(net) if compiled else net


def dqn(model):
    return DQNPolicy(model=model, optim=adam(1e-3), action_space=SPACE, target_update_freq=5)


def curious(model):
    module = IntrinsicCuriosityModule(nn.Linear(4, 4), 4, 2)
    scales = {"lr_scale": 1.0, "reward_scale": 0.1, "forward_loss_weight": 0.2}
    optim = torch.optim.Adam(module.parameters())
    return ICMPolicy(policy=dqn(model), model=module, optim=optim, action_space=SPACE, **scales)


@pytest.mark.parametrize("wrap", [dqn, curious])
@pytest.mark.parametrize("model", [whole, Parts])
@pytest.mark.parametrize(("saved", "loaded"), [(True, False), (False, True), (True, True), (False, False)])
def test_weights_load_with_and_without_the_prefix(saved, loaded, model, wrap):
    one, other = wrap(model(saved)), wrap(model(loaded))
    state = one.state_dict()
    assert any("_orig_mod." in name for name in state) == saved
    result = other.load_state_dict(state)
    assert (result.missing_keys, result.unexpected_keys) == ([], [])
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def test_other_keys_are_refused_by_their_own_names():
    state = dqn(whole(True)).state_dict() | {"model._orig_mod.other": torch.zeros(1)}
    with pytest.raises(RuntimeError, match=r"Unexpected key.*_orig_mod\.other"):
        dqn(whole(False)).load_state_dict(state)
