import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call

from rlfast.utils.net import common
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import Critic
from rlfast.utils.net.ensemble import (
    BatchRenorm,
    EnsembleLayerNorm,
    EnsembleLinear,
    UnitLinear,
    ensemble_size_of,
    members_of,
    project_weights,
)


def critics(size=3, layer=EnsembleLinear, **options):
    torch.manual_seed(0)
    net = Net(4, 2, hidden_sizes=[8, 8], concat=True, linear_layer=lambda i, o: layer(size, i, o))
    return Critic(net, linear_layer=lambda i, o: EnsembleLinear(size, i, o), flatten_input=False, **options)


class TestEnsembleLinear:
    @pytest.mark.parametrize("bias", [True, False])
    def test_each_member_is_a_linear_layer(self, bias):
        layer = EnsembleLinear(3, 4, 2, bias=bias)
        x, own = torch.randn(5, 4), torch.randn(3, 5, 4)
        assert layer(x).shape == (3, 5, 2)
        for i in range(3):
            offset = layer.bias_weights[i, 0] if bias else 0
            torch.testing.assert_close(layer(x)[i], x @ layer.weight[i] + offset)
            torch.testing.assert_close(layer(own)[i], own[i] @ layer.weight[i] + offset)
        assert (layer.bias_weights is None) is not bias

    def test_inputs_of_other_shapes_broadcast(self):
        layer = EnsembleLinear(3, 4, 2)
        row, deep = torch.randn(4), torch.randn(2, 3, 5, 4)
        torch.testing.assert_close(layer(row), row @ layer.weight + layer.bias_weights)
        torch.testing.assert_close(layer(deep), deep @ layer.weight + layer.bias_weights)
        torch.testing.assert_close(layer(deep[:1, :1, 0]), layer(deep[0, 0, :1])[:, :1])

    def test_it_begins_as_tianshous_does(self):
        torch.manual_seed(0)
        layer = EnsembleLinear(3, 16, 2)
        torch.manual_seed(0)
        bound = np.sqrt(1 / 16)
        assert torch.equal(layer.weight, torch.rand(3, 16, 2) * 2 * bound - bound)
        assert torch.equal(layer.bias_weights, torch.rand(3, 1, 2) * 2 * bound - bound)
        before = layer.weight.detach().clone()
        layer.reset_parameters()
        assert not torch.equal(layer.weight, before)
        assert layer.weight.abs().max() <= 0.25

    def test_its_place_and_face(self):
        assert common.EnsembleLinear is EnsembleLinear
        assert "3, 4, 2, bias=False" in repr(EnsembleLinear(3, 4, 2, bias=False))
        with pytest.raises(ValueError, match="ensemble_size must be at least 1, got 0"):
            EnsembleLinear(0, 4, 2)


def test_layer_norm_of_each_member():
    layer, x = EnsembleLayerNorm(3, 4), torch.randn(3, 5, 4)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(3, 1, 4))
        layer.bias.copy_(torch.randn(3, 1, 4))
    for i in range(3):
        wanted = nn.functional.layer_norm(x[i], (4,), layer.weight[i, 0], layer.bias[i, 0])
        torch.testing.assert_close(layer(x)[i], wanted)
        assert torch.equal(layer(x[0])[i], layer(x[0].expand(3, 5, 4))[i])
    layer.reset_parameters()
    torch.testing.assert_close(layer(x), nn.functional.layer_norm(x, (4,)))


class TestBatchRenorm:
    def test_batch_normalization_at_first(self):
        layer, theirs = BatchRenorm(4), nn.BatchNorm1d(4, eps=0.001, momentum=0.01)
        x = 3 * torch.randn(7, 4) + 2
        torch.testing.assert_close(layer(x), theirs(x))
        torch.testing.assert_close(layer.running_mean, theirs.running_mean)
        torch.testing.assert_close(layer.running_var, 0.99 + 0.01 * x.var(dim=0, correction=0))
        assert layer.steps.item() == 1

    def test_renormalization_after_the_warmup_by_hand(self):
        layer = BatchRenorm(1, eps=1e-12, r_max=2.0, d_max=0.5, warmup_steps=1)
        with torch.no_grad():
            layer.weight.fill_(10.0)
            layer.bias.fill_(1.0)
        x = torch.tensor([[0.0], [2.0]])  # mean 1, deviation 1
        assert layer(x).flatten().tolist() == pytest.approx([1 - 10, 1 + 10])
        layer.running_mean.fill_(0.75)
        layer.running_var.fill_(1 / 2.25)
        # r = 1.5 and d = (1 - 0.75) * 1.5
        assert layer(x).flatten().tolist() == pytest.approx([1 + 10 * (-1.5 + 0.375), 1 + 10 * (1.5 + 0.375)])
        layer.running_mean.fill_(-9.0)
        layer.running_var.fill_(0.01)  # beyond both limits
        assert layer(x).flatten().tolist() == pytest.approx([1 + 10 * (-2.0 + 0.5), 1 + 10 * (2.0 + 0.5)])
        layer.running_mean.fill_(9.0)
        layer.running_var.fill_(100.0)
        assert layer(x).flatten().tolist() == pytest.approx([1 + 10 * (-0.5 - 0.5), 1 + 10 * (0.5 - 0.5)])

    def test_limits_get_no_gradient(self):
        layer = BatchRenorm(1, warmup_steps=0)
        x = torch.tensor([[0.0], [2.0]], requires_grad=True)
        (layer(x) * torch.tensor([[1.0], [3.0]])).sum().backward()
        plain = torch.tensor([[0.0], [2.0]], requires_grad=True)
        normal = (plain - plain.mean()) / (plain.var(correction=0) + 0.001).sqrt()
        (normal * torch.tensor([[1.0], [3.0]])).sum().backward()
        torch.testing.assert_close(x.grad, plain.grad)

    def test_averages_normalize_in_evaluation(self):
        layer = BatchRenorm(2).eval()
        layer.running_mean.copy_(torch.tensor([1.0, 2.0]))
        layer.running_var.fill_(4.0 - 0.001)
        assert layer(torch.tensor([[3.0, 0.0]])).tolist() == [pytest.approx([1.0, -1.0])]
        assert layer.steps.item() == 0
        assert layer.running_mean.tolist() == [1.0, 2.0]

    def test_members_have_averages_of_their_own(self):
        layer, x = BatchRenorm(4, 3, warmup_steps=1), torch.randn(3, 5, 4)
        alone = [BatchRenorm(4, warmup_steps=1) for _ in range(3)]
        for factor in (1.0, 2.0):
            wanted = torch.stack([one(factor * x[i]) for i, one in enumerate(alone)])
            torch.testing.assert_close(layer(factor * x), wanted)
        torch.testing.assert_close(layer.running_mean[:, 0], torch.stack([one.running_mean for one in alone]))
        torch.testing.assert_close(layer.eval()(x), torch.stack([one.eval()(x[i]) for i, one in enumerate(alone)]))
        assert layer.train()(x[0]).shape == (3, 5, 4)
        layer.reset_parameters()
        assert (layer.steps.item(), layer.running_mean.abs().max().item(), layer.running_var.max().item()) == (0, 0, 1)


class TestUnitLinear:
    def test_forward_by_hand(self):
        layer = UnitLinear(2, 1)
        with torch.no_grad():
            layer.weight.copy_(torch.tensor([[3.0], [4.0]]))
        assert layer(torch.tensor([[1.0, 2.0]])).item() == 11.0
        project_weights(nn.Sequential(nn.Linear(2, 2), layer))
        torch.testing.assert_close(layer.weight, torch.tensor([[0.6], [0.8]]))
        assert layer(torch.tensor([[1.0, 2.0]])).item() == pytest.approx(2.2)

    @pytest.mark.parametrize("bias", [False, True])
    @pytest.mark.parametrize("shape", [(5, 4), (3, 5, 4)])
    def test_members_are_those_of_single_layers(self, shape, bias):
        layer, single = UnitLinear(4, 2, 3, bias), UnitLinear(4, 2, bias=bias)
        if bias:
            assert not layer.bias_weights.any()
            nn.init.normal_(layer.bias_weights)
        x = torch.randn(shape)
        before = layer(x)
        project_weights(layer)  # leaves biases as they are
        torch.testing.assert_close(layer(x), before)
        for i in range(3):
            with torch.no_grad():
                single.weight.copy_(layer.weight[i])
                if bias:
                    single.bias_weights.copy_(layer.bias_weights[i])
            torch.testing.assert_close(before[i], single(x if x.dim() == 2 else x[i]))
        layer.reset_parameters()
        assert not bias or not layer.bias_weights.any()

    def test_weights_of_each_output_have_norm_one(self):
        for size in (None, 3):
            layer = UnitLinear(4, 2, size)
            torch.testing.assert_close(layer.weight.square().sum(dim=-2), torch.ones((*layer.weight.shape[:-2], 2)))
            with torch.no_grad():
                layer.weight.mul_(7)
            before = layer.weight.detach().clone()
            layer.project()
            torch.testing.assert_close(layer.weight, before / before.norm(dim=-2, keepdim=True))
            layer.reset_parameters()
            assert not torch.allclose(layer.weight * before.norm(dim=-2, keepdim=True), before)

    def test_zero_weights_stay_finite(self):
        layer = UnitLinear(4, 2)
        nn.init.zeros_(layer.weight)
        layer.project()
        assert layer.weight.isfinite().all()


class TestMembers:
    @pytest.mark.parametrize(
        "layer",
        [
            EnsembleLinear,
            lambda m, i, o: nn.Sequential(EnsembleLinear(m, i, o), EnsembleLayerNorm(m, o)),
            lambda m, i, o: nn.Sequential(BatchRenorm(i, m), EnsembleLinear(m, i, o)),
            lambda m, i, o: UnitLinear(i, o, m),
            lambda m, i, o: nn.Sequential(BatchRenorm(i) if i == 6 else nn.Identity(), EnsembleLinear(m, i, o)),
        ],
    )
    def test_some_give_what_they_give_among_all(self, layer):
        ensemble = critics(5, layer).eval()
        obs, act, chosen = torch.randn(7, 4), torch.randn(7, 2), torch.tensor([4, 1])
        some = functional_call(ensemble, members_of(ensemble, chosen), (obs, act))
        torch.testing.assert_close(some, ensemble(obs, act)[chosen])

    def test_what_is_shared_stays(self):
        shared = nn.Sequential(nn.Linear(4, 4), EnsembleLinear(5, 4, 1))
        assert {*members_of(shared, torch.tensor([0]))} == {"1.weight", "1.bias_weights"}

    def test_sizes(self):
        assert ensemble_size_of(critics(5)) == 5
        assert ensemble_size_of(nn.Linear(2, 2)) is None


def test_a_critic_of_several_values():
    assert critics(3, output_dim=25)(np.zeros((5, 4)), np.zeros((5, 2))).shape == (3, 5, 25)
    assert Critic(Net(4, 2, hidden_sizes=[8], concat=True), output_dim=7)(np.zeros((5, 4)), np.zeros((5, 2))).shape == (
        5,
        7,
    )
