import numpy as np
import pytest
import torch
from torch import nn

from distributional import make, transitions
from policy.given import calls_of, forwarding
from rlfast.data import Batch
from rlfast.policy.modelfree.fqf import FQFTrainingStats
from rlfast.utils.net.common import Net
from rlfast.utils.net.discrete import Fractions, FullQuantileFunction

STEEPNESS = [[1.0, 2.0], [4.0, 3.0]]


class Thirds(nn.Module):
    """Proposes the levels 0, a third of what is learned, and 1."""

    def __init__(self):
        super().__init__()
        self.level = nn.Parameter(torch.tensor(0.75))

    def forward(self, features):
        ends = torch.tensor([0.0, 1.0]).expand(len(features), 2)
        taus = torch.stack([ends[:, 0], (self.level / 3).expand(len(features)), ends[:, 1]], dim=1)
        return taus, (taus[:, 1:] + taus[:, :-1]).detach() / 2, self.level.expand(len(features))


class Square(FullQuantileFunction):
    """Quantiles that rise with the square of the level, by state number."""

    def __init__(self):
        super().__init__(nn.Identity(), 2, preprocess_net_output_dim=1)
        self.steepness = nn.Parameter(torch.tensor(STEEPNESS))

    def forward(self, obs, propose_model, fractions=None, **kwargs):
        if fractions is None:
            fractions = Fractions(*propose_model(torch.as_tensor(obs)))
        rows = self.steepness[torch.as_tensor(obs, dtype=torch.int64)][..., None]
        inner = rows * fractions.taus[:, None, 1:-1] ** 2 if self.training else None
        return (rows * fractions.tau_hats[:, None] ** 2, fractions, inner), None


def by_hand(**options):
    model, proposals = Square(), Thirds()
    optims = {"optim": torch.optim.SGD(model.parameters(), lr=1.0)}
    optims["fraction_optim"] = torch.optim.SGD(proposals.parameters(), lr=1.0)
    return make("FQF", model, fraction_model=proposals, num_fractions=2, **optims, **options)


def test_values_weigh_quantiles_by_their_widths():
    policy = by_hand()
    result = policy(Batch(obs=np.array([0, 1]), info={}))
    assert result.act.tolist() == [1, 0]
    assert result.fractions.taus.tolist() == [[0.0, 0.25, 1.0]] * 2
    assert result.fractions.tau_hats.tolist() == [[0.125, 0.625]] * 2
    assert result.quantiles_tau.flatten().tolist() == [1 / 16, 2 / 16, 4 / 16, 3 / 16]
    given = policy.quantiles(np.array([0]))
    expected = 0.25 * 0.125**2 + 0.75 * 0.625**2
    assert policy.expected_returns(given, np.array([0])).tolist() == [pytest.approx([expected, 2 * expected])]
    assert "quantiles_tau" in policy.eval()(Batch(obs=np.array([0]), info={}))


@pytest.mark.parametrize(("double", "expected"), [(True, 1.0), (False, 4.0)])
def test_targets_by_hand(double, expected):
    policy = by_hand(target_update_freq=10, is_double=double)
    with torch.no_grad():
        policy.model_old.steepness[0] = torch.tensor([4.0, 1.0])  # for which 0 is the best action
        policy.fraction_model.level.fill_(1.5)
    assert policy.next_value(np.array([0])).tolist() == [[expected * 0.25**2, expected * 0.75**2]]


@pytest.mark.parametrize("mode", [True, False])
def test_losses_and_steps_by_hand(mode):
    policy = by_hand(ent_coef=0.5).train(mode)
    batch = Batch(obs=np.array([1]), act=np.array([0]), info={}, returns=torch.tensor([[1.0, 0.0]]))
    stats = policy.learn(batch)
    low, high = 4 * 0.125**2, 4 * 0.625**2  # 0.0625 and 1.5625, at the levels 0.125 and 0.625
    quantile_loss = (0.125 * (1 - low) ** 2 / 2 + 0.875 * low**2 / 2) / 2
    quantile_loss += (0.375 * (high - 1) ** 2 / 2 + 0.375 * (high - 0.5)) / 2
    gradient = 2 * 4 * 0.25**2 - low - high
    assert isinstance(stats, FQFTrainingStats)
    assert stats.quantile_loss == pytest.approx(quantile_loss)
    assert stats.fraction_loss == pytest.approx(gradient * 0.25)
    assert stats.entropy_loss == pytest.approx(0.75)
    assert stats.loss == pytest.approx(quantile_loss + gradient * 0.25 - 0.5 * 0.75)
    assert policy.fraction_model.level.item() == pytest.approx(0.75 - (gradient / 3 - 0.5))
    slope = (0.125**2 * (-0.125 * (1 - low) + 0.875 * low) + 0.625**2 * 0.375 * ((high - 1) + 1)) / 2
    assert policy.model.steepness[1, 0].item() == pytest.approx(4 - slope)


def test_networks_are_given_hidden_states_and_infos():
    policy, infos = by_hand().eval(), Batch(lives=np.array([3]))
    calls = calls_of(policy.model)
    policy.fraction_optim.param_groups[0]["lr"] = 0.0
    batch = Batch(obs=np.array([1]), act=np.array([0]), info=infos, returns=torch.tensor([[1.0, 0.0]]))
    policy(batch, "before")
    batch.state = torch.ones(1, 1)
    policy.learn(batch)
    assert [call["state"] for call in calls] == ["before", batch.state, batch.state]
    assert [call["info"] for call in calls] == [infos] * 3
    assert [call.get("fractions") is None for call in calls] == [True, True, False]
    taus, between, entropies = calls[2]["fractions"]  # the quantiles between the levels are asked for on their own
    assert (taus.tolist(), between.tolist(), entropies.tolist()) == ([[0.0, 0.25, 1.0]], [[0.25]], [0.75])


@pytest.mark.parametrize("mode", [True, False])
def test_a_forward_of_ones_own_is_given_the_sample(mode):
    policy = by_hand().train(mode)
    calls = forwarding(policy)
    batch = Batch(obs=np.array([1]), act=np.array([0]), info={}, returns=torch.tensor([[1.0, 0.0]]))
    batch.state = torch.ones(1, 1)
    policy.learn(batch)
    assert [call.args for call in calls] == [(batch, batch.state)] * (1 if mode else 2)


def test_a_model_without_a_parameter_for_fractions_learns_where_none_are_given():
    class Own(FullQuantileFunction):
        def forward(self, obs, propose_model, state=None, info=None):
            return super().forward(obs, propose_model, state=state)

    own, plain = (make("FQF", kind(Net(4, hidden_sizes=[8]), 2)) for kind in (Own, FullQuantileFunction))
    own.model.load_state_dict(plain.model.state_dict())
    own.fraction_model.load_state_dict(plain.fraction_model.state_dict())
    assert own.update(16, transitions()).loss == plain.update(16, transitions()).loss


def test_illegal_actions_are_not_chosen():
    obs = Batch(obs=np.array([0]), mask=np.array([[True, False]]))
    assert by_hand()(Batch(obs=obs, info={})).act.tolist() == [0]


def test_losses_are_means_over_rows():
    stats = []
    for rows in (1, 2):
        batch = Batch(obs=np.full(rows, 1), act=np.zeros(rows, int), info={})
        batch.returns = torch.tensor([[1.0, 0.0]] * rows)
        stats.append(by_hand(ent_coef=0.5).learn(batch).get_loss_stats_dict())
    assert stats[0] == pytest.approx(stats[1])


def test_the_network_of_fractions_has_an_optimizer_of_its_own():
    policy, buffer = make("FQF", target_update_freq=2), transitions()
    before = policy.fraction_model.net.weight.detach().clone()
    policy.update(16, buffer)
    assert not torch.equal(policy.fraction_model.net.weight, before)
    with pytest.warns(UserWarning, match="SGD has none of the 2 parameters of the network that it is given for"):
        other = make("FQF", fraction_optim=torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0))
    before = other.fraction_model.net.weight.detach().clone()
    other.update(16, buffer)
    assert torch.equal(other.fraction_model.net.weight, before)


def test_the_target_network_is_asked_at_the_levels_of_the_trained_one():
    policy = make("FQF", target_update_freq=1)
    calls = forwarding(policy)
    policy.update(4, transitions())
    seen = [call.result.fractions.taus for call in calls]
    assert len(seen) == 3
    assert torch.equal(seen[0], seen[1])
