"""Copies on the CPU of networks on other devices, which choose actions there."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import nn

from rlfast.utils.runtime.native import NotNativeError

MOST_NUMBERS = 1 << 18
"""Parameters and buffers of the largest network that is copied: the device computes larger ones sooner."""


def is_elsewhere(network: nn.Module) -> bool:
    """Return whether a network has parameters on another device than the CPU.

    :param network: the network.
    """
    return any(tensor.device.type != "cpu" for tensor in network.parameters())


class HostCopy:
    """A copy of a network, whose weights one transfer refreshes.

    With it, a decision takes less time than launching the kernels of one on a GPU.

    :param network: the network.
    :raises NotNativeError: it is large, or cannot be copied.
    """

    def __init__(self, network: nn.Module) -> None:
        given = [*network.parameters(), *network.buffers()]
        numbers = sum(tensor.numel() for tensor in given)
        if numbers > MOST_NUMBERS:
            raise NotNativeError(f"it is on {given[0].device}, where its {numbers:,} numbers are computed sooner")
        if not all(tensor.dtype == torch.float32 and tensor.is_contiguous() for tensor in given):
            raise NotNativeError(f"it is on {given[0].device}, and not all of its tensors are contiguous float32")
        try:
            self.network = deepcopy(network).to("cpu")
        except (RuntimeError, TypeError, ValueError, AttributeError) as error:
            raise NotNativeError(f"it is on {given[0].device}, and has no copy on the CPU: {error!r:.200}") from error
        self._given = [tensor.detach().view(-1) for tensor in given]
        self._on_device = torch.cat(self._given)
        self._numbers = torch.empty(numbers, pin_memory=self._on_device.is_cuda)
        parts = torch.split(self._numbers, [len(tensor) for tensor in self._given])
        for own, part in zip([*self.network.parameters(), *self.network.buffers()], parts, strict=True):
            own.data = part.view(own.shape)
        self.refresh()

    def refresh(self) -> None:
        """Copy the weights that the network has now."""
        torch.cat(self._given, out=self._on_device)
        self._numbers.copy_(self._on_device)
