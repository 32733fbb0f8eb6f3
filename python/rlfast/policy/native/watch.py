"""Notices that modules compute something else than before."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as torch_module

from rlfast._core import Unchanged

_GLOBAL_HOOKS = (
    torch_module._global_forward_hooks,  # noqa: SLF001 (torch has no other way to ask)
    torch_module._global_forward_pre_hooks,  # noqa: SLF001
)
_address = torch.Tensor.data_ptr
_is_contiguous = torch.Tensor.is_contiguous


class Watch:
    """What a computation in Rust rests on: modules without hooks, with the same parts, numbers and memory as before.

    The values of parameters are no part of it, as they are read at every pass.
    """

    def __init__(self) -> None:
        self._modules: list[nn.Module] = []
        self._hooks: list[dict[Any, Any]] = [*_GLOBAL_HOOKS]
        self._tables: list[dict[Any, Any]] = []
        self._tensors: list[torch.Tensor] = []
        self._facts: list[tuple[dict[str, Any], str]] = []
        self._addresses: list[int] = []
        self._unchanged = Unchanged([], [], [])

    def module(self, module: nn.Module) -> None:
        """Add a module.

        :param module: the module, whose class computes its output.
        """
        own = vars(module)
        self._modules.append(module)
        self._facts.append((own, "forward"))
        self._hooks += own["_forward_hooks"], own["_forward_pre_hooks"]
        self._tables += own["_modules"], own["_parameters"]

    def parts(self, module: nn.Module) -> None:
        """Add a module of which only parameters and buffers are read.

        :param module: the module.
        """
        self._tables += vars(module)["_parameters"], vars(module)["_buffers"]

    def tensor(self, tensor: torch.Tensor) -> None:
        """Add a tensor whose memory is read.

        :param tensor: a parameter or buffer of one of the modules.
        """
        self._tensors.append(tensor)

    def fact(self, module: nn.Module, name: str) -> Any:
        """Add an attribute, and return its value.

        :param module: one of the modules.
        :param name: the name of the attribute.
        """
        value = getattr(module, name)
        self._facts.append((vars(module), name))
        return value

    def begin(self) -> bool:
        """Take what is there now for what must stay.

        :return: whether there are no hooks, and no instance has a ``forward`` of its own.
        """
        self._unchanged = Unchanged(self._modules, [*self._hooks, *self._tables], self._facts)
        self._addresses = [*map(_address, self._tensors)]
        has_own = any(self._hooks) or any("forward" in vars(module) for module in self._modules)
        return self.holds() and not has_own

    def holds(self) -> bool:
        """Return whether all is as it was at :meth:`begin`."""
        return (
            self._unchanged.holds()
            and [*map(_address, self._tensors)] == self._addresses
            and all(map(_is_contiguous, self._tensors))
            and not torch.is_autocast_enabled("cpu")
        )
