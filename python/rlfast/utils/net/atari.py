"""The convolutional network of deep Q-learning on Atari games."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from rlfast.utils.net.common import NetBase, device_of, dtype_of, size_of


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
    :raises ValueError: ``output_dim`` is given without ``features_only``.

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
    ) -> None:
        if output_dim is not None and not features_only:
            raise ValueError(f"output_dim={output_dim} is a size of features: set features_only=True")
        super().__init__()
        self.net = nn.Sequential(
            layer_init(nn.Conv2d(c, 32, kernel_size=8, stride=4)),
            nn.ReLU(inplace=True),
            layer_init(nn.Conv2d(32, 64, kernel_size=4, stride=2)),
            nn.ReLU(inplace=True),
            layer_init(nn.Conv2d(64, 64, kernel_size=3, stride=1)),
            nn.ReLU(inplace=True),
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
        self.scale = scale
        self.to(device)

    def forward(
        self,
        obs: NDArray[Any] | torch.Tensor,
        state: Any = None,
        **kwargs: Any,  # noqa: ARG002 (required by the interface, unused)
    ) -> tuple[torch.Tensor, Any]:
        """Compute the output.

        :param obs: an array or tensor ``[batch, c, h, w]`` of any dtype; moved to the device before it is converted.
        :param state: returned unchanged.
        :return: the output ``[batch, output_dim]``, and ``state``.
        """
        x = torch.as_tensor(obs, device=device_of(self.net)).to(dtype_of(self.net))
        return self.net(x if self.scale == 1.0 else x * self.scale), state
