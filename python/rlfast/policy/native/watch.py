"""Notices that modules compute something else than before."""

from __future__ import annotations

from itertools import chain, repeat
from operator import contains
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as torch_module

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
        self._dicts: list[dict[str, Any]] = []
        self._hooks: list[Any] = [*_GLOBAL_HOOKS]
        self._tables: list[dict[str, Any]] = []
        self._tensors: list[torch.Tensor] = []
        self._facts: list[tuple[dict[str, Any], str, Any]] = []
        self._state: tuple[Any, ...] = ()
        self._parts: list[Any] = []  # kept alive, so that no other object gets their ids
        self._ids: list[int] = []

    def module(self, module: nn.Module) -> None:
        """Add a module.

        :param module: the module, whose class computes its output.
        """
        own = vars(module)
        self._modules.append(module)
        self._dicts.append(own)
        self._hooks += own["_forward_hooks"], own["_forward_pre_hooks"]
        self._tables += own["_modules"], own["_parameters"]

    def tensor(self, tensor: torch.Tensor) -> None:
        """Add a tensor whose memory is read.

        :param tensor: a parameter of one of the modules.
        """
        self._tensors.append(tensor)

    def fact(self, module: nn.Module, name: str) -> Any:
        """Add an attribute, and return its value.

        :param module: one of the modules.
        :param name: the name of the attribute.
        """
        value = getattr(module, name)
        self._facts.append((vars(module), name, value))
        return value

    def begin(self) -> bool:
        """Take what is there now for what must stay.

        :return: whether there are no hooks, and no class or instance has a ``forward`` of its own.
        """
        self._state, self._parts = self._now(), [*chain.from_iterable(map(dict.values, self._tables))]
        self._ids = [*map(id, self._parts)]
        return self.holds()

    def holds(self) -> bool:
        """Return whether all is as it was at :meth:`begin`."""
        return (
            not any(self._hooks)
            and [*map(id, chain.from_iterable(map(dict.values, self._tables)))] == self._ids
            and self._now() == self._state
            and not any(map(contains, self._dicts, repeat("forward")))
            and not torch.is_autocast_enabled("cpu")
        )

    def _now(self) -> tuple[Any, ...]:
        return (
            [*map(type, self._modules)],
            [*map(_address, self._tensors)],
            [*map(_is_contiguous, self._tensors)],
            [own.get(name) == value for own, name, value in self._facts],
        )
