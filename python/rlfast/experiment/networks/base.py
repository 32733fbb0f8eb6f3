"""The part of the networks of a run that all of them share: spaces, settings and hidden layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from gymnasium import spaces
from torch import nn

from rlfast.experiment.networks.encoder import Encoded, Encoder, is_image
from rlfast.utils.net.atari import layer_init
from rlfast.utils.net.common import Net, Recurrent, size_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import gymnasium as gym

    from rlfast.data import ReplayBuffer

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
}
"""The activations of hidden layers, by the names that settings give them."""


class NetworkBase:
    """Makes hidden layers for the observations of an environment.

    :param config: the settings of the run.
    :param title: the title of the algorithm, for errors.
    :param obs_space: observation space of one environment.
    :param act_space: action space of one environment.
    :param data: the transitions of an expert, for an algorithm that imitates it and also acts; None for others.
    """

    def __init__(
        self,
        config: Any,
        title: str,
        obs_space: gym.Space[Any],
        act_space: gym.Space[Any],
        data: ReplayBuffer | None = None,
    ) -> None:
        self.config, self.data = config, data
        self._title = title
        self._activation = ACTIVATIONS[self._chosen("activation", "relu")]
        self._obs_space, self._act_space = _without_mask(obs_space, act_space), act_space

    def _chosen(self, name: str, usual: object = False) -> Any:
        """Returns a setting, or ``usual`` for an algorithm that does not have it."""
        return getattr(self.config, name, usual)

    def _refuse_setting(self, flag: str) -> None:
        if self._chosen(flag):
            raise ValueError(f"{self._title} does not support --{flag}: leave it out")

    def _space_error(self, what: str, space: gym.Space[Any]) -> ValueError:
        return ValueError(f"{self._title} needs {what}, and those of {self.config.env} are {space}")

    def _vector_size(self) -> int:
        if not isinstance(self._obs_space, spaces.Box) or is_image(self._obs_space):
            raise self._space_error("observations that are vectors", self._obs_space)
        if not self.config.hidden_sizes:
            raise ValueError(f"{self._title} needs a hidden layer: give --hidden-sizes")
        return size_of(self._obs_space.shape)

    def _net(self, size: Any, **more: Any) -> Net:
        usual: dict[str, Any] = {"hidden_sizes": self.config.hidden_sizes, "activation": self._activation}
        return Net(size, **usual | more)

    def _recurrent(self, size: Any, outputs: int, **options: Any) -> Recurrent:
        units = self.config.hidden_sizes[-1]
        return Recurrent(1, size, outputs, hidden_layer_size=units, **options)

    def _body(self, size: object, **options: Any) -> nn.Module:
        """Returns a network of features for an actor's head."""
        if self.config.recurrent:
            return self._recurrent(size, self.config.hidden_sizes[-1])
        return self._net(size, **options)

    def _encoder(self) -> Encoder | None:
        space = self._obs_space
        if isinstance(space, spaces.Box) and not is_image(space):
            return None
        try:
            return Encoder(space, **self._convolutions())
        except TypeError:
            raise self._space_error("observations that are arrays, numbers or dicts of these", space) from None

    def _convolutions(self) -> dict[str, Any]:
        given: dict[str, Any] = {"channels": self.config.channels, "dtype": getattr(torch, self.config.dtype)}
        if self._chosen("orthogonal"):
            given["layer_init"] = layer_init
        return given

    def _over_encoder(self, head: Callable[[Any], nn.Module]) -> nn.Module:
        """Returns a head on observations that are vectors, or on encoded observations."""
        encoder = self._encoder()
        net = head(self._obs_space.shape) if encoder is None else Encoded(encoder, head(encoder.output_dim))
        return net.to(self.config.device)


def _without_mask(obs_space: gym.Space[Any], act_space: gym.Space[Any]) -> gym.Space[Any]:
    """Returns the space of what networks get: ``obs`` of a dict that also has a ``mask`` of counted actions."""
    masked = isinstance(obs_space, spaces.Dict) and {"obs", "mask"} <= obs_space.keys()
    return obs_space["obs"] if masked and not isinstance(act_space, spaces.Box) else obs_space  # type: ignore[index]
