"""Recording what a network computes: one pass on random observations, under a mode that sees each call of torch.

``torch.export`` would do the same, but takes 1.4 s at its first use and 0.1 s for each network; this takes some
milliseconds, so that it pays in runs of a few seconds, and it runs before the first step of every collect.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, resolve_name

from rlfast.data.forms import Form, Part
from rlfast.utils.runtime.native import NotNativeError


class Call(NamedTuple):
    """A call of a function of torch."""

    name: str
    """Its name without the module, such as ``linear``, ``add`` or ``view``."""
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any


class Trace(NamedTuple):
    """What a network computed from a batch of observations."""

    calls: list[Call]
    outputs: tuple[Tensor, ...]
    """Its outputs without the hidden state."""
    state: Any
    """The next hidden state; None if it has none."""


class Example(NamedTuple):
    """Random observations, or hidden states."""

    obs: Any
    """As a network gets them: tensors, or dicts of them."""
    arrays: Any
    """The same as arrays, which networks get while environments step in Python."""
    tensors: list[Tensor]
    """Their parts, ``[B, ...]``."""

    @classmethod
    def of(cls, form: Form, rows: int, generator: torch.Generator) -> Example:
        """Draw observations.

        :param form: their form.
        :param rows: how many.
        :param generator: the source of random numbers.
        """
        tensors = [
            torch.randn(rows, *part.shape, generator=generator, dtype=dtype)
            if dtype.is_floating_point
            else torch.randint(*limits, (rows, *part.shape), generator=generator, dtype=dtype)
            for part in form.parts
            for dtype, limits in [_numbers(part)]
        ]
        return cls(form.nested(tensors), form.nested([tensor.numpy() for tensor in tensors]), tensors)

    @property
    def flat(self) -> NDArray[np.float32]:
        """The numbers as the engine reads them."""
        rows = [tensor.reshape(len(tensor), -1).float() for tensor in self.tensors]
        numbers: NDArray[np.float32] = torch.cat(rows, dim=1).numpy()
        return numbers


def _numbers(part: Part) -> tuple[torch.dtype, tuple[int, int]]:
    """Return the dtype of a part, and between which numbers its integers are."""
    if part.is_bytes:
        return torch.uint8, (0, 256)
    floats = torch.float64 if part.is_double else torch.float32
    return torch.int64 if part.is_integer else floats, (part.least, part.least + 2)


class _Recorder(TorchFunctionMode):
    def __init__(self, known: Mapping[str, object]) -> None:
        super().__init__()
        self._known = known
        self.calls: list[Call] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        path: str = resolve_name(func) or func.__name__
        parts = path.split(".")
        name = parts[-2] if parts[-1] == "__get__" else parts[-1]
        if name not in self._known:  # before it is called: it might write to buffers, or draw random numbers
            raise NotNativeError(f"the network calls {path}, which is not among the known operations")
        if name == "embedding" and (args[3] if len(args) > 3 else kwargs.get("max_norm")) is not None:
            raise NotNativeError("the network changes the rows that it looks up (max_norm)")
        if name == "batch_norm" and (args[5] if len(args) > 5 else kwargs.get("training")):
            raise NotNativeError("a BatchNorm is in training mode")
        result = func(*args, **kwargs)
        self.calls.append(Call(name, func, args, kwargs, result))
        return result


class _Unread(Mapping[str, Any]):
    """Infos that cannot be read: they would be other ones in an environment."""

    def __getitem__(self, *_: object) -> NoReturn:
        raise NotNativeError("the network reads info")

    __iter__ = __len__ = __getattr__ = __getitem__


def called(module: nn.Module, obs: object, state: object = None) -> tuple[Any, Any]:
    """Return what a network computes, without gradients and warnings.

    :param module: the network.
    :param obs: observations, tensors or arrays ``[B, ...]``.
    :param state: the hidden state before them. Default: none.
    :raises NotNativeError: it reads ``info``.
    """
    given: dict[str, Any] = {} if state is None else {"state": state}
    if "info" in signature(module.forward).parameters:
        given["info"] = _Unread()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of torch.tensor(obs), which is right for arrays
        output, after = module(obs, **given)
    return output, after


def trace(module: nn.Module, obs: object, state: object, known: Mapping[str, object]) -> Trace:
    """Record what a network computes.

    :param module: called as ``module(obs)``; returns an output, or a tuple of outputs, and the next hidden state.
    :param obs: observations, tensors ``[B, ...]``.
    :param state: the hidden state before them; None for none.
    :param known: the names of the functions of torch that may be called.
    :raises NotNativeError: it calls another one, or raises.
    """
    recorder = _Recorder(known)
    name = type(module).__name__
    try:
        with recorder:
            output, after = called(module, obs, state)
    except NotNativeError:
        raise
    except Exception as error:
        raise NotNativeError(f"{name} was called on random observations and raised {error!r:.200}") from error
    outputs = output if isinstance(output, tuple | list) else (output,)
    if not all(isinstance(output, Tensor) for output in outputs):
        raise NotNativeError(f"{name} returns other outputs than tensors")
    return Trace(recorder.calls, tuple(outputs), after)
