from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

from rlfast.data import Batch
from rlfast.utils.net import continuous, discrete
from rlfast.utils.net.atari import NatureCNN
from rlfast.utils.net.common import (
    MLP,
    DataParallelNet,
    EnsembleLinear,
    Net,
    NetBase,
    RandomActor,
    Recurrent,
    RunningNorm,
    SimbaNet,
    get_dict_state_decorator,
    getattr_with_matching_alt_value,
    miniblock,
)
from rlfast.utils.net.ensemble import EnsembleLayerNorm


def kinds(module):
    return [type(layer) for layer in module.model]


class TestMLP:
    def test_its_layers(self):
        mlp = MLP(3, 2, hidden_sizes=[5, 4])
        assert kinds(mlp) == [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear]
        assert [(layer.in_features, layer.out_features) for layer in mlp.model[::2]] == [(3, 5), (5, 4), (4, 2)]
        assert mlp.output_dim == 2
        assert MLP(3, hidden_sizes=[5, 4]).output_dim == 4
        assert MLP(3).output_dim == 3

    def test_shapes_may_be_arrays(self):
        shape = np.array([2, 3])
        assert Net(shape, shape, hidden_sizes=[4])(np.zeros((5, 2, 3)))[0].shape == (5, 6)
        assert Recurrent(1, shape, np.array(3))(np.zeros((5, 6)))[0].shape == (5, 3)
        assert discrete.Actor(Net(shape, hidden_sizes=[4]), np.array([3])).output_dim == 3

    def test_one_option_for_all_layers_or_one_for_each(self):
        mlp = MLP(
            3,
            hidden_sizes=[5, 4],
            norm_layer=nn.LayerNorm,
            norm_args={"eps": 0.5},
            activation=[nn.LeakyReLU, nn.Tanh],
            act_args=[(0.3,), {}],
        )
        assert kinds(mlp) == [nn.Linear, nn.LayerNorm, nn.LeakyReLU, nn.Linear, nn.LayerNorm, nn.Tanh]
        assert mlp.model[4].normalized_shape == (4,)
        assert mlp.model[4].eps == 0.5
        assert mlp.model[2].negative_slope == 0.3
        assert kinds(MLP(3, hidden_sizes=[5, 4], norm_layer=(None, nn.LayerNorm), activation=None)) == [
            nn.Linear,
            nn.Linear,
            nn.LayerNorm,
        ]

    def test_an_option_for_each_layer_must_be_complete(self):
        with pytest.raises(ValueError, match="activation has 1 entries for 2 hidden layers"):
            MLP(3, hidden_sizes=[5, 4], activation=[nn.ReLU])

    def test_another_linear_layer(self):
        mlp = MLP(3, 2, hidden_sizes=[5], linear_layer=lambda i, o: nn.Linear(i, o, bias=False))
        assert [name for name, _ in mlp.named_parameters()] == ["model.0.weight", "model.2.weight"]

    @pytest.mark.parametrize("obs", [np.zeros((6, 2, 3), np.uint8), torch.zeros(6, 2, 3, dtype=torch.float64)])
    def test_flattens_to_float32(self, obs):
        out = MLP(6, 2)(obs)
        assert out.shape == (6, 2)
        assert out.dtype == torch.float32

    def test_scalar_observations_and_unchanged_inputs(self):
        assert MLP(1, 2)(np.arange(5)).shape == (5, 2)
        assert MLP(3, 2, flatten_input=False)(np.zeros((5, 4, 3))).shape == (5, 4, 2)

    def test_without_layers_it_passes_on(self):
        assert MLP(3)(np.ones((2, 3))).tolist() == [[1.0] * 3] * 2

    def test_the_input_follows_the_parameters(self):
        mlp = MLP(3, 2, device="meta")
        assert mlp(np.zeros((4, 3))).device.type == "meta"
        mlp = MLP(3, 2).to("meta")
        assert mlp(np.zeros((4, 3))).device.type == "meta"


def test_networks_report_device():
    assert Net(3, 2).to("meta").device == torch.device("meta") == MLP(3, 2, device="meta").device

    class Own(Net):
        def __init__(self):
            super().__init__(3, 2)
            self.device = "here"

    assert Own().device == "here"


def test_miniblock():
    assert [type(m) for m in miniblock(2, 3, nn.LayerNorm, (1e-3,), nn.LeakyReLU, {"negative_slope": 0.1})] == [
        nn.Linear,
        nn.LayerNorm,
        nn.LeakyReLU,
    ]


class TestNet:
    def test_action_values_and_state(self):
        net = Net((2, 3), 4, hidden_sizes=[8])
        logits, state = net(np.zeros((5, 2, 3)), state="anything", info={})
        assert logits.shape == (5, 4)
        assert state == "anything"
        assert net.output_dim == 4

    def test_shapes_may_be_numbers(self):
        assert Net(6, np.int64(4))(np.zeros((5, 6)))[0].shape == (5, 4)
        assert Net((), (2, 2))(np.zeros(5))[0].shape == (5, 4)

    def test_without_actions_it_gives_features(self):
        net = Net(6, hidden_sizes=[8])
        assert net(np.zeros((5, 6)))[0].shape == (5, 8)
        assert net.output_dim == 8

    def test_atoms_and_softmax(self):
        net = Net(6, 4, hidden_sizes=[8], num_atoms=3, softmax=True)
        logits, _ = net(np.random.rand(5, 6))
        assert logits.shape == (5, 4, 3)
        assert torch.allclose(logits.sum(-1), torch.ones(5, 4))

    def test_concat_takes_the_action_in(self):
        net = Net(6, 2, hidden_sizes=[8, 7], concat=True)
        assert net(np.zeros((5, 8)))[0].shape == (5, 7)
        assert net.output_dim == 7

    @pytest.mark.parametrize("num_atoms", [1, 3])
    def test_dueling_is_value_plus_centred_advantage(self, num_atoms):
        q_param, v_param = {"hidden_sizes": [5]}, {"hidden_sizes": [4]}
        net = Net(6, 2, hidden_sizes=[8], num_atoms=num_atoms, dueling_param=(q_param, v_param))
        obs = np.random.rand(3, 6)
        features = net.model(obs)
        advantage = net.Q(features).view(3, 2, num_atoms)
        value = net.V(features).view(3, 1, num_atoms)
        expected = value + advantage - (advantage[:, :1] + advantage[:, 1:]) / 2
        assert torch.allclose(net(obs)[0].reshape(3, 2, num_atoms), expected)
        assert (q_param, v_param) == ({"hidden_sizes": [5]}, {"hidden_sizes": [4]})
        assert net.output_dim == 2 * num_atoms

    def test_dueling_with_concat_gives_features(self):
        net = Net(6, 2, hidden_sizes=[8], concat=True, dueling_param=({"hidden_sizes": [5]}, {"hidden_sizes": [5]}))
        assert net(np.zeros((3, 8)))[0].shape == (3, 5)

    def test_parameter_names_match_tianshou(self):
        net = Net(6, 2, hidden_sizes=[8], dueling_param=({}, {}))
        assert [*net.state_dict()] == [
            f"{part}.{kind}" for part in ("model.model.0", "Q.model.0", "V.model.0") for kind in ("weight", "bias")
        ]

    def test_the_whole_network_moves(self):
        net = Net(6, 2, hidden_sizes=[8], dueling_param=({}, {}), device="meta")
        assert {parameter.device.type for parameter in net.parameters()} == {"meta"}
        assert net(np.zeros((3, 6)))[0].device.type == "meta"


@pytest.mark.parametrize("kind", [Net, Recurrent, NetBase])
def test_networks_say_what_their_state_is(kind):
    class Mine(kind[Any]):
        def forward(self, obs, state=None, **kwargs):
            return obs, state

    assert issubclass(Mine, kind)


def test_a_network_with_a_named_state_can_be_made():
    assert Net[dict](4, 2)(np.zeros((3, 4)))[0].shape == (3, 2)


def test_decorated_networks_take_dicts():
    decorate, size = get_dict_state_decorator({"a": (2, 2), "b": 3}, ["b", "a"])
    assert size == 7
    net = decorate(Net)(size, 2, hidden_sizes=[8])
    obs = {"a": np.arange(8.0).reshape(2, 2, 2), "b": np.arange(6.0).reshape(2, 3), "unused": np.zeros(2)}
    flat = np.concatenate([obs["b"], obs["a"].reshape(2, 4)], axis=1)
    expected = net(flat)[0]
    assert torch.equal(net(obs, state=None)[0], expected)
    assert torch.equal(net(Batch(obs), info={})[0], expected)
    assert type(net).__name__ == "Net"


def test_decorated_networks_take_a_single_observation():
    decorate, _ = get_dict_state_decorator({"a": [2], "b": [1]}, ["a", "b"])
    identity = decorate(type("Identity", (torch.nn.Module,), {"forward": lambda self, obs: obs}))()
    assert identity({"a": np.array([1.0, 2.0]), "b": np.array([3.0])}).tolist() == [1.0, 2.0, 3.0]


def test_an_attribute_or_its_stand_in():
    class Thing:
        size, none = 3, None

    assert getattr_with_matching_alt_value(Thing, "size", None) == 3
    assert getattr_with_matching_alt_value(Thing, "size", 3) == 3
    assert getattr_with_matching_alt_value(Thing, "none", 4) == 4
    with pytest.raises(ValueError, match="is 3, which is not 4"):
        getattr_with_matching_alt_value(Thing, "size", 4)
    with pytest.raises(ValueError, match="no default was given"):
        getattr_with_matching_alt_value(Thing, "none", None)


def test_a_random_actor_looks_at_nothing():
    space = Box(-2, 2, (3,), seed=0)
    actor = RandomActor(space)
    act, state = actor(np.zeros((5, 4)), state="carried")
    assert act.shape == (5, 3)
    assert all(space.contains(a) for a in act)
    assert len(np.unique(act)) == 15
    assert state == "carried"
    assert not actor.is_discrete
    assert actor.get_output_dim() == 3
    assert actor.compute_action_batch(np.zeros((5, 4))).shape == (5, 3)
    numbered = RandomActor(Discrete(4))
    assert numbered.is_discrete
    assert numbered(np.zeros((2, 3)))[0].tolist() == [[0.25] * 4] * 2
    assert set(numbered.compute_action_batch(np.zeros(200))) == {0, 1, 2, 3}


DOUBLES = {
    "mlp": (lambda: MLP(4, 2, [8]), (3, 4)),
    "net": (lambda: Net(4, 2, [8], dueling_param=({}, {})), (3, 4)),
    "recurrent": (lambda: Recurrent(1, 4, 2, hidden_layer_size=8), (3, 4)),
    "parallel": (lambda: DataParallelNet(Net(4, 2, [8])), (3, 4)),
    "cnn": (lambda: NatureCNN(1, 36, 36, 2), (3, 1, 36, 36)),
    "discrete actor": (lambda: discrete.Actor(Net(4, hidden_sizes=[8]), 2), (3, 4)),
    "discrete critic": (lambda: discrete.Critic(Net(4, hidden_sizes=[8])), (3, 4)),
    "actor": (lambda: continuous.Actor(Net(4, hidden_sizes=[8]), 2), (3, 4)),
    "critic": (lambda: continuous.Critic(Net(4, hidden_sizes=[8])), (3, 4)),
    "normal actor": (lambda: continuous.ActorProb(Net(4, hidden_sizes=[8]), 2, conditioned_sigma=True), (3, 4)),
    "recurrent actor": (lambda: continuous.RecurrentActorProb(1, (4,), (2,)), (3, 4)),
    "recurrent critic": (lambda: continuous.RecurrentCritic(1, (4,)), (3, 4)),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("obs_dtype", [np.float32, np.float64, np.uint8])
@pytest.mark.parametrize("name", DOUBLES)
def test_networks_compute_in_parameter_dtype(name, obs_dtype, dtype):
    make, shape = DOUBLES[name]
    module, obs = make().to(dtype), np.ones(shape, obs_dtype)
    if dtype == torch.bfloat16 and "recurrent" in name:
        pytest.skip("torch's memory has no such kernel on every processor")
    out = module(obs)
    while isinstance(out, tuple):
        out = out[0]
    assert out.dtype == dtype
    obs_as_tensor = module(torch.as_tensor(obs))
    while isinstance(obs_as_tensor, tuple):
        obs_as_tensor = obs_as_tensor[0]
    assert torch.equal(out, obs_as_tensor)


def test_a_critic_of_actions_in_double_precision():
    critic = continuous.Critic(Net(4, 2, [8], concat=True)).double()
    assert critic(np.ones((3, 4), np.float32), torch.ones(3, 2)).dtype == torch.float64


def test_parameters_that_are_no_floats_do_not_count():
    mlp = MLP(2, 2)
    mlp.model.insert(0, nn.Identity())
    mlp.model[0].mask = nn.Parameter(torch.ones(2, dtype=torch.int64), requires_grad=False)
    assert mlp(np.ones((1, 2))).dtype == torch.float32


class TestRunningNorm:
    def test_first_samples_count_the_same(self):
        norm, x = RunningNorm(2), torch.randn(3, 8, 2) * 5 + 3
        for sample in x:
            norm.update(sample)
        rows = x.flatten(0, 1)
        torch.testing.assert_close(norm.mean, rows.mean(dim=0))
        torch.testing.assert_close(norm.var, rows.var(dim=0, correction=0))
        scaled = norm(rows)
        torch.testing.assert_close(scaled.mean(dim=0), torch.zeros(2), atol=1e-5, rtol=0)
        torch.testing.assert_close(scaled.var(dim=0, correction=0), torch.ones(2), atol=1e-4, rtol=0)

    def test_later_ones_move_it_by_the_momentum(self):
        norm = RunningNorm(1, momentum=0.25, eps=0.5)
        for _ in range(9):
            norm.update(torch.tensor([[0.0]]))
        norm.update(np.array([[4.0], [8.0]]))
        assert norm.mean.item() == 1.5
        assert norm.var.item() == 0.25 * 4 + 0.25 * 0.75 * 36
        assert norm(torch.tensor([[2.5]])).item() == pytest.approx((7.75 + 0.5) ** -0.5)

    def test_reset(self):
        norm = RunningNorm(2)
        norm.update(np.full((3, 2), 5.0))
        norm.reset_parameters()
        assert norm(torch.full((1, 2), 7.0)).round(decimals=2).tolist() == [[7.0, 7.0]]
        norm.update(np.full((3, 1, 2), 5.0))  # the axes of an observation are flattened
        assert norm.mean.tolist() == [5.0, 5.0]

    def test_it_needs_an_array(self):
        with pytest.raises(TypeError, match="one array, got a Batch"):
            RunningNorm(2).update(Batch(a=np.zeros((3, 2))))


class TestSimbaNet:
    def test_forward_by_hand(self):
        net = SimbaNet(2, hidden_sizes=[3, 3])
        obs = torch.randn(5, 2)
        net.norm.update(torch.tensor([[1.0, 5.0], [3.0, 5.5]]))
        x = (obs - torch.tensor([2.0, 5.25])) / (torch.tensor([1.0, 0.0625]) + 1e-5).sqrt()
        x = x @ net.first.weight.T + net.first.bias
        for block in net.blocks:
            norm, up, _, down = block
            assert up.weight.shape == (12, 3)
            y = (x - x.mean(dim=1, keepdim=True)) / (x.var(dim=1, correction=0, keepdim=True) + 1e-5).sqrt()
            y = (y * norm.weight + norm.bias) @ up.weight.T + up.bias
            x = x + y.clamp(min=0) @ down.weight.T + down.bias
        y = (x - x.mean(dim=1, keepdim=True)) / (x.var(dim=1, correction=0, keepdim=True) + 1e-5).sqrt()
        torch.testing.assert_close(net(obs)[0], y)
        assert net(obs.numpy(), state="s")[1] == "s"

    def test_actions_are_not_normalized(self):
        net = SimbaNet(2, 1, hidden_sizes=[3], concat=True)
        net.norm.update(torch.randn(9, 2) + 5)
        seen = []
        net.first.register_forward_hook(lambda _, given, __: seen.append(given[0]))
        x = torch.randn(4, 3)
        net(x)
        torch.testing.assert_close(seen[0], torch.cat([net.norm(x[:, :2]), x[:, 2:]], dim=1))

    def test_members_of_an_ensemble_are_those_of_single_networks(self):
        linear, norm = lambda i, o: EnsembleLinear(2, i, o), lambda size: EnsembleLayerNorm(2, size)
        net, x = SimbaNet(2, hidden_sizes=[3, 3], linear_layer=linear, norm_layer=norm), torch.randn(5, 2)
        for i in range(2):
            one = SimbaNet(2, hidden_sizes=[3, 3])
            for mine, theirs in zip(one.parameters(), net.parameters(), strict=True):
                part = theirs[i].squeeze(0) if mine.dim() == 1 else theirs[i].T
                mine.data.copy_(part)
            torch.testing.assert_close(net(x)[0][i], one(x)[0])

    @pytest.mark.parametrize("sizes", [[], [8, 6]])
    def test_it_has_one_width(self, sizes):
        with pytest.raises(ValueError, match="hidden_sizes of SimbaNet are one width"):
            SimbaNet(2, hidden_sizes=sizes)
