"""Networks of torch as programs of the engine, against torch."""

import functools
import logging
import math
import re
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from policy.native.networks import REMEMBERING, TAKEN, TORCH, Own, User, pixels
from rlfast._core import Network
from rlfast.data import Batch
from rlfast.data.forms import Form
from rlfast.policy import DQNPolicy
from rlfast.policy.native.lowering import Lowered, leaves_of
from rlfast.policy.native.tracing import Example, called
from rlfast.utils.net import discrete
from rlfast.utils.net.common import Net
from rlfast.utils.runtime.native import NotNativeError

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "network.md"
ACTIVATIONS = [nn.ReLU, nn.Tanh, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Sigmoid, nn.GELU, nn.Softplus, None]


def compiled(module: nn.Module, shape: tuple[int, ...] | Form = (4,)) -> tuple[Network, list[int]]:
    lowered = Lowered(module, shape)
    return lowered.network(lowered.outputs)


def example(shape: tuple[int, ...] | Form, rows: int) -> Example:
    return Example.of(Form.given(shape), rows, torch.Generator().manual_seed(2))


def outputs_by_torch(module: nn.Module, given: Example) -> list[np.ndarray]:
    with torch.no_grad():
        wanted = called(module, given.obs)[0]
    return [one.reshape(len(one), -1).numpy() for one in (wanted if isinstance(wanted, tuple) else (wanted,))]


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
    norm = draw(st.sampled_from([None, nn.LayerNorm, nn.RMSNorm]))
    return Net(shape, actions, **options, norm_layer=norm, softmax=kind == "softmax")


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
    network, slots = compiled(module, (size,))
    with torch.no_grad():
        wanted = module(obs)[0].numpy()
    (found,) = network.forward(obs, slots)
    assert found.shape == wanted.shape
    assert found.dtype == np.float32
    assert (abs(found - wanted) <= 2e-6 * max(abs(wanted).max(initial=0), 0.5)).all()
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
    lowered = Lowered(net, (4,))
    (slot,) = lowered.outputs
    if values is None:
        slot = lowered.add("mean", slot, atoms)
    else:
        slot = lowered.add("expectation", slot, lowered.weights(values["support"]))
    network, (slot,) = lowered.network([slot])
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


class Branch(nn.Module):
    """Two branches, whose results are added, multiplied, joined or compared."""

    def __init__(self, kind: str, left: nn.Module, right: nn.Module) -> None:
        super().__init__()
        self.kind, self.left, self.right = kind, left, right

    def forward(self, x):
        one, other = self.left(x), self.right(x)
        if self.kind == "join":
            return torch.cat([one, other], dim=-1)[..., ::2]
        if self.kind == "stack":
            return torch.stack([one, other], dim=2).mean(2)
        if self.kind == "centered":
            return one - other.mean(-1, keepdim=True)
        return {"add": torch.add, "multiply": torch.mul, "maximum": torch.maximum}[self.kind](one, other)


@st.composite
def layers_of(draw, size: int, depth: int) -> nn.Module:
    """Layers from ``size`` numbers to as many. The norms have a large ``eps``: with the usual one they turn the
    rounding of nearly equal numbers, as a softmax gives, into 300 times as much, in torch as well."""
    activations = [nn.ReLU, nn.Tanh, nn.SiLU, nn.GELU, nn.ELU, nn.LeakyReLU, nn.Sigmoid, nn.Softplus, nn.Hardtanh]
    norms = [
        *(functools.partial(norm, eps=0.01) for norm in (nn.LayerNorm, nn.RMSNorm, nn.BatchNorm1d)),
        lambda size: nn.Softmax(-1),
        lambda size: nn.Identity(),
    ]
    made: list[nn.Module] = []
    for _ in range(draw(st.integers(1, 3))):
        kinds = ["linear", "activation", "norm", *(["branch"] if depth else [])]
        kind = draw(st.sampled_from(kinds))
        if kind == "linear":
            made.append(nn.Linear(size, size, bias=draw(st.booleans())))
        elif kind == "activation":
            made.append(draw(st.sampled_from(activations))())
        elif kind == "norm":
            made.append(draw(st.sampled_from(norms))(size))
        else:
            how = draw(st.sampled_from(["add", "multiply", "maximum", "join", "stack", "centered"]))
            made.append(Branch(how, draw(layers_of(size, depth - 1)), draw(layers_of(size, depth - 1))))
    return nn.Sequential(*made)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), size=st.integers(1, 40), rows=st.sampled_from([1, 7, 8, 17]), seed=st.integers(0, 2**32 - 1))
def test_random_networks_are_those_of_torch(data, size, rows, seed):
    torch.manual_seed(seed)
    module = User(nn.Linear(3, size), data.draw(layers_of(size, 2)), nn.Linear(size, 2)).eval()
    obs = torch.randn(rows, 3)
    network, slots = compiled(module, (3,))
    change = data.draw(st.sampled_from(["none", "step", "load"]))
    with torch.no_grad():
        if change == "step":
            for parameter in module.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        elif change == "load":
            module.load_state_dict({name: value + 0.1 for name, value in module.state_dict().items()})
        wanted = module(obs)[0].numpy()
    (found,) = network.forward(obs.numpy(), slots)
    assert (abs(found - wanted) <= 1e-5 * max(abs(wanted).max(), 1)).all()


@st.composite
def image_layers(draw, shape: tuple[int, int, int]) -> nn.Module:
    """Layers of images, and a linear layer on the last of them."""
    layers: list[nn.Module] = []
    for _ in range(draw(st.integers(1, 4))):
        channels = shape[0]
        kind = draw(st.sampled_from(["conv", "conv", "conv", "max", "mean", "activation", "norm", "residual"]))
        kernel, dilation = [(draw(st.integers(1, 4)), draw(st.integers(1, 4))), (draw(st.integers(1, 2)),) * 2]
        stride = draw(st.integers(1, 3)), draw(st.integers(1, 3))
        made: nn.Module
        if kind == "conv":
            groups = draw(st.sampled_from([k for k in (1, 2, 3) if channels % k == 0]))
            made = nn.Conv2d(
                channels, groups * draw(st.sampled_from([1, 3, 8, 17, 40])), kernel, stride,
                padding=(draw(st.integers(0, 3)), draw(st.integers(0, 3))), dilation=dilation, groups=groups,
                bias=draw(st.booleans()),
            )  # fmt: skip
        elif kind in ("max", "mean"):
            padding = tuple(draw(st.integers(0, size // 2)) for size in kernel)
            made = nn.MaxPool2d(kernel, stride, padding) if kind == "max" else nn.AvgPool2d(kernel, stride, padding)
        elif kind == "activation":
            made = draw(st.sampled_from([nn.ReLU, nn.SiLU, nn.Tanh]))()
        elif kind == "norm":
            made = draw(st.sampled_from([nn.BatchNorm2d, functools.partial(nn.GroupNorm, 1, eps=0.01)]))(channels)
        else:
            made = Branch("add", nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU())
        try:
            shape = tuple(made.eval()(torch.zeros(2, *shape)).shape[1:])
        except RuntimeError:  # the kernel is larger than the image
            continue
        layers.append(made)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(math.prod(shape), draw(st.integers(1, 4))))


@settings(max_examples=60, deadline=None)
@given(
    data=st.data(),
    shape=st.tuples(st.integers(1, 6), st.integers(1, 14), st.integers(1, 14)),
    rows=st.sampled_from([1, 3, 8, 9, 17]),
    seed=st.integers(0, 2**32 - 1),
)
def test_random_networks_of_images_are_those_of_torch(data, shape, rows, seed):
    torch.manual_seed(seed)
    is_bytes = data.draw(st.booleans())
    form = pixels(*shape) if is_bytes else Form.given(shape)
    layers = data.draw(image_layers(shape))
    module = Own(lambda net, x: net.layers(x / 255 if is_bytes else x), layers=layers).eval()
    given, (network, slots) = example(form, rows), compiled(module, form)
    change = data.draw(st.sampled_from(["none", "step", "load", "replace"]))
    with torch.no_grad():
        if change == "step":
            for parameter in module.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        elif change == "load":
            module.load_state_dict({name: value * 1.1 for name, value in module.state_dict().items()})
        elif change == "replace":
            for layer in module.modules():
                if isinstance(layer, nn.Conv2d):
                    layer.weight = nn.Parameter(layer.weight * 0.9)
            network, slots = compiled(module, form)
    (found,), (wanted,) = network.forward(given.flat, slots), outputs_by_torch(module, given)
    assert (abs(found - wanted) <= 1e-5 * max(abs(wanted).max(), 1)).all()
    if is_bytes:
        np.testing.assert_array_equal(network.forward(given.obs.numpy(), slots)[0], found)
    for row in (0, rows - 1):  # no number depends on the other rows
        np.testing.assert_array_equal(network.forward(given.flat[row : row + 1], slots)[0], found[row : row + 1])


@pytest.mark.parametrize(("make", "shape"), TAKEN.values(), ids=TAKEN)
def test_networks_of_users_are_computed_in_rust(make, shape):
    torch.manual_seed(1)
    module, given = make(), example(shape, 21)
    network, slots = compiled(module, shape)
    for _ in range(2):
        for found, same in zip(network.forward(given.flat, slots), outputs_by_torch(module, given), strict=True):
            assert (abs(found - same) <= 3e-6 * max(abs(same).max(), 1)).all()
        for tensor in given.tensors:
            tensor.mul_(3)


@pytest.mark.parametrize(("make", "shape"), TAKEN.values(), ids=TAKEN)
def test_changed_weights_are_seen_at_once(make, shape):
    torch.manual_seed(1)
    module, given = make(), example(shape, 5)
    network, slots = compiled(module, shape)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    for found, same in zip(network.forward(given.flat, slots), outputs_by_torch(module, given), strict=True):
        assert (abs(found - same) <= 1e-5 * max(abs(same).max(), 1)).all()


@pytest.mark.parametrize(("make", "shape"), REMEMBERING.values(), ids=REMEMBERING)
def test_hidden_states_are_those_of_torch(make, shape):
    torch.manual_seed(1)
    module, given = make(), example(shape, 9)
    lowered = Lowered(module, shape)
    network, slots = lowered.network([*lowered.outputs, *lowered.states])
    states = [torch.zeros(9, *part.shape) for part in lowered.state_form.parts]
    before: object = None
    for _ in range(3):
        with torch.no_grad():
            output, before = called(module, given.obs, before)
        wanted = [*(output if isinstance(output, tuple) else (output,)), *leaves_of(before)]
        numbers = [given.flat, *(state.reshape(9, -1).numpy() for state in states)]
        found = network.forward(np.concatenate(numbers, axis=1), slots)
        for one, same in zip(found, wanted, strict=True):
            assert (abs(one - same.reshape(9, -1).numpy()) <= 3e-6).all()
        states = [torch.from_numpy(one) for one in found[len(lowered.outputs) :]]
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.mul_(0.9)


@pytest.mark.parametrize(("make", "shape", "why"), TORCH.values(), ids=TORCH)
def test_others_are_left_to_torch_with_a_reason(make, shape, why):
    module = make()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    with pytest.raises(NotNativeError, match=why):
        compiled(module, shape)
    if not why.startswith("on meta"):
        assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_tracing_leaves_random_streams_as_they_are():
    module, before = Net(4, 2, [8]), torch.get_rng_state()
    compiled(module)
    assert torch.equal(torch.get_rng_state(), before)


def test_new_noise_is_seen_at_once():
    torch.manual_seed(0)
    model, obs = Net(4, 3, [16], linear_layer=discrete.NoisyLinear), np.ones((2, 4), np.float32)
    network, slots = compiled(model)
    before = network.forward(obs, slots)[0]
    for layer in model.modules():
        if isinstance(layer, discrete.NoisyLinear):
            layer.sample()
    with torch.no_grad():
        wanted = model(obs)[0].numpy()
    np.testing.assert_allclose(network.forward(obs, slots)[0], wanted, rtol=1e-5)
    assert abs(before - wanted).max() > 1e-3


def test_most_choices_are_made():
    torch.manual_seed(0)
    network, _ = compiled(Net(4, 2, [64, 64]))
    obs = np.random.default_rng(0).normal(size=(2000, 4)).astype(np.float32)
    assert sum(network.choose(row[None]) is None for row in obs) < 10


def test_a_tie_is_not_decided():
    model = Net(4, 2, [8])
    for parameter in model.model.model[-1].parameters():
        nn.init.zeros_(parameter)
    assert compiled(model)[0].choose(np.ones((3, 4), np.float32)) is None


def test_a_step_of_an_optimizer_is_seen_at_once():
    torch.manual_seed(0)
    model = Net(4, 3, [16])
    (network, slots), obs = compiled(model), torch.randn(5, 4)
    optim = torch.optim.Adam(model.parameters(), lr=0.1)
    model(obs)[0].square().mean().backward()
    before = network.forward(obs.numpy(), slots)[0]
    optim.step()
    after = network.forward(obs.numpy(), slots)[0]
    assert abs(after - before).max() > 0.01
    assert abs(after - model(obs)[0].detach().numpy()).max() < 1e-6


def test_weights_stay_when_the_module_is_gone():
    network, slots = compiled(Net(4, 2, [64]))
    torch.manual_seed(0)
    for _ in range(20):
        torch.randn(64, 4)
    assert np.isfinite(network.forward(np.ones((1, 4), np.float32), slots)[0]).all()


def test_the_guide_shows_which_networks_act_in_rust():
    rows = re.findall(r"^\| (.+) \| (in Rust|by torch)", GUIDE.read_text(), re.MULTILINE)
    assert rows == [*((name, "in Rust") for name in (*TAKEN, *REMEMBERING)), *((name, "by torch") for name in TORCH)]


def test_a_refusal_is_logged_once(caplog):
    module = User(nn.Linear(4, 8), nn.Softsign())
    policy = DQNPolicy(model=module, optim=None, action_space=gym.spaces.Discrete(8))
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            with pytest.raises(NotNativeError):
                policy.native_chooser((4,))
    assert [record.getMessage() for record in caplog.records] == [
        "User acts by torch: the network calls torch.nn.functional.softsign, which is not among the known operations"
    ]


def test_a_compiled_module_is_not_compiled_for_random_observations():
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    module = User(torch.compile(nn.Sequential(nn.Linear(4, 8), nn.ReLU()), backend=backend), nn.Linear(8, 2))
    with pytest.raises(NotNativeError, match=r"a result of torch\.compile"):
        compiled(module)
    assert graphs == []


def test_a_scripted_module_is_left_to_torch():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scripts are deprecated
        scripted = torch.jit.script(nn.Sequential(nn.Linear(4, 8), nn.ReLU()))
    with pytest.raises(NotNativeError, match="in another way than by functions of torch"):
        compiled(User(scripted, nn.Linear(8, 2)))


def rectified(x):
    functional.relu(x[:, :2], inplace=True)
    return x


def rectified_below(x):
    view = x.view(-1, 2, 2)
    functional.relu_(x)
    return view.flatten(1)


UNSAFE = {
    "a part changed in place": (rectified, "a part of a tensor in place, or what it has views of"),
    "a tensor changed in place under a view": (rectified_below, "a part of a tensor in place, or what it has views of"),
    "a part clipped in place": (lambda x: (functional.hardtanh(x[:, 2:], -5, 5, inplace=True), x)[1], "in place"),
    "a clamp whose limits are swapped": (lambda x: x.clamp(0.7, -0.5), "between a number and a smaller one"),
    "a division by zero": (lambda x: x / 0.0, "division by zero"),
}


@pytest.mark.parametrize(("compute", "why"), UNSAFE.values(), ids=UNSAFE)
def test_what_a_comparison_may_miss_is_refused(compute, why):
    """The last layer is zero at first, so that all networks give the same numbers."""
    head = nn.Linear(4, 2)
    nn.init.zeros_(head.weight)
    with pytest.raises(NotNativeError, match=why):
        compiled(Own(lambda net, x: net.head(compute(net.body(x))), body=nn.Linear(4, 4), head=head))


def test_a_whole_tensor_may_be_changed_in_place():
    def compute(net, x):
        return net.head(functional.relu(net.body(x), inplace=True).view(-1, 2, 2).flatten(1))

    compiled(Own(compute, body=nn.Linear(4, 4), head=nn.Linear(4, 2)))


def test_a_network_with_a_scripted_part_acts_again_and_again():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scripts are deprecated
        net = User(torch.jit.script(nn.Sequential(nn.Linear(4, 8), nn.ReLU())), nn.Linear(8, 2))
    policy = DQNPolicy(model=net, optim=torch.optim.SGD(net.parameters(), lr=0.1), action_space=Discrete(2))
    obs = np.ones(4, np.float32)
    assert policy.compute_action(obs) == policy.compute_action(obs) == policy(Batch(obs=obs[None], info={})).act[0]


def test_networks_without_outputs_are_refused():
    with pytest.raises(NotNativeError, match="a tensor without numbers"):
        compiled(User(nn.Linear(4, 2), Nothing()))


class Nothing(nn.Module):
    def forward(self, x):
        return x[:, :0]
