"""Whether modules changed, so that what was computed from their structure must be computed again.

PyTorch reports to public hooks that a parameter, a buffer or a submodule was registered; that modules have forward
hooks is in private dicts. This buys acting in Rust: a decision in a few microseconds, instead of some fifty.
``tests/utils/torch_private/test_changes.py`` falls when PyTorch changes.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

from rlfast._core import Unchanged
from rlfast.utils.runtime.extras import needed_by
from rlfast.utils.runtime.native import NotNativeError

with needed_by("rlfast.utils.torch_private.changes"):
    import torch
    from torch import nn
    from torch.nn.modules import module as torch_module

GRADIENT_MODE = torch._C._set_grad_enabled.__name__  # noqa: SLF001
"""The name of what ``torch.no_grad()`` calls, as modes of torch functions see it."""

_registrations = 0
_CONTAINERS = (dict, OrderedDict, list)


def _count(*_: Any) -> None:
    global _registrations  # noqa: PLW0603 (a count for the process)
    _registrations += 1


torch_module.register_module_parameter_registration_hook(_count)
torch_module.register_module_buffer_registration_hook(_count)
torch_module.register_module_module_registration_hook(_count)

_GLOBAL_HOOKS: tuple[dict[Any, Any], ...] = (
    torch_module._global_forward_hooks,  # noqa: SLF001
    torch_module._global_forward_pre_hooks,  # noqa: SLF001
)


def registrations() -> int:
    """Return how many parameters, buffers and submodules were registered in this process, in any module.

    >>> before, layer = registrations(), nn.Linear(1, 1)
    >>> layer.weight = nn.Parameter(torch.zeros(1, 1))
    >>> registrations() - before > 0
    True
    """
    return _registrations


def is_compiled(module: nn.Module) -> bool:
    """Return whether a module is a result of ``torch.compile``.

    :param module: the module.

    >>> is_compiled(nn.Linear(1, 1))
    False
    """
    return type(module).__module__.startswith("torch._dynamo")


class ChangingNetworkError(NotNativeError):
    """A network changes its own attributes at every call."""


@contextmanager
def undone(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Undo what a call of modules changes in their attributes, and refuse it: acting in Rust would not change them.

    :param modules: the modules.
    :raises ChangingNetworkError: an attribute has changed, or the contents of a dict or a list.
    """
    before = [
        (
            vars(one),
            {name: (value, copy(value) if type(value) in _CONTAINERS else None) for name, value in vars(one).items()},
        )
        for one in modules
    ]
    changed: list[str] = []
    try:
        yield
    finally:
        for attributes, known in before:
            for name in attributes.keys() - known.keys():
                changed.append(name)
                del attributes[name]
            for name, (value, inside) in known.items():
                if attributes.get(name) is not value or (inside is not None and _ids(value) != _ids(inside)):
                    changed.append(name)
                    attributes[name] = value
                    if inside is not None:
                        value.clear()
                        (value.extend if isinstance(value, list) else value.update)(inside)
    if changed:
        raise ChangingNetworkError(f"the network changes its {changed[0].lstrip('_')}, which acting in Rust would not")


def _ids(inside: object) -> list[int]:
    return [id(one) for one in (*inside, *(inside.values() if isinstance(inside, dict) else ()))]  # type: ignore[misc]


class ModuleVersion:
    """The state of modules that a computation from their structure rests on. Values of parameters are no part of it.

    :param modules: the modules, whose mode and hooks count.
    :param tensors: parameters and buffers whose memory counts, as modules and names.
    :param caller: a module that calls them, of which only hooks count. No reference to it is kept.
    :param attributes: whether other attributes of the modules count, such as a number by which a network divides, or a
        method assigned to an object; of those of PyTorch's own modules only their number counts. Default: False.
    """

    def __init__(
        self,
        modules: Sequence[nn.Module],
        tensors: Sequence[tuple[nn.Module, str]],
        caller: nn.Module,
        *,
        attributes: bool = False,
    ) -> None:
        held = [vars(module) for module in modules] if attributes else []
        values = [
            (one, name)
            for one, module in zip(held, modules, strict=False)
            if not type(module).__module__.startswith("torch.")
            for name in one
            if name != "training" and not name.startswith("_")
        ]
        hooks = [*_GLOBAL_HOOKS]
        for module in (*modules, caller):
            hooks += module._forward_hooks, module._forward_pre_hooks  # noqa: SLF001
        places = [(_holder(module, name), name) for module, name in tensors]
        self._modules = Unchanged(held, values, places, [*modules], hooks)
        self._registrations, self._had_autocast = _registrations, _is_autocast()

    @property
    def has_hooks(self) -> bool:
        """Whether a module has forward hooks, or all modules have."""
        return self._modules.has_hooks

    def is_current(self) -> bool:
        """Return whether parameters, buffers, submodules, modes and attributes are as before, whether there are hooks,
        and whether autocast is on.
        """
        return (
            self._registrations == _registrations
            and self._modules.is_current()
            and _is_autocast() is self._had_autocast
        )


def _is_autocast() -> bool:
    return torch.is_autocast_enabled("cpu")


def _holder(module: nn.Module, name: str) -> dict[str, Any]:
    parameters = module._parameters  # noqa: SLF001
    held: Any = parameters if name in parameters else module._buffers  # noqa: SLF001
    return held if isinstance(held, dict) else dict(held.items())  # those of scripted modules are no dicts
