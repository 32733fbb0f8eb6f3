import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text

from rlfast.experiment import ALGORITHMS
from rlfast.experiment.networks import Encoded, Encoder, Networks, initialize_orthogonally, is_image
from rlfast.functional import Categorical, DiagonalNormal
from rlfast.utils.net._shared import shared_features
from rlfast.utils.net.atari import NatureCNN
from rlfast.utils.net.common import Net, Recurrent

VECTOR = Box(-1, 1, (3,))
IMAGE = Box(0, 255, (48, 40, 3), np.uint8)
STACK = Box(0, 255, (4, 48, 40), np.uint8)
GRAY = Box(0, 255, (48, 40), np.uint8)
MIXED = Dict(
    camera=IMAGE,
    place=Discrete(5, start=2),
    speed=VECTOR,
    inner=Dict(flags=MultiBinary(2), counts=MultiDiscrete([3, 4])),
)
SPACES = {"vector": VECTOR, "image": IMAGE, "stack": STACK, "gray": GRAY, "number": Discrete(5, start=2), "dict": MIXED}


def networks(obs_space, act_space, algorithm="dqn", **settings):
    config = ALGORITHMS[algorithm].config(hidden_sizes=(16, 8), **settings)
    return Networks(config, "XYZ", obs_space, act_space)


def observations(space, rows=4):
    """A batch as collectors give it."""
    if isinstance(space, Dict):
        return {name: observations(part, rows) for name, part in space.items()}
    space.seed(0)
    return np.stack([space.sample() for _ in range(rows)])


@pytest.fixture(params=SPACES.values(), ids=SPACES)
def obs_space(request):
    return request.param


def test_every_head_on_every_kind_of_observation(obs_space):
    obs, act = observations(obs_space), np.zeros((4, 2), np.float32)
    discrete, continuous = networks(obs_space, Discrete(6)), networks(obs_space, Box(-1, 1, (2,)))
    assert discrete.action_values()(obs, state=None, info={})[0].shape == (4, 6)
    assert networks(obs_space, Discrete(6), dueling=True).action_values()(obs)[0].shape == (4, 6)
    assert discrete.actor()[0](obs)[0].shape == (4, 6)
    assert discrete.state_value()(obs).shape == (4, 1)
    assert continuous.action_value()(obs, act).shape == (4, 1)
    assert continuous.deterministic_actor()(obs)[0].abs().max() < 1
    mean, deviation = continuous.normal_actor()(obs)[0]
    assert mean.shape == deviation.shape == (4, 2)
    actor, dist = networks(obs_space, Box(-1, 1, (2,)), "ppo", log_std=-1.0).actor()
    assert actor(obs)[0][1].detach().log().numpy() == pytest.approx(-1.0)
    assert dist is DiagonalNormal
    assert (discrete.continuous, continuous.continuous, continuous.action_size) == (False, True, 2)


@pytest.mark.parametrize(
    ("algorithm", "log_std", "clip"), [("ppo", -2.0, None), ("sac", -3.0, 2.0), ("tqc", -3.0, 2.0)]
)
def test_an_actor_with_state_dependent_noise(obs_space, algorithm, log_std, clip):
    made = networks(obs_space, Box(-1, 1, (2,)), algorithm, sde=True, sde_sample_freq=4).normal_actor()
    head = made.net if isinstance(made, Encoded) else made
    assert head.sigma.log_std.unique().tolist() == [log_std]
    assert (head.sigma.sample_freq, head.clip_mean) == (4, clip)
    assert made(observations(obs_space))[0][1].shape == (4, 2)


def test_every_part_of_an_observation_counts(obs_space):
    encoder, wrapped = Encoder(obs_space), {"all": observations(obs_space)}
    before = encoder(wrapped["all"])
    assert before.shape == (4, encoder.output_dim)

    def change(parts):
        for name, part in parts.items():
            if isinstance(part, dict):
                yield from change(part)
            else:
                parts[name] = part[::-1].copy()
                yield name
                parts[name] = part

    for name in change(wrapped):
        assert not torch.equal(encoder(wrapped["all"]), before), name
    assert torch.equal(encoder(wrapped["all"]), before)


def test_a_memory_is_kept(obs_space):
    obs = observations(obs_space)
    for made, space in (("action_values", Discrete(3)), ("deterministic_actor", Box(-1, 1, (3,)))):
        net = getattr(networks(obs_space, space, recurrent=True), made)()
        first, state = net(obs)
        assert set(state) == {"hidden", "cell"}
        assert state["hidden"].shape == (4, 1, 8)
        assert not torch.equal(net(obs, state)[0], first)


def test_vectors_need_no_encoder():
    made = networks(VECTOR, Discrete(2))
    assert type(made.action_values()) is Net
    assert type(networks(VECTOR, Discrete(2), recurrent=True).action_values()) is Recurrent
    assert type(networks(IMAGE, Discrete(2)).action_values()) is Encoded


def test_images_are_scaled_and_channels_found():
    no_images = (VECTOR, MIXED, Box(0, 1, (10, 10, 4)), Box(0, 255, (48, 35), np.uint8), Box(0, 1, (48, 40)))
    assert [is_image(space) for space in (IMAGE, STACK, GRAY, *no_images)] == [True] * 3 + [False] * 5
    encoder = Encoder(IMAGE)
    image = observations(IMAGE)
    assert encoder.convolutions.net[0].in_channels == 3
    assert Encoder(STACK).convolutions.net[0].in_channels == 4
    convolutions = NatureCNN(3, *image.shape[1:3], features_only=True)
    convolutions.load_state_dict(encoder.convolutions.state_dict())
    assert Encoder(GRAY).convolutions.net[0].in_channels == 1
    assert encoder(image).allclose(convolutions(torch.as_tensor(image).permute(0, 3, 1, 2) / 255)[0], atol=1e-5)


def test_numbers_begin_where_their_space_does():
    assert Encoder(Discrete(3, start=2))(np.array([2, 4])).tolist() == [[1, 0, 0], [0, 0, 1]]


def test_convolutions_have_the_channels_and_first_weights_of_the_settings():
    def layers(**settings):
        made = networks(MIXED, Discrete(2), **settings)
        for net in (made.action_values(), made.state_value(), made.choice_actor(), made.quantiles([8], cosines=4)):
            found = [layer for layer in net.modules() if isinstance(layer, torch.nn.Conv2d)]
            assert len(found) == 3
            yield from found

    def orthogonal(layer):
        weight = layer.weight.detach().flatten(1)
        return torch.allclose(weight @ weight.T, 2 * torch.eye(len(weight)), atol=1e-4) and not layer.bias.any()

    assert [layer.out_channels for layer in layers()] == [32, 64, 64] * 4
    assert [layer.out_channels for layer in layers(channels=(4, 6, 8))] == [4, 6, 8] * 4
    assert not any(orthogonal(layer) for layer in layers())
    assert all(orthogonal(layer) for layer in layers(orthogonal=True))


@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA"))]
)
def test_convolutions_compute_in_the_dtype_of_the_settings(device):
    obs = observations(MIXED)
    seen, computed = {}, []
    for dtype in ("float32", "bfloat16"):
        torch.manual_seed(0)
        computed.clear()
        net = networks(MIXED, Discrete(6), dtype=dtype, device=device).action_values()
        for layer in net.modules():
            if isinstance(layer, torch.nn.Conv2d | torch.nn.Linear):
                layer.register_forward_hook(lambda layer, _, output: computed.append((type(layer), output.dtype)))
        values = net(obs)[0]
        values.sum().backward()
        assert {found for kind, found in computed if kind is torch.nn.Linear} == {torch.float32}
        assert {found for kind, found in computed if issubclass(kind, torch.nn.Conv2d)} == {getattr(torch, dtype)}
        assert {p.dtype for p in net.parameters()} == {p.grad.dtype for p in net.parameters()} == {torch.float32}
        gradient = net.encoder.by_name["camera"].convolutions.net[0].weight.grad
        seen[dtype] = values.detach().cpu().numpy(), gradient.cpu().numpy()
    for exact, rounded in zip(*seen.values(), strict=True):
        assert not np.array_equal(exact, rounded)
        assert np.linalg.norm(rounded - exact) < 0.15 * np.linalg.norm(exact)


@pytest.mark.parametrize("sizes", [(16,), (16, 12)])
def test_only_the_layer_after_convolutions_computes_in_their_dtype(sizes):
    config = ALGORITHMS["dqn"].config(hidden_sizes=sizes, dtype="bfloat16", channels=(2, 4, 4))
    net = Networks(config, "XYZ", IMAGE, Discrete(6)).action_values()
    layers = [layer for layer in net.net.modules() if isinstance(layer, torch.nn.Linear)]
    assert [type(layer).__name__ for layer in layers] == ["ReducedLinear"] + ["Linear"] * len(sizes)
    x = torch.randn(4, layers[0].in_features)
    exact = torch.nn.functional.linear(x, layers[0].weight, layers[0].bias)
    rounded = layers[0](x)
    assert rounded.dtype == torch.float32
    assert not torch.equal(rounded, exact)
    assert rounded.allclose(exact, atol=0.05)


@pytest.mark.parametrize(
    "settings", [{"hidden_sizes": ()}, {"dtype": "float32"}, {"dueling": True, "hidden_sizes": ()}, {"recurrent": True}]
)
def test_values_and_memories_are_float32(settings):
    config = ALGORITHMS["dqn"].config(**{"dtype": "bfloat16", "channels": (2, 4, 4)} | settings)
    net = Networks(config, "XYZ", IMAGE, Discrete(6)).action_values()
    assert not [layer for layer in net.modules() if type(layer).__name__ == "ReducedLinear"]


def test_layers_of_values_are_normalized_with_their_convolutions():
    config = ALGORITHMS["pqn"].config(hidden_sizes=(8,), channels=(2, 4, 4))
    net = Networks(config, "XYZ", IMAGE, Discrete(6)).action_values()
    norms = [type(layer).__name__ for layer in net.modules() if "Norm" in type(layer).__name__]
    assert norms == ["GroupNorm"] * 3 + ["LayerNorm"]
    for layer in (layer for layer in net.modules() if isinstance(layer, torch.nn.Conv2d)):
        rows = layer.weight.flatten(1)
        assert torch.allclose(rows @ rows.T, 2 * torch.eye(len(rows)), atol=1e-5)  # orthogonal
        assert not layer.bias.any()


def test_float32_leaves_the_autocast_of_the_caller():
    encoder = Encoder(IMAGE)
    computed = []
    encoder.convolutions.net[0].register_forward_hook(lambda *call: computed.append(call[2].dtype))
    with torch.autocast("cpu", torch.bfloat16):
        assert encoder(observations(IMAGE)).dtype == torch.float32
    assert computed == [torch.bfloat16]


def test_first_weights_are_orthogonal():
    for space in (VECTOR, IMAGE):
        made = networks(space, Discrete(5))
        (actor, dist), critic = made.actor(), made.state_value()
        initialize_orthogonally(actor, critic)
        assert dist is Categorical
        probs = actor(observations(space))[0].softmax(-1)
        assert probs.detach().numpy() == pytest.approx(0.2, abs=0.02)  # nearly the same everywhere
        weight = (critic.net if space is IMAGE else critic).preprocess.model.model[2].weight.detach()  # [8, 16]
        assert (weight @ weight.T).numpy() == pytest.approx(2 * np.eye(8), abs=1e-5)
        for net in (actor, critic):
            layers = [layer for layer in net.modules() if isinstance(layer, torch.nn.Conv2d)]
            assert len(layers) == 3 * (space is IMAGE)
            for layer in layers:
                weight = layer.weight.detach().flatten(1)
                assert (weight @ weight.T).numpy() == pytest.approx(2 * np.eye(len(weight)), abs=1e-5)
                assert not layer.bias.any()


@pytest.mark.parametrize("act_space", [Discrete(6), MultiDiscrete([2, 3]), Box(-1, 1, (2,))], ids=["one", "two", "box"])
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "separate"])
def test_a_critic_is_a_layer_on_the_actors_features_or_separate(obs_space, act_space, shared):
    actor, _, critic = networks(obs_space, act_space, "ppo", activation="relu", shared_features=shared).actor_critic()
    both = {*actor.parameters()} & {*critic.parameters()}
    own = {*critic.parameters()} - both
    assert min(tuple(parameter.shape) for parameter in own) == (1,)
    assert (len(own) == 2) == shared  # weight and bias of the last layer
    assert bool(both) == shared
    obs, evaluated = observations(obs_space), []
    for layer in actor.modules():
        if isinstance(layer, torch.nn.Linear | torch.nn.Conv2d):
            layer.register_forward_hook(lambda layer, *_: evaluated.append(layer))
    apart = critic(obs)
    assert len(evaluated) == (len(both) // 2)
    evaluated.clear()
    with shared_features():
        actor(obs)
        assert torch.equal(critic(obs), apart)
    assert len(evaluated) == len(set(evaluated))  # once for both


@pytest.mark.parametrize(
    ("obs_space", "act_space", "made", "message"),
    [
        (VECTOR, VECTOR, "action_values", "XYZ needs discrete actions, and those of CartPole-v1 are Box"),
        (VECTOR, Discrete(2), "action_value", "XYZ needs continuous actions, and those of CartPole-v1 are Discrete"),
        (VECTOR, Discrete(2), "deterministic_actor", "XYZ needs continuous actions"),
        (Text(3), Discrete(2), "action_values", "XYZ needs observations that are arrays, numbers or dicts of these"),
        (Dict(a=Text(3)), Discrete(2), "state_value", "XYZ needs observations that are arrays"),
    ],
)
def test_spaces_that_do_not_fit(obs_space, act_space, made, message):
    with pytest.raises(ValueError, match=message):
        getattr(networks(obs_space, act_space), made)()


def test_recurrent_networks_can_be_dueling():
    net = networks(VECTOR, Discrete(2), recurrent=True, dueling=True).action_values()
    assert (net.Q.output_dim, net.V.output_dim) == (2, 1)
    assert net(observations(VECTOR))[0].shape == (len(observations(VECTOR)), 2)


def test_networks_do_not_get_the_mask_of_discrete_actions():
    space = Dict(obs=VECTOR, mask=MultiBinary(2))
    assert networks(space, Discrete(2)).action_values()(torch.zeros(5, 3))[0].shape == (5, 2)
    actor, _ = networks(space, Discrete(2)).actor()
    assert actor(torch.zeros(5, 3))[0].shape == (5, 2)
    both = {"obs": torch.zeros(5, 3), "mask": torch.zeros(5, 2)}
    assert networks(space, Box(-1, 1, (1,))).state_value()(both).shape == (5, 1)
