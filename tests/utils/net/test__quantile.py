import math

import numpy as np
import pytest
import torch
from torch import nn

from rlfast.utils.net.common import Net, Recurrent
from rlfast.utils.net.discrete import (
    CosineEmbeddingNetwork,
    Critic,
    FractionProposalNetwork,
    Fractions,
    FullQuantileFunction,
    ImplicitQuantileNetwork,
)


def test_levels_are_embedded_by_cosines():
    network = CosineEmbeddingNetwork(2, 1)
    with torch.no_grad():
        network.net[0].weight.copy_(torch.tensor([[1.0, 10.0]]))
        network.net[0].bias.fill_(20.0)
    levels = torch.tensor([[0.0, 0.25], [0.5, 1.0]])
    expected = [20 + math.cos(math.pi * tau) + 10 * math.cos(2 * math.pi * tau) for tau in (0, 0.25, 0.5, 1)]
    assert network(levels).flatten().tolist() == pytest.approx(expected, abs=1e-5)
    assert network(levels).shape == (2, 2, 1)


def test_quantiles_of_each_row_at_levels_of_its_own():
    network = ImplicitQuantileNetwork(Net(4, hidden_sizes=[8]), 3, hidden_sizes=[7], num_cosines=5)
    obs, taus = np.random.default_rng(0).normal(size=(2, 4)), torch.rand(2, 6)
    (quantiles, given), state = network(obs, 6, state="carried", taus=taus, info={})
    assert quantiles.shape == (2, 3, 6)
    assert given is taus
    assert state == "carried"
    features, _ = network.preprocess(obs)
    for row in range(2):
        for i in range(6):
            expected = network.last((features[row] * network.embed_model(taus[row, i].view(1, 1)))[0])
            assert quantiles[row, :, i].tolist() == pytest.approx(expected[0].tolist(), abs=1e-5)


def test_levels_are_drawn_from_torchs_stream():
    network = ImplicitQuantileNetwork(Net(4, hidden_sizes=[8]), 3)
    torch.manual_seed(1)
    (_, taus), _ = network(torch.zeros(5, 4), sample_size=7)
    torch.manual_seed(1)
    assert torch.equal(taus, torch.rand(5, 7))


def test_proposed_levels_by_hand():
    network = FractionProposalNetwork(3, 1)
    with torch.no_grad():
        network.net.weight.copy_(torch.tensor([[0.0], [math.log(2)], [0.0]]))
    taus, tau_hats, entropies = network(torch.ones(2, 1))
    assert taus.tolist() == [pytest.approx([0.0, 0.25, 0.75, 1.0])] * 2
    assert tau_hats.tolist() == [pytest.approx([0.125, 0.5, 0.875])] * 2
    assert entropies.tolist() == pytest.approx([1.5 * math.log(2)] * 2)
    assert not tau_hats.requires_grad
    taus[:, 1].sum().backward()
    assert network.net.weight.grad.abs().sum() > 0
    assert FractionProposalNetwork(4, 2).net.weight.abs().max() < 0.02


def test_quantiles_at_proposed_levels():
    network, proposals = FullQuantileFunction(Net(4, hidden_sizes=[8]), 2), FractionProposalNetwork(3, 8)
    obs = torch.randn(5, 4)
    (quantiles, fractions, inner), _ = network(obs, propose_model=proposals)
    features, _ = network.preprocess(obs)
    assert torch.equal(quantiles, network.quantiles(features, fractions.tau_hats))
    assert torch.equal(inner, network.quantiles(features, fractions.taus[:, 1:-1]))
    assert not inner.requires_grad
    given = Fractions(torch.rand(5, 5), torch.rand(5, 4), torch.zeros(5))
    (quantiles, fractions, _), _ = network(obs, propose_model=proposals, fractions=given)
    assert fractions is given
    assert quantiles.shape == (5, 2, 4)
    assert network.eval()(obs, proposals)[0][2] is None


def test_features_are_not_moved_by_what_proposes():
    network, proposals = FullQuantileFunction(Net(4, hidden_sizes=[8]), 2), FractionProposalNetwork(3, 8)
    (_, fractions, _), _ = network(torch.randn(5, 4), proposals)
    fractions.taus[:, 1].sum().backward()
    assert network.preprocess.model.model[0].weight.grad is None


@pytest.mark.parametrize("kind", [ImplicitQuantileNetwork, FullQuantileFunction])
def test_parameter_names_match_tianshou(kind):
    backbone = ["preprocess.model.model.0.weight", "preprocess.model.model.0.bias"]
    head = ["last.model.0.weight", "last.model.0.bias", "embed_model.net.0.weight", "embed_model.net.0.bias"]
    assert [*kind(Net(4, hidden_sizes=[8]), 2).state_dict()] == backbone + head
    with pytest.raises(ValueError, match="Flatten has no output_dim"):
        kind(nn.Flatten(), 2)
    assert kind(nn.Flatten(), 2, preprocess_net_output_dim=4).input_dim == 4


def test_a_recurrent_backbone_hands_its_state_on():
    network = ImplicitQuantileNetwork(Recurrent(1, 4, 6, hidden_layer_size=5), 2)
    _, state = network(torch.randn(2, 4), 3)
    assert state["hidden"].shape == (2, 1, 5)


@pytest.mark.parametrize("kind", [ImplicitQuantileNetwork, FullQuantileFunction])
def test_a_network_of_quantiles_is_a_critic(kind):
    assert isinstance(kind(Net(4, hidden_sizes=[8]), 3), Critic)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_levels_and_features_of_other_dtype(dtype):
    network, proposals = FullQuantileFunction(Net(4, hidden_sizes=[8]), 2), FractionProposalNetwork(5, 8)
    for one in (network, proposals):
        obs = torch.zeros(3, 4)
        (expected, fractions, _), _ = network(obs, proposals)
        one.to(dtype)
        (quantiles, levels, inner), _ = network(obs, proposals)
        assert quantiles.dtype == inner.dtype == network.last.model[0].weight.dtype
        assert levels.taus.dtype == proposals.net.weight.dtype
        torch.testing.assert_close(quantiles.double(), expected.double(), atol=0.05, rtol=0.05)
        torch.testing.assert_close(levels.taus.double(), fractions.taus.double(), atol=0.01, rtol=0)


def test_cosines_are_as_exact_as_the_levels():
    embedding, taus = CosineEmbeddingNetwork(64, 8), torch.rand(3, 5)
    expected = embedding(taus)
    torch.testing.assert_close(embedding.bfloat16()(taus).float(), expected, atol=0.02, rtol=0.02)
