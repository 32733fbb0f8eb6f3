"""Networks in Rust against torch."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from rlfast._core import Network
from rlfast.policy.native.layers import Layers
from rlfast.utils.net import discrete
from rlfast.utils.net.common import Net, Recurrent
from rlfast.utils.runtime.native import NotNativeError

ACTIVATIONS = [nn.ReLU, nn.Tanh, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Sigmoid, None]


def compiled(module: nn.Module) -> Network:
    layers = Layers()
    layers.call_network(module, 0)
    return layers.network()


@st.composite
def networks(draw) -> nn.Module:
    torch.manual_seed(draw(st.integers(0, 2**32)))
    hidden = draw(st.lists(st.integers(1, 130), max_size=3))
    options = {"hidden_sizes": hidden, "activation": draw(st.sampled_from(ACTIVATIONS))}
    shape = draw(st.sampled_from([3, (4,), (2, 3), 40]))
    actions = draw(st.integers(1, 9))
    kind = draw(st.sampled_from(["plain", "dueling", "softmax", "actor"]))
    if kind == "dueling":
        stream = {"hidden_sizes": draw(st.lists(st.integers(1, 40), max_size=2))}
        return Net(shape, actions, **options, dueling_param=(stream, stream))
    if kind == "actor":
        return discrete.Actor(Net(shape, **options), actions, draw(st.lists(st.integers(1, 40), max_size=1)),
                              softmax_output=draw(st.booleans()))  # fmt: skip
    return Net(shape, actions, **options, softmax=kind == "softmax")


@settings(max_examples=60, deadline=None)
@given(
    module=networks(),
    rows=st.sampled_from([0, 1, 2, 7, 8, 9, 16, 17, 40, 300]),
    dtype=st.sampled_from(["f4", "f8", "i8", "?"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_outputs_and_choices_are_those_of_torch(module, rows, dtype, seed):
    size = next(layer for layer in module.modules() if isinstance(layer, nn.Linear)).in_features
    obs = (np.random.default_rng(seed).normal(size=(rows, size)) * 2).astype(dtype)
    network = compiled(module)
    with torch.no_grad():
        wanted = module(obs)[0].numpy()
    found = network.forward(obs, [network_slots(module)])[0]
    assert found.shape == wanted.shape
    assert found.dtype == np.float32
    assert (abs(found - wanted) <= 1e-6 * max(abs(wanted).max(initial=0), 0.5)).all()
    chosen = network.choose(obs)
    if chosen is not None:
        assert chosen.dtype == np.int64
        assert np.array_equal(chosen, wanted.argmax(1))
        assert [network.choose_one(row) for row in obs] == chosen.tolist()


@st.composite
def distributions(draw) -> tuple[nn.Module, nn.Module | None, int]:
    """A network of several numbers for each action, the module of the returns whose probabilities they are, and how
    many there are."""
    torch.manual_seed(draw(st.integers(0, 2**32)))
    layer = draw(st.sampled_from([nn.Linear, discrete.NoisyLinear]))
    stream = {"hidden_sizes": draw(st.lists(st.integers(1, 40), max_size=1)), "linear_layer": layer}
    atoms, has_values = draw(st.sampled_from([2, 3, 51, 200])), draw(st.booleans())
    net = Net(4, draw(st.integers(1, 6)), draw(st.lists(st.integers(1, 130), max_size=2)), num_atoms=atoms,
              softmax=has_values, linear_layer=layer,
              dueling_param=(stream, stream) if draw(st.booleans()) else None)  # fmt: skip
    low, high = draw(st.sampled_from([(-10.0, 10.0), (0.0, 200.0)]))
    support = nn.ParameterDict({"support": nn.Parameter(torch.linspace(low, high, atoms), requires_grad=False)})
    return net.train(draw(st.booleans())), support if has_values else None, atoms


@settings(max_examples=60, deadline=None)
@given(made=distributions(), rows=st.sampled_from([0, 1, 8, 9, 40]), seed=st.integers(0, 2**32 - 1))
def test_expected_returns_and_choices_are_those_of_torch(made, rows, seed):
    net, values, atoms = made
    obs = (np.random.default_rng(seed).normal(size=(rows, 4)) * 2).astype("f4")
    layers = Layers()
    slot = layers.call_atoms(net, 0, atoms, None if values is None else (values, "support"))
    network = layers.network()
    with torch.no_grad():
        output = net(obs)[0]
        wanted = output.mean(2) if values is None else (output * values["support"]).sum(2)
    found = network.forward(obs, [slot])[0]
    size = abs(wanted.numpy()).max(initial=0) if values is None else float(values["support"][-1])
    assert found.shape == wanted.shape
    assert (abs(found - wanted.numpy()) <= 2e-6 * max(size, 0.5)).all()
    chosen = network.choose(obs)
    if chosen is not None:
        assert np.array_equal(chosen, wanted.argmax(1))


def test_new_noise_is_seen_at_once():
    torch.manual_seed(0)
    model = Net(4, 3, [16], linear_layer=discrete.NoisyLinear)
    network, obs = compiled(model), np.ones((2, 4), np.float32)
    before = network.forward(obs, [network_slots(model)])[0]
    for layer in model.modules():
        if isinstance(layer, discrete.NoisyLinear):
            layer.sample()
    with torch.no_grad():
        wanted = model(obs)[0].numpy()
    np.testing.assert_allclose(network.forward(obs, [network_slots(model)])[0], wanted, rtol=1e-5)
    assert abs(before - wanted).max() > 1e-3


def network_slots(module: nn.Module) -> int:
    """The number of the last slot."""
    layers = Layers()
    layers.call_network(module, 0)
    return len(layers.nodes)


def test_most_choices_are_made():
    torch.manual_seed(0)
    network = compiled(Net(4, 2, [64, 64]))
    obs = np.random.default_rng(0).normal(size=(2000, 4)).astype(np.float32)
    assert sum(network.choose(row[None]) is None for row in obs) < 10


def test_a_tie_is_not_decided():
    model = Net(4, 2, [8])
    for parameter in model.model.model[-1].parameters():
        nn.init.zeros_(parameter)
    assert compiled(model).choose(np.ones((3, 4), np.float32)) is None


def test_a_step_of_an_optimizer_is_seen_at_once():
    torch.manual_seed(0)
    model = Net(4, 3, [16])
    network, obs = compiled(model), torch.randn(5, 4)
    optim = torch.optim.Adam(model.parameters(), lr=0.1)
    model(obs)[0].square().mean().backward()
    before = network.forward(obs.numpy(), [2])[0]
    optim.step()
    after = network.forward(obs.numpy(), [2])[0]
    assert abs(after - before).max() > 0.01
    assert abs(after - model(obs)[0].detach().numpy()).max() < 1e-6


def test_weights_stay_when_the_module_is_gone():
    network = compiled(Net(4, 2, [64]))
    torch.manual_seed(0)
    for _ in range(20):
        torch.randn(64, 4)
    assert np.isfinite(network.forward(np.ones((1, 4), np.float32), [2])[0]).all()


class Doubled(Net):
    def forward(self, obs, state=None, **kwargs):
        logits, state = super().forward(obs, state, **kwargs)
        return 2 * logits, state


class Renamed(Net):
    """A subclass that computes the same."""


def parametrized() -> Net:
    net = Net(4, 2, [8])
    nn.utils.parametrizations.weight_norm(net.model.model[0])
    return net


def with_dropout() -> Net:
    net = Net(4, 2, [8])
    net.model.model.append(nn.Dropout())
    return net


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Doubled(4, 2, [8]), "Doubled is not made of Linear layers"),
        (lambda: Recurrent(1, 4, 2), "Recurrent is not one of the networks"),
        (lambda: nn.Sequential(nn.Linear(4, 2)), "Sequential is not one of the networks"),
        (lambda: Net(4, 2, [8]).double(), "torch.float64 on cpu, not float32"),
        (lambda: Net(4, 2, [8]).to("meta"), "on meta, not float32 on cpu"),
        (lambda: Net(4, 2, [8], norm_layer=nn.LayerNorm), "LayerNorm is not made of"),
        (lambda: Net(4, 2, [8], num_atoms=5), "computes 5 numbers for each action, not 1"),
        (parametrized, "ParametrizedLinear"),
        (with_dropout, "a Dropout is in training mode"),
        (lambda: Net(0, 0, []), "has no Linear layer"),
    ],
)
def test_other_networks_are_refused_with_a_reason(make, why):
    with pytest.raises(NotNativeError, match=why):
        compiled(make())


def test_a_subclass_without_a_forward_of_its_own_is_taken():
    assert compiled(Renamed(4, 2, [8])).outputs == 2
    assert compiled(with_dropout().eval()).outputs == 2
