import numpy as np
import pytest
import torch
from torch import nn

from distributional import make, transitions
from policy.given import calls_of, forwarding
from rlfast.data import Batch
from rlfast.policy.modelfree.iqn import IQNTrainingStats
from rlfast.utils.net.common import Net, Recurrent
from rlfast.utils.net.discrete import ImplicitQuantileNetwork

STEEPNESS = [[1.0, 2.0], [4.0, 3.0], [0.0, 1.0]]
LEVELS = torch.tensor([[0.25, 0.75]])


class Ramp(ImplicitQuantileNetwork):
    """The quantiles of a return that is uniform from 0, by state number: a level times what is learned."""

    def __init__(self):
        super().__init__(nn.Identity(), 2, preprocess_net_output_dim=1)
        self.steepness = nn.Parameter(torch.tensor(STEEPNESS))

    def forward(self, obs, sample_size, **kwargs):
        taus = kwargs["taus"]
        assert taus.shape[1] == sample_size
        return (self.steepness[torch.as_tensor(obs, dtype=torch.int64)][..., None] * taus[:, None], taus), None


@pytest.mark.parametrize("name", ["sample_size", "online_sample_size", "target_sample_size", "num_quantiles"])
def test_two_levels_at_least(name):
    with pytest.raises(ValueError, match=f"{name} must be at least 2, got 1"):
        make("IQN", **{name: 1})


def test_how_many_levels():
    policy, batch = make("IQN", target_update_freq=2), Batch(obs=np.zeros((6, 4), np.float32), info={})
    assert policy(batch).taus.shape == (6, 3)
    assert policy(batch).logits.shape == (6, 2, 3)
    assert policy(batch, model="model_old").taus.shape == (6, 4)
    policy.eval()
    assert policy(batch).taus.shape == (6, 5)
    assert not torch.equal(policy(batch).taus, policy(batch).taus)
    assert policy.next_value(batch.obs, None, *policy.draw_next(6)).shape == (6, 4)  # whatever the mode
    assert policy.draw_step(6)[0].shape == (6, 3)


def test_there_is_no_target_network_to_ask():
    with pytest.raises(ValueError, match="there is no target network to ask; set target_update_freq"):
        make("IQN")(Batch(obs=np.zeros((1, 4), np.float32), info={}), model="model_old")


@pytest.mark.parametrize(
    ("double", "sign", "expected"), [(True, 1, [0.5, 1.5]), (False, 1, [2.0, 6.0]), (False, -1, [0.5, 1.5])]
)
def test_targets_by_hand(double, sign, expected):
    policy = make("IQN", Ramp(), target_update_freq=10, is_double=double)
    with torch.no_grad():
        policy.model_old.steepness[0] = torch.tensor([4.0, 1.0])  # for which 0 is the best action
    levels = sign * torch.tensor([[0.1, 0.2, 0.3]]), torch.tensor([[0.5, 1.5]])  # the first choose, also without double
    calls = []
    policy.model.register_forward_hook(lambda *_: calls.append(1))
    assert policy.next_value(np.array([0]), None, *levels).tolist() == [expected]
    assert len(calls) == double  # the trained network is asked only where it chooses


def test_without_a_target_network_the_levels_are_those_of_the_choice():
    policy = make("IQN", Ramp())
    assert policy.next_value(np.array([1]), None, LEVELS).tolist() == [[1.0, 3.0]]
    assert len(policy.draw_next(1)) == 1


def test_losses_and_a_step_by_hand(monkeypatch):
    model = Ramp()
    policy = make("IQN", model, optim=torch.optim.SGD(model.parameters(), lr=1.0))
    monkeypatch.setattr(policy, "draw_step", lambda _: (LEVELS,))
    batch = Batch(obs=np.array([0]), act=np.array([1]), info={}, returns=torch.tensor([[1.0, 3.5, 0.0]]))
    stats = policy.learn(batch)  # from the quantiles 0.5 and 1.5
    below = 0.25 * 0.125 + 0.25 * 2.5 + 0.75 * 0.125  # errors 0.5, 3 and -0.5
    above = 0.25 * 0.125 + 0.75 * 1.5 + 0.25 * 1.0  # errors -0.5, 2 and -1.5
    assert isinstance(stats, IQNTrainingStats)
    assert stats.loss == pytest.approx((below + above) / 3)
    assert batch.td_error.tolist() == pytest.approx([(0.125 + 2.5 + 0.125 + 0.125 + 1.5 + 1.0) / 3])
    slope = 0.25 * (0.25 * 0.5 + 0.25 - 0.75 * 0.5) + 0.75 * (-0.25 * 0.5 + 0.75 - 0.25)  # levels times slopes
    assert model.steepness[0, 1].item() == pytest.approx(2 + slope / 3)


def test_importance_weights(monkeypatch):
    policy = make("IQN", Ramp())
    monkeypatch.setattr(policy, "draw_step", lambda _: (LEVELS.expand(2, 2),))
    returns = torch.tensor([[1.0, 3.5, 0.0]] * 2)
    batch = Batch(obs=np.array([0, 0]), act=np.array([1, 1]), info={}, returns=returns, weight=np.array([0.5, 0.0]))
    assert policy.learn(batch).loss == pytest.approx(0.25 * (0.75 + 1.40625) / 3)


def test_a_network_of_others_draws_by_itself():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(2, 1))

        def forward(self, obs, sample_size, state=None, info=None):
            taus = torch.full((len(obs), sample_size), 0.5)
            return ((self.weight * taus[:, None]), taus), state

    policy = make("IQN", Own(), target_update_freq=1)
    assert policy.update(4, transitions()).loss > 0
    assert policy(Batch(obs=np.zeros((2, 4), np.float32), info={})).taus.tolist() == [[0.5] * 3] * 2


def test_a_network_of_ours_whose_forward_takes_no_levels_draws_by_itself():
    class Own(ImplicitQuantileNetwork):
        def forward(self, obs, sample_size, state=None, info=None):
            taus = torch.full((len(obs), sample_size), 0.5)
            return super().forward(obs, sample_size, state=state, taus=taus)

    policy = make("IQN", Own(Net(4, hidden_sizes=[8]), 2), target_update_freq=1)
    assert policy.update(4, transitions()).loss > 0
    assert policy(Batch(obs=np.zeros((2, 4), np.float32), info={})).taus.tolist() == [[0.5] * 3] * 2


def test_a_network_of_ours_whose_forward_names_the_levels_is_given_them():
    class Own(ImplicitQuantileNetwork):
        def forward(self, obs, sample_size, taus, state=None, info=None):
            return super().forward(obs, sample_size, state=state, taus=taus)

    own, plain = (make("IQN", kind(Net(4, hidden_sizes=[8]), 2)) for kind in (Own, ImplicitQuantileNetwork))
    obs = Batch(obs=np.zeros((2, 4), np.float32), info={})
    assert torch.equal(own(obs).taus, plain(obs).taus)


def test_a_forward_of_ones_own_is_learned_through():
    policy = make("IQN", target_update_freq=1)
    calls = forwarding(policy)
    policy.update(4, transitions())
    assert [tuple(call.result.taus.shape) for call in calls] == [(4, 3), (4, 4), (4, 3)]


def test_networks_are_given_hidden_states_and_infos():
    policy, infos = make("IQN"), Batch(lives=np.array([3, 2]))
    calls = calls_of(policy.model)
    batch = Batch(obs=np.zeros((2, 4), np.float32), act=np.array([0, 1]), info=infos)
    assert policy(batch, "before").state == "before"
    batch.returns, batch.state = torch.zeros(2, 3), torch.ones(2, 1)
    policy.learn(batch)
    assert [call["state"] for call in calls] == ["before", batch.state]
    assert [call["info"] for call in calls] == [infos, infos]


def test_a_forward_of_ones_own_is_given_the_sample():
    policy = make("IQN")
    calls = forwarding(policy)
    batch = Batch(obs=np.zeros((2, 4), np.float32), act=np.array([0, 1]), info={})
    batch.returns, batch.state = torch.zeros(2, 3), torch.ones(2, 1)
    policy.learn(batch)
    assert [call.args for call in calls] == [(batch, batch.state)]


def test_levels_are_drawn_for_the_device_of_the_network():
    policy = make("IQN", Ramp().to("meta"), optim=None)
    assert [levels.device.type for levels in (*policy.draw_next(2), *policy.draw_step(2))] == ["meta"] * 2


def test_levels_come_from_the_policys_own_stream():
    levels = []
    for number in range(2):
        policy = make("IQN", seed=1)
        torch.manual_seed(number)
        levels.append(policy(Batch(obs=np.zeros((2, 4), np.float32), info={})).taus)
    assert torch.equal(*levels)


def test_it_has_a_memory_on_a_recurrent_network():
    model = ImplicitQuantileNetwork(Recurrent(1, 4, 6, hidden_layer_size=5), 2)
    policy, batch = make("IQN", model), Batch(obs=np.zeros((2, 4), np.float32), info={})
    state = policy(batch).state
    assert state.hidden.shape == (2, 1, 5)
    assert policy.state_after(batch.obs, state)["hidden"].shape == (2, 1, 5)
