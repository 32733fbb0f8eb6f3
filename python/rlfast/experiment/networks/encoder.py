"""Encoders of observations that are not vectors."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from gymnasium import spaces
from torch import nn
from torch.nn import functional

from rlfast.utils.net._recurrent import each_step
from rlfast.utils.net._shared import computed_once
from rlfast.utils.net.atari import NatureCNN
from rlfast.utils.net.common import size_of

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import gymnasium as gym

_SMALLEST_IMAGE = 36
"""The least height and width that three convolutions need."""


class Encoder(nn.Module):
    """Encodes an observation as one vector: images by convolutions, numbers as one-hot, and dicts part by part.

    :param space: space of one observation.
    :param dtype: what convolutions compute in; their parameters and features are float32. Default: float32.
    :param convolutions: arguments of the :class:`~rlfast.utils.net.atari.NatureCNN` of each image: ``channels``,
        ``layer_init``, ``norm_layer``.
    :raises TypeError: if there is no encoding for the space.

    >>> space = spaces.Dict(place=spaces.Discrete(3), speed=spaces.Box(-1, 1, (2,)))
    >>> encoder = Encoder(space)
    >>> encoder({"place": torch.tensor([1]), "speed": torch.tensor([[0.5, -0.5]])}).tolist()
    [[0.0, 1.0, 0.0, 0.5, -0.5]]
    """

    _anchor: torch.Tensor
    output_dim: int

    def __init__(self, space: gym.Space[Any], dtype: torch.dtype = torch.float32, **convolutions: Any) -> None:
        super().__init__()
        self._dtype = dtype
        self._space = space
        self.register_buffer("_anchor", torch.zeros(0), persistent=False)  # it has the device of the module
        self.parts: dict[str, Encoder] = {}
        self.convolutions: NatureCNN | None = None
        if isinstance(space, spaces.Dict):
            self.parts = {name: Encoder(part, dtype, **convolutions) for name, part in space.items()}
            self.by_name = nn.ModuleDict(self.parts)
            self.output_dim = sum(part.output_dim for part in self.parts.values())
        elif isinstance(space, spaces.Discrete):
            self.output_dim = int(space.n)
        elif is_image(space):
            frames, height, width = _channels_first(torch.empty(1, *(space.shape or ()))).shape[1:]
            scale = 1 / 255 if space.dtype == "uint8" else 1.0
            self.convolutions = NatureCNN(frames, height, width, features_only=True, scale=scale, **convolutions)
            self.output_dim = self.convolutions.output_dim
        elif isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete):
            self.output_dim = size_of(space.shape)
        else:
            raise TypeError(f"no network for {space}")

    def forward(self, obs: Any) -> torch.Tensor:
        """Compute features ``[batch, output_dim]``.

        :param obs: ``[batch, ...]``, an array, a tensor, or a dict or Batch of these.
        """
        if self.parts:
            return torch.cat([part(obs[name]) for name, part in self.parts.items()], dim=1)
        values = torch.as_tensor(obs, device=self._anchor.device)
        if isinstance(self._space, spaces.Discrete):
            numbers = values.long().flatten() - int(self._space.start)
            return functional.one_hot(numbers, self.output_dim).float()
        if self.convolutions is not None:
            with _precision(values, self._dtype):
                features: torch.Tensor = self.convolutions(_channels_first(values))[0]
            return features.float()
        return values.float().reshape(len(values), -1)


def _precision(values: torch.Tensor, dtype: torch.dtype) -> AbstractContextManager[Any]:
    """Returns the context of layers that compute in a dtype: none for float32, which leaves a caller's autocast."""
    return nullcontext() if dtype == torch.float32 else torch.autocast(values.device.type, dtype)


class ReducedLinear(nn.Linear):
    """A linear layer that computes in another dtype; its parameters and its output are float32.

    :param in_features: the size of the input.
    :param out_features: the size of the output.
    :param dtype: what it computes in.
    """

    def __init__(self, in_features: int, out_features: int, dtype: torch.dtype) -> None:
        super().__init__(in_features, out_features)
        self._dtype = dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute the output.

        :param x: ``[batch, in_features]``.
        """
        with _precision(x, self._dtype):
            return super().forward(x).float()


class Encoded(nn.Module):
    """A network on the features of an :class:`Encoder`.

    :param encoder: the encoder.
    :param net: the network, which gets features in place of observations.
    """

    def __init__(self, encoder: Encoder, net: nn.Module) -> None:
        super().__init__()
        self.encoder, self.net = encoder, net

    def forward(self, obs: object, *args: Any, **kwargs: Any) -> Any:
        """Compute the output of ``net`` for encoded observations.

        :param obs: observations, ``[batch, ...]``.
        :param args: passed to ``net``.
        :param kwargs: passed to ``net``.
        """
        features = computed_once(self.encoder, obs, lambda: each_step(self.encoder, obs))
        return self.net(features, *args, **kwargs)


def is_image(space: gym.Space[Any]) -> bool:
    """Returns whether observations are images that are large enough for convolutions: with channels first or last, or
    bytes without channels.

    :param space: space of one observation.
    """
    if not isinstance(space, spaces.Box) or len(space.shape) not in ((2, 3) if space.dtype == "uint8" else (3,)):
        return False
    return min(_channels_first(torch.empty(1, *space.shape)).shape[2:]) >= _SMALLEST_IMAGE


def _channels_first(images: torch.Tensor) -> torch.Tensor:
    """Returns images as ``[batch, channels, height, width]``; the smaller outer axis is taken for the channels."""
    if images.ndim == 3:
        return images.unsqueeze(1)
    return images.permute(0, 3, 1, 2) if images.shape[3] < images.shape[1] else images
