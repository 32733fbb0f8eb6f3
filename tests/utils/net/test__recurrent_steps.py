import pytest
import torch

from rlfast.data import Batch
from rlfast.utils.net._recurrent import Steps, each_step, outputs_of
from rlfast.utils.net.common import Recurrent
from rlfast.utils.net.continuous import ActorProb, RecurrentActorProb, RecurrentCritic
from rlfast.utils.net.discrete import Actor

ROWS, COLUMNS = torch.tensor([0, 0, 2]), torch.tensor([1, 3, 0])
OBS = torch.linspace(-1, 1, 3 * 4 * 2).reshape(3, 4, 2)


def networks():
    torch.manual_seed(0)
    yield Recurrent(2, 2, 5, hidden_layer_size=6)
    yield Actor(Recurrent(1, 2, 5, hidden_layer_size=6), 3)
    yield ActorProb(Recurrent(1, 2, 5, hidden_layer_size=6), 3, conditioned_sigma=True)
    yield RecurrentActorProb(1, (2,), (3,), hidden_layer_size=6)


@pytest.mark.parametrize("net", [*networks()], ids=lambda net: type(net).__name__)
def test_recurrent_step_equals_sequence(net):
    steps = Steps(ROWS, COLUMNS)
    with outputs_of(steps):
        found, state = net(OBS)
    assert steps.used
    for place, (row, column) in enumerate(zip(ROWS, COLUMNS, strict=True)):
        expected, _ = net(OBS[row : row + 1, : column + 1])
        pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
        for one, other in pairs:
            torch.testing.assert_close(one[place], other[0], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(state["hidden"], net(OBS)[1]["hidden"])


def test_a_critic_rates_one_action_for_each_step():
    critic, act = RecurrentCritic(1, (2,), (1,), hidden_layer_size=6), torch.randn(3, 1)
    with outputs_of(Steps(ROWS, COLUMNS)):
        found = critic(OBS, act)
    for place, (row, column) in enumerate(zip(ROWS, COLUMNS, strict=True)):
        expected = critic(OBS[row : row + 1, : column + 1], act[place : place + 1])
        torch.testing.assert_close(found[place], expected[0], atol=1e-6, rtol=1e-5)


def test_the_context_ends_with_an_error():
    net = Recurrent(1, 2, 5, hidden_layer_size=6)
    before, _ = net(OBS)
    with pytest.raises(ZeroDivisionError), outputs_of(Steps(ROWS, COLUMNS)):
        assert not torch.equal(net(OBS)[0], before)
        _ = 1 // 0
    assert torch.equal(net(OBS)[0], before)


def test_encoders_get_each_step():
    obs = Batch(a=torch.arange(6.0).reshape(2, 3), b=torch.arange(12.0).reshape(2, 3, 2))

    def encoder(part):
        return torch.cat([part["a"][:, None], part["b"]], dim=1)

    with outputs_of(Steps(ROWS, COLUMNS)):
        found = each_step(encoder, obs)
    assert torch.equal(found, torch.cat([obs.a[:, :, None], obs.b], dim=2))
    assert torch.equal(each_step(encoder, obs[:, 1]), found[:, 1])
