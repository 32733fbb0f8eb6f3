import pytest
import torch
from torch import nn

from rlfast.utils.net._shared import shared_features
from rlfast.utils.net.common import Net, Recurrent
from rlfast.utils.net.continuous import ActorProb
from rlfast.utils.net.continuous import Critic as ContinuousCritic
from rlfast.utils.net.discrete import Actor, Critic

OBS = torch.linspace(-1, 1, 12).reshape(3, 4)


def counted(net):
    calls = []
    net.register_forward_hook(lambda *_: calls.append(1))
    return calls


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net(4, hidden_sizes=[8])


@pytest.mark.parametrize(
    ("actor", "critic"), [(Actor, Critic), (ActorProb, Critic), (ActorProb, ContinuousCritic)], ids=str
)
def test_two_heads_share_one_pass(net, actor, critic):
    heads = nn.ModuleList([actor(net, 2), critic(net)])

    def gradients():
        heads.zero_grad()
        out, value = heads[0](OBS)[0], heads[1](OBS)
        (sum(part.square().sum() for part in ([out] if torch.is_tensor(out) else out)) + value.sum()).backward()
        return out, value, [p.grad.clone() for p in heads.parameters() if p.grad is not None]

    calls = counted(net)
    apart = gradients()
    assert len(calls) == 2
    with shared_features():
        together = gradients()
    assert len(calls) == 3
    torch.testing.assert_close(together, apart)


def test_shared_features_need_same_input_and_net(net):
    other = Net(4, hidden_sizes=[8])
    calls, calls_of_other = counted(net), counted(other)
    with shared_features():
        first = Critic(net)(OBS)
        Critic(net)(OBS.clone())
        Critic(other)(OBS)
        assert (len(calls), len(calls_of_other)) == (2, 1)
    with torch.no_grad():
        net.model.model[0].bias += 1
    critic = Critic(net)
    with shared_features():
        assert not torch.equal(critic(OBS), first)
    assert len(calls) == 3


def test_freed_observation_is_not_reused(net):
    calls, critic = counted(net), Critic(net)
    with shared_features():
        for k in range(10):  # each is gone, and its address free, when the next one comes
            critic(torch.full((1, 4), float(k)))
    assert len(calls) == 10


def test_hidden_states_are_not_shared():
    net = Recurrent(1, 4, 8)
    calls, critic = counted(net), Critic(net, preprocess_net_output_dim=8)
    state = {"hidden": torch.zeros(3, 1, 128), "cell": torch.ones(3, 1, 128)}
    with shared_features():
        Actor(net, 2, preprocess_net_output_dim=8)(OBS[:, None], state)
        critic(OBS[:, None])
    assert len(calls) == 2


def test_an_error_ends_the_sharing(net):
    calls, critic = counted(net), Critic(net)
    with pytest.raises(ZeroDivisionError), shared_features():
        1 / 0
    critic(OBS), critic(OBS)
    assert len(calls) == 2
