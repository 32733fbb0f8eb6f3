"""The convolutional networks of deep Q-learning on Atari games."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.compiler import is_compiling
from torch.nn import functional

from rlfast.utils.net._layers import ArrayOrTensor, without_mask
from rlfast.utils.net.common import NetBase, device_of, dtype_of, size_of
from rlfast.utils.net.discrete import NoisyLinear
from rlfast.utils.warning import warn_user

NATURE_CHANNELS = (32, 64, 64)
"""The number of output channels of each convolution of :class:`NatureCNN`."""


class PixelConv2d(nn.Conv2d):
    """A convolution of images whose kernel is a multiple of its stride, which takes less time than ``nn.Conv2d``.

    With stride k, a kernel of mk x mk pixels is one of m x m blocks of k x k pixels, and its stride is one block. So
    the numbers of each block become channels, which lie side by side in memory ("channels last"), and so do those of
    the output. The result is that of ``nn.Conv2d`` for the images times ``scale``, to rounding.

    Within ``torch.autocast``, bytes are converted to its dtype at once.

    :param in_channels: the number of channels of an image.
    :param out_channels: the number of output channels.
    :param kernel_size: height and width of the kernel in pixels, a multiple of ``stride``.
    :param stride: its step in pixels.
    :param scale: a factor of the images; ``1 / 255`` for bytes. Default: 1.
    :raises ValueError: ``kernel_size`` is not a multiple of ``stride``.

    >>> PixelConv2d(4, 16, kernel_size=8, stride=4)(torch.zeros(2, 4, 84, 84, dtype=torch.uint8)).shape
    torch.Size([2, 16, 20, 20])
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, stride: int, *, scale: float = 1.0
    ) -> None:
        if kernel_size % stride:
            raise ValueError(f"kernel_size must be a multiple of stride, got {kernel_size} and {stride}")
        super().__init__(in_channels, out_channels, kernel_size, stride)
        self.scale = scale

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Compute the output.

        :param images: of any dtype, ``[batch, in_channels, height, width]``.
        :return: ``[batch, out_channels, (height - kernel_size) // stride + 1, ...]``.
        """
        kind = images.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else self.weight.dtype
        k = self.stride[0]
        weight = self.weight if self.scale == 1.0 else self.weight * self.scale
        if len(images) < _MANY:
            return functional.conv2d(images.to(dtype), weight.to(dtype), self.bias, k)
        return functional.conv2d(pixel_blocks(images, k).to(dtype), pixel_blocks(weight, k).to(dtype), self.bias)


def pixel_blocks(images: torch.Tensor, size: int) -> torch.Tensor:
    """Return the blocks of ``size`` x ``size`` pixels of images as their channels, with channels last in memory.

    Rows and columns that do not fill a block are left out.

    :param images: ``[batch, channels, height, width]``.
    :param size: height and width of a block.
    :return: ``[batch, channels * size * size, height // size, width // size]``.

    >>> pixel_blocks(torch.arange(16).view(1, 1, 4, 4), 2)[0, :, 0, 1].tolist()
    [2, 3, 6, 7]
    """
    batch, channels, height, width = images.shape
    rows, columns = height // size, width // size
    images = images[:, :, : rows * size, : columns * size]
    if size == _WORD and _is_of_words(images):  # the four bytes of a block's row move as one number
        words = images.view(torch.int32).view(batch, channels, rows, size, columns).permute(0, 2, 4, 1, 3)
        return words.contiguous().view(torch.uint8).flatten(3).permute(0, 3, 1, 2)
    blocks = images.view(batch, channels, rows, size, columns, size).permute(0, 2, 4, 1, 3, 5)
    return blocks.flatten(3).contiguous().permute(0, 3, 1, 2)


_MANY = 8
"""The number of images from which on their blocks save more time than those of the weights take."""
_WORD = 4


def _is_of_words(images: torch.Tensor) -> bool:
    """Return whether images are bytes that can be read as words. Graphs find a way of their own."""
    if is_compiling() or images.dtype != torch.uint8 or images.stride(-1) != 1:
        return False
    return not any(place % _WORD for place in (images.storage_offset(), *images.stride()[:-1]))


class NatureCNN(NetBase):
    """Three convolutions and a hidden layer of 512 units (Mnih et al. 2015, doi:10.1038/nature14236).

    :param c: the number of channels: frames in a stack.
    :param h: the height, such as 84.
    :param w: the width, such as 84.
    :param action_shape: the number of actions.
    :param device: the initial device of the parameters. If they are moved, inputs are moved to their device.
    :param features_only: whether the output is that of the convolutions, without the two layers after them.
        Default: False.
    :param output_dim: with ``features_only``, the size of one more layer after the convolutions; None for no such
        layer. Default: None.
    :param layer_init: called with each layer, returns the initialized layer. Default: the identity.
    :param scale: a factor of the observations; ``1 / 255`` for bytes that were not scaled before. Default: 1.
    :param channels: the number of output channels of each of the three convolutions. Default: 32, 64, 64, as in the
        paper.
    :param norm_layer: makes the normalization after each convolution from the number of its output channels, such as
        ``partial(nn.GroupNorm, 1)``; None (default) for none.
    :raises ValueError: ``channels`` are not three.

    >>> NatureCNN(4, 84, 84, action_shape=6)(torch.zeros(2, 4, 84, 84, dtype=torch.uint8))[0].shape
    torch.Size([2, 6])
    """

    def __init__(
        self,
        c: int,
        h: int,
        w: int,
        action_shape: Sequence[int] | int = 0,
        device: str | int | torch.device = "cpu",
        features_only: bool = False,
        output_dim: int | None = None,
        layer_init: Callable[[nn.Module], nn.Module] = lambda layer: layer,
        *,
        scale: float = 1.0,
        channels: Sequence[int] = NATURE_CHANNELS,
        norm_layer: Callable[[int], nn.Module] | None = None,
    ) -> None:
        if output_dim is not None and not features_only:
            warn_user(f"output_dim={output_dim} has no effect: it is a size of features, set features_only=True")
        if len(channels) != len(NATURE_CHANNELS):
            raise ValueError(f"channels must be three numbers, such as {NATURE_CHANNELS}, got {channels!r}")
        super().__init__()
        first, second, third = channels

        def block(convolution: nn.Conv2d) -> list[nn.Module]:
            norm = [] if norm_layer is None else [norm_layer(convolution.out_channels)]
            return [layer_init(convolution), *norm, nn.ReLU(inplace=True)]

        self.net = nn.Sequential(
            *block(PixelConv2d(c, first, kernel_size=8, stride=4, scale=scale)),
            *block(nn.Conv2d(first, second, kernel_size=4, stride=2)),
            *block(nn.Conv2d(second, third, kernel_size=3, stride=1)),
            nn.Flatten(),
        )
        with torch.no_grad():
            self.output_dim = self.net(torch.zeros(1, c, h, w)).shape[1]
        if output_dim is not None or not features_only:
            hidden = output_dim if features_only and output_dim is not None else 512
            self.net = nn.Sequential(self.net, layer_init(nn.Linear(self.output_dim, hidden)), nn.ReLU(inplace=True))
            self.output_dim = hidden
        if not features_only:
            self.net.append(layer_init(nn.Linear(self.output_dim, size_of(action_shape))))
            self.output_dim = size_of(action_shape)
        self.to(device)

    def forward(
        self, obs: ArrayOrTensor, state: object = None, info: object = None, **kwargs: Any
    ) -> tuple[torch.Tensor, Any]:
        """Compute the output.

        :param obs: an array or tensor ``[batch, c, h, w]`` of any dtype; moved to the device before it is converted.
        :param state: returned unchanged.
        :param info: ignored.
        :return: the output ``[batch, output_dim]``, and ``state``.
        """
        return self.net(torch.as_tensor(without_mask(obs), device=device_of(self.net))), state


DQN = NatureCNN


class _OfEachAction(NatureCNN):
    """A network with several outputs for each action."""

    def __init__(
        self,
        c: int,
        h: int,
        w: int,
        action_shape: Sequence[int] | int,
        number: int,
        device: str | int | torch.device,
        scale: float,
    ) -> None:
        self.action_num, self._number = size_of(action_shape), number
        super().__init__(c, h, w, self.action_num * number, device, scale=scale)

    def forward(
        self, obs: ArrayOrTensor, state: object = None, info: object = None, **kwargs: Any
    ) -> tuple[torch.Tensor, Any]:
        """Compute the outputs.

        :param obs: ``[batch, c, h, w]``.
        :param state: returned unchanged.
        :param info: ignored.
        :param kwargs: not used.
        :return: outputs ``[batch, actions, number]``, and ``state``.
        """
        outputs, state = super().forward(obs, state, info, **kwargs)
        return outputs.view(-1, self.action_num, self._number), state


class C51(_OfEachAction):
    """The network of C51: probabilities of returns for each action (Bellemare et al., arXiv:1707.06887).

    :param c: the number of channels, as for the other parameters of :class:`NatureCNN`.
    :param h: the height.
    :param w: the width.
    :param action_shape: the number of actions.
    :param num_atoms: the number of returns that have a probability. Default: 51.
    :param device: the initial device of the parameters. Default: "cpu".
    :param scale: a factor of the observations. Default: 1.

    >>> C51(4, 84, 84, 6)(torch.zeros(2, 4, 84, 84))[0].shape
    torch.Size([2, 6, 51])
    """

    def __init__(
        self,
        c: int,
        h: int,
        w: int,
        action_shape: Sequence[int] | int,
        num_atoms: int = 51,
        device: str | int | torch.device = "cpu",
        *,
        scale: float = 1.0,
    ) -> None:
        super().__init__(c, h, w, action_shape, num_atoms, device, scale)
        self.num_atoms = num_atoms

    def forward(
        self, obs: ArrayOrTensor, state: object = None, info: object = None, **kwargs: Any
    ) -> tuple[torch.Tensor, Any]:
        """Compute the probabilities.

        :param obs: ``[batch, c, h, w]``.
        :param state: returned unchanged.
        :param info: ignored.
        :param kwargs: not used.
        :return: probabilities ``[batch, actions, num_atoms]``, and ``state``.
        """
        logits, state = super().forward(obs, state, info, **kwargs)
        return logits.softmax(dim=-1), state


class Rainbow(NatureCNN):
    """The network of Rainbow: dueling, with noise, and with probabilities of returns (arXiv:1710.02298).

    :param c: the number of channels, as for the other parameters of :class:`NatureCNN`.
    :param h: the height.
    :param w: the width.
    :param action_shape: the number of actions.
    :param num_atoms: the number of returns that have a probability. Default: 51.
    :param noisy_std: the initial amount of noise; see :class:`NoisyLinear`. Default: 0.5.
    :param device: the initial device of the parameters. Default: "cpu".
    :param is_dueling: whether there are separate streams for values and advantages. Default: True.
    :param is_noisy: whether the layers after the convolutions have noise. Default: True.
    :param scale: a factor of the observations. Default: 1.

    >>> Rainbow(4, 84, 84, 6)(torch.zeros(2, 4, 84, 84))[0].shape
    torch.Size([2, 6, 51])
    """

    def __init__(
        self,
        c: int,
        h: int,
        w: int,
        action_shape: Sequence[int] | int,
        num_atoms: int = 51,
        noisy_std: float = 0.5,
        device: str | int | torch.device = "cpu",
        is_dueling: bool = True,
        is_noisy: bool = True,
        *,
        scale: float = 1.0,
    ) -> None:
        super().__init__(c, h, w, features_only=True, scale=scale)
        self.action_num, self.num_atoms = size_of(action_shape), num_atoms

        def linear(inputs: int, outputs: int) -> nn.Module:
            return NoisyLinear(inputs, outputs, noisy_std) if is_noisy else nn.Linear(inputs, outputs)

        def stream(outputs: int) -> nn.Module:
            return nn.Sequential(linear(self.output_dim, 512), nn.ReLU(inplace=True), linear(512, outputs))

        self.Q = stream(self.action_num * num_atoms)
        self.V = stream(num_atoms) if is_dueling else None
        self.output_dim = self.action_num * num_atoms
        self.to(device)

    def forward(
        self, obs: ArrayOrTensor, state: object = None, info: object = None, **kwargs: Any
    ) -> tuple[torch.Tensor, Any]:
        """Compute the probabilities.

        :param obs: ``[batch, c, h, w]``.
        :param state: returned unchanged.
        :param info: ignored.
        :param kwargs: not used.
        :return: probabilities ``[batch, actions, num_atoms]``, and ``state``.
        """
        features, state = super().forward(obs, state, info, **kwargs)
        logits = self.Q(features).view(-1, self.action_num, self.num_atoms)
        if self.V is not None:
            logits = logits - logits.mean(dim=1, keepdim=True) + self.V(features).view(-1, 1, self.num_atoms)
        return logits.softmax(dim=-1), state


class QRDQN(_OfEachAction):
    """The network of QR-DQN: quantiles of returns for each action (Dabney et al., arXiv:1710.10044).

    :param c: the number of channels, as for the other parameters of :class:`NatureCNN`.
    :param h: the height.
    :param w: the width.
    :param action_shape: the number of actions.
    :param num_quantiles: the number of quantiles. Default: 200.
    :param device: the initial device of the parameters. Default: "cpu".
    :param scale: a factor of the observations. Default: 1.

    >>> QRDQN(4, 84, 84, 6)(torch.zeros(2, 4, 84, 84))[0].shape
    torch.Size([2, 6, 200])
    """

    def __init__(
        self,
        c: int,
        h: int,
        w: int,
        action_shape: Sequence[int] | int,
        num_quantiles: int = 200,
        device: str | int | torch.device = "cpu",
        *,
        scale: float = 1.0,
    ) -> None:
        super().__init__(c, h, w, action_shape, num_quantiles, device, scale)
        self.num_quantiles = num_quantiles


class ScaledObsInputActionReprNet(NetBase[Any]):
    """A network whose observations are divided by a number first.

    :param module: the network, called as ``module(obs, state, info=info)``.
    :param denom: the divisor. Default: 255, for pictures of bytes.
    """

    def __init__(self, module: NetBase[Any], denom: float = 255.0) -> None:
        super().__init__()
        self.module, self.denom = module, denom
        self.output_dim = module.output_dim

    def forward(
        self, obs: ArrayOrTensor, state: object = None, info: object = None, **kwargs: Any
    ) -> tuple[torch.Tensor, Any]:
        """Compute the network's output for ``obs / denom``.

        :param obs: ``[batch, ...]``.
        :param state: given to the network.
        :param info: given to the network, if it is not None.
        :param kwargs: given to the network.
        :return: the output, and the network's hidden state.
        """
        scaled = (
            torch.as_tensor(without_mask(obs), device=device_of(self.module)).to(dtype_of(self.module)) / self.denom
        )
        given = kwargs if info is None else {"info": info, **kwargs}
        output: tuple[torch.Tensor, Any] = self.module(scaled, state, **given)
        return output


def scale_obs(module: NetBase[Any], denom: float = 255.0) -> ScaledObsInputActionReprNet:
    """Return a network that divides its observations by a number first.

    :param module: the network.
    :param denom: the divisor. Default: 255.
    """
    return ScaledObsInputActionReprNet(module, denom)


def layer_init(layer: nn.Module, std: float = 2**0.5, bias_const: float = 0.0) -> nn.Module:
    """Initialise a layer as PPO's networks are: orthogonal weights, and one value for biases (arXiv:2006.05990).

    :param layer: a linear layer or a convolution; it is changed.
    :param std: the factor of the weights. Default: the square root of 2.
    :param bias_const: the value of the biases. Default: 0.
    :return: ``layer``.
    """
    weight: Any = layer.weight
    bias: Any = layer.bias
    nn.init.orthogonal_(weight, std)
    nn.init.constant_(bias, bias_const)
    return layer
