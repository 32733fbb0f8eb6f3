import numpy as np
import pytest
import torch
from torch import nn

from rlfast.utils.net.atari import NatureCNN


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
    with pytest.raises(ValueError, match="set features_only=True"):
        NatureCNN(4, 84, 84, 6, output_dim=256)


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
    assert seen == [nn.Conv2d] * 3 + [nn.Linear] * 2
