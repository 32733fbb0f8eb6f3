import numpy as np
import pytest
import torch
from torch import nn

from rlfast.utils.net.atari import C51, DQN, QRDQN, NatureCNN, PixelConv2d, Rainbow, layer_init, pixel_blocks, scale_obs
from rlfast.utils.net.discrete import NoisyLinear


def test_the_shapes_of_the_paper():
    net = NatureCNN(4, 84, 84, 6)
    frames = np.random.randint(0, 256, (2, 4, 84, 84), np.uint8)
    q, state = net(frames, state="carried", info={})
    assert (q.shape, state, net.output_dim) == ((2, 6), "carried", 6)
    convolutions = [m for m in net.modules() if isinstance(m, nn.Conv2d)]
    assert [(c.out_channels, c.kernel_size[0], c.stride[0]) for c in convolutions] == [
        (32, 8, 4),
        (64, 4, 2),
        (64, 3, 1),
    ]
    assert [m.out_features for m in net.modules() if isinstance(m, nn.Linear)] == [512, 6]


def test_features_alone():
    assert NatureCNN(4, 84, 84, features_only=True).output_dim == 64 * 7 * 7
    net = NatureCNN(4, 84, 84, features_only=True, output_dim=256)
    assert net(torch.zeros(1, 4, 84, 84))[0].shape == (1, net.output_dim) == (1, 256)
    with pytest.warns(UserWarning, match="set features_only=True"):  # Tianshou ignores it
        net = NatureCNN(4, 84, 84, 6, output_dim=256)
    assert net(torch.zeros(1, 4, 84, 84))[0].shape == (1, net.output_dim) == (1, 6)


@pytest.mark.parametrize("kind", [DQN, C51, Rainbow, QRDQN])
def test_the_info_may_be_given_by_its_place(kind):
    net, frames = kind(4, 84, 84, 6), torch.zeros(2, 4, 84, 84)
    for network in (net.eval(), scale_obs(net)):
        assert torch.equal(network(frames, None, {})[0], network(frames)[0])


def test_convolutions_may_have_other_channels():
    net = NatureCNN(4, 84, 84, features_only=True, channels=(4, 6, 8))
    assert [m.out_channels for m in net.modules() if isinstance(m, nn.Conv2d)] == [4, 6, 8]
    assert net(torch.zeros(1, 4, 84, 84))[0].shape == (1, net.output_dim) == (1, 8 * 7 * 7)
    for channels in ((4, 6), (4, 6, 8, 8)):
        with pytest.raises(ValueError, match=r"three numbers, such as \(32, 64, 64\), got \(4, 6"):
            NatureCNN(4, 84, 84, 6, channels=channels)


def test_bytes_may_be_scaled_in_the_network():
    torch.manual_seed(0)
    frames = torch.randint(0, 256, (2, 4, 84, 84), dtype=torch.uint8)
    net = NatureCNN(4, 84, 84, 6, scale=1 / 255)
    unscaled = NatureCNN(4, 84, 84, 6)
    unscaled.load_state_dict(net.state_dict())
    assert torch.allclose(net(frames)[0], unscaled(frames.float() / 255)[0], atol=1e-5)


def test_each_layer_is_initialized():
    seen = []
    NatureCNN(4, 84, 84, 6, layer_init=lambda layer: seen.append(type(layer)) or layer)
    assert seen == [PixelConv2d] + [nn.Conv2d] * 2 + [nn.Linear] * 2


def test_each_convolution_is_normalized():
    sizes = []

    def norm_layer(size):
        sizes.append(size)
        return nn.GroupNorm(1, size)

    net = NatureCNN(4, 36, 36, features_only=True, channels=(2, 4, 6), norm_layer=norm_layer)
    assert sizes == [2, 4, 6]
    kinds = [type(layer) for layer in net.net]
    assert kinds == [PixelConv2d, nn.GroupNorm, nn.ReLU, *[nn.Conv2d, nn.GroupNorm, nn.ReLU] * 2, nn.Flatten]


def channels_last(images):
    return images.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)


@pytest.mark.parametrize(
    ("kernel_size", "stride", "height", "width"),
    [(8, 4, 36, 40), (8, 4, 37, 43), (8, 4, 39, 36), (4, 4, 12, 12), (12, 4, 24, 24), (4, 2, 10, 11), (3, 1, 7, 5)],
)
@pytest.mark.parametrize("layout", [torch.clone, channels_last, lambda x: x[:, 1:], lambda x: x.flip(0)[..., 1:]])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_convolutions_of_blocks_equal_those_of_pixels(kernel_size, stride, height, width, layout, dtype):
    torch.manual_seed(0)
    images = layout(torch.randint(0, 256, (8, 5, height, width)).to(dtype))
    ours = PixelConv2d(images.shape[1], 6, kernel_size, stride, scale=1 / 17).double()
    plain = nn.Conv2d(images.shape[1], 6, kernel_size, stride).double()
    plain.load_state_dict(ours.state_dict())
    output, wanted = ours(images), plain(images.double() / 17)
    assert torch.allclose(output, wanted, atol=1e-12)
    assert output.is_contiguous(memory_format=torch.channels_last)
    direction = torch.randn_like(wanted)
    for (name, gradient), other in zip(ours.named_parameters(), plain.parameters(), strict=True):
        found, right = (torch.autograd.grad(y, p, direction, True)[0] for y, p in ((output, gradient), (wanted, other)))
        assert torch.allclose(found, right, atol=1e-9), name


def test_bytes_of_blocks_move_as_words_or_one_by_one():
    images = torch.randint(0, 256, (2, 3, 13, 18), dtype=torch.uint8)
    assert torch.equal(pixel_blocks(images, 4).int(), pixel_blocks(images.int(), 4))


def test_convolutions_of_bytes_take_the_dtype_of_autocast():
    torch.manual_seed(0)
    frames, net = torch.randint(0, 256, (8, 4, 36, 36), dtype=torch.uint8), PixelConv2d(4, 8, 8, 4, scale=1 / 255)
    with torch.autocast("cpu", torch.bfloat16):
        rounded, few = net(frames), net(frames[:2])
    assert (rounded.dtype, few.dtype, net(frames).dtype) == (torch.bfloat16, torch.bfloat16, torch.float32)
    assert rounded.float().allclose(net(frames), atol=0.02)
    assert few.float().allclose(net(frames)[:2], atol=0.02)


@pytest.mark.parametrize("number", [1, 7, 8, 9])
def test_few_images_are_convolved_as_many(number):
    torch.manual_seed(0)
    net = PixelConv2d(4, 8, 8, 4, scale=1 / 255)
    frames = torch.randint(0, 256, (9, 4, 36, 36), dtype=torch.uint8)
    assert torch.allclose(net(frames[:number]), net(frames)[:number], atol=1e-6)


def test_convolutions_of_pixels_fit_into_a_graph():
    torch.manual_seed(0)
    net = PixelConv2d(4, 8, 8, 4, scale=1 / 255)
    graph = torch.compile(net, backend="eager", fullgraph=True)
    frames = torch.randint(0, 256, (8, 4, 36, 36), dtype=torch.uint8)
    assert torch.allclose(graph(frames), net(frames), atol=1e-6)


def test_a_kernel_of_parts_of_blocks_is_refused():
    with pytest.raises(ValueError, match="kernel_size must be a multiple of stride, got 6 and 4"):
        PixelConv2d(4, 8, 6, 4)


FRAMES = torch.randint(0, 256, (3, 4, 36, 36), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_distributions_are_softmax_per_action():
    torch.manual_seed(0)
    net, plain = C51(4, 36, 36, 2, num_atoms=5, scale=1 / 255), DQN(4, 36, 36, 10, scale=1 / 255)
    plain.load_state_dict(net.state_dict())
    probabilities, state = net(FRAMES, "carried", info={})
    assert (probabilities.shape, state, net.output_dim) == ((3, 2, 5), "carried", 10)
    assert torch.equal(probabilities, plain(FRAMES)[0].reshape(3, 2, 5).softmax(-1))


def test_quantiles_are_the_outputs_of_each_action():
    torch.manual_seed(0)
    net, plain = QRDQN(4, 36, 36, [2], num_quantiles=7, scale=1 / 255), DQN(4, 36, 36, 14, scale=1 / 255)
    plain.load_state_dict(net.state_dict())
    quantiles, _ = net(FRAMES)
    assert torch.equal(quantiles, plain(FRAMES)[0].reshape(3, 2, 7))


@pytest.mark.parametrize("is_noisy", [True, False])
@pytest.mark.parametrize("is_dueling", [True, False])
def test_rainbow_adds_the_value_to_centred_advantages(is_dueling, is_noisy):
    torch.manual_seed(0)
    net = Rainbow(4, 36, 36, 2, num_atoms=5, noisy_std=0.3, is_dueling=is_dueling, is_noisy=is_noisy, scale=1 / 255)
    noisy = [layer for layer in net.modules() if isinstance(layer, NoisyLinear)]
    assert len(noisy) == (2 * (1 + is_dueling) if is_noisy else 0)
    assert all(torch.allclose(layer.sigma_bias, torch.tensor(0.3 / layer.in_features**0.5)) for layer in noisy)
    probabilities, state = net(FRAMES, "carried")
    assert (probabilities.shape, state) == ((3, 2, 5), "carried")
    assert torch.allclose(probabilities.sum(-1), torch.ones(3, 2))
    features = net.net(FRAMES)
    logits = net.Q(features).reshape(3, 2, 5)
    if is_dueling:
        assert net.V is not None
        logits = logits - logits.mean(1, keepdim=True) + net.V(features).reshape(3, 1, 5)
    assert torch.allclose(probabilities, logits.softmax(-1), atol=1e-6)


def test_observations_are_divided():
    torch.manual_seed(0)
    net = DQN(4, 36, 36, 2)
    scaled = scale_obs(net)
    assert scaled.output_dim == 2
    values, state = scaled(FRAMES.numpy(), "carried", info={})
    assert state == "carried"
    assert torch.equal(values, net(FRAMES / 255)[0])
    assert torch.equal(scale_obs(net, denom=17.0)(FRAMES)[0], net(FRAMES / 17)[0])


def test_layers_are_initialized_orthogonally():
    layer = layer_init(nn.Linear(6, 4), std=3.0, bias_const=0.5)
    assert torch.allclose(layer.weight @ layer.weight.T, 9 * torch.eye(4), atol=1e-5)
    assert (layer.bias == 0.5).all()
    assert torch.allclose(layer_init(nn.Linear(3, 3)).weight.norm(dim=1), torch.full((3,), 2**0.5))
