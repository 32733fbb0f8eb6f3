"""Priorities of rows, and the decorator of methods that only prioritized buffers have."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlfast.data.buffer.options.samplers import Prioritized
from rlfast.data.buffer.store.row_range import RowRange
from rlfast.data.buffer.store.store import Index

P = ParamSpec("P")
R = TypeVar("R")


class when_prioritized(Generic[P, R]):  # noqa: N801 (a decorator)
    """A method that only prioritized buffers have, as scripts call ``hasattr(buffer, "update_weight")``."""

    def __init__(self, function: Callable[Concatenate[Any, P], R]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[Concatenate[Any, P], R]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Callable[P, R]: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self.function
        if not instance._core.prioritized:
            raise missing(instance, self.function.__name__)
        return MethodType(self.function, instance)


def missing(buffer: object, name: str) -> AttributeError:
    """Returns the error for an attribute that only prioritized buffers have."""
    return AttributeError(f"{type(buffer).__name__} has no {name!r}: it samples uniformly")


def reset(rows: RowRange, index: int | Index) -> None:
    """Gives rows the largest priority so far."""
    core = rows.core
    core.hold(lambda: core.tree.__setitem__(rows.resolve(index), core.max_priority ** exponent(rows)))


def exponent(rows: RowRange) -> float:
    """Returns alpha, the exponent of priorities."""
    sampler = rows.config.sampler
    assert isinstance(sampler, Prioritized)
    return sampler.alpha


def weights(rows: RowRange, here: Index, *, normalize: bool | None = None) -> NDArray[np.float64]:
    """Returns importance weights of rows of the store, of any shape.

    :param normalize: whether weights are divided by the largest of them; None for the option of the sampler.
    """
    return rows.core.weights(here.reshape(-1), normalize).reshape(here.shape)


def update(rows: RowRange, index: int | Index, new_weight: ArrayLike) -> None:
    """Sets priorities from TD errors.

    :raises ValueError: for NaN or infinity, or if the numbers of values and rows differ. Nothing is changed then.
    """
    detach = getattr(new_weight, "detach", None)  # a torch tensor
    values = np.abs(np.asarray(detach().cpu() if detach else new_weight, np.float64)).reshape(-1)
    if rows.whole and type(index) is np.ndarray and index.dtype == np.int64:
        try:
            rows.core.update_priority(index, values if values.size != 1 else np.resize(values, index.size))
        except IndexError:  # rows that count from the end, or that do not exist; nothing was changed
            pass
        else:
            return
    here = rows.resolve(index)
    here = here if here.ndim == 1 else here.reshape(-1)
    rows.core.update_priority(here, values if values.size != 1 else np.resize(values, len(here)))


def set_beta(rows: RowRange, beta: float) -> None:
    """Sets the exponent of the importance weights.

    :raises ValueError: if ``beta`` is negative or NaN.
    """
    if not beta >= 0.0:
        raise ValueError(f"beta must be >= 0, got {beta}")
    rows.core.beta = float(beta)
