from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import nn

from rlfast.utils.net._layers import size_of

Module = TypeVar("Module", bound=nn.Module)


def get_dict_state_decorator(
    state_shape: dict[str, int | Sequence[int]], keys: Sequence[str]
) -> tuple[Callable[[type[Module]], type[Module]], int]:
    """Make a decorator for classes of networks, which then take dicts of observations.

    The decorated network flattens and concatenates the observations.

    :param state_shape: the shape of one observation for each key.
    :param keys: the keys to use, in the order of concatenation.
    :return: the decorator, and the size of the concatenated observation, for the constructor of the network.

    >>> import numpy as np
    >>> from rlfast.utils.net.common import Net
    >>> decorate, size = get_dict_state_decorator({"pos": (2, 3), "goal": 1}, ["goal", "pos"])
    >>> net = decorate(Net)(size, 4)
    >>> net({"pos": np.zeros((5, 2, 3)), "goal": np.zeros(5)})[0].shape
    torch.Size([5, 4])
    """

    def flat(obs: Any) -> torch.Tensor:
        if not (hasattr(obs, "keys") and keys[0] in obs):
            return torch.as_tensor(obs, dtype=torch.float32)
        parts = [torch.as_tensor(obs[key], dtype=torch.float32) for key in keys]
        shape = state_shape[keys[0]]
        if tuple(parts[0].shape) == (
            (shape,) if isinstance(shape, int) else tuple(shape)
        ):  # a single observation without a batch axis
            return torch.cat([part.flatten() for part in parts])
        return torch.cat([part.reshape(len(part), -1) for part in parts], dim=1)

    def decorate(net_class: type[Module]) -> type[Module]:
        class Flattening(net_class):  # type: ignore[misc, valid-type]
            def forward(self, obs: object, *args: Any, **kwargs: Any) -> Any:
                return super().forward(flat(obs), *args, **kwargs)

        Flattening.__name__, Flattening.__qualname__ = net_class.__name__, net_class.__qualname__
        return Flattening

    return decorate, sum(size_of(state_shape[key]) for key in keys)
