"""Priorities of rows, and the methods that only prioritized buffers have."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlfast._core import SegmentTree
from rlfast.data.buffer.options.samplers import Prioritized
from rlfast.data.buffer.store.row_range import HasRows, RowRange
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


def weights(rows: RowRange, here: Index, *, normalize: bool | None = None) -> NDArray[np.float64]:
    """Returns importance weights of rows of the store, of any shape.

    :param normalize: whether weights are divided by the largest of them; None for the option of the sampler.
    """
    return rows.core.weights(here.reshape(-1), normalize).reshape(here.shape)


def least(rows: RowRange) -> float:
    """Returns the smallest priority of a row, to which importance weights relate; 1 without rows."""
    leaves = np.asarray(rows.core.tree[np.arange(rows.core.total)])
    least: float = np.min(leaves, where=leaves > 0, initial=np.inf)
    assert isinstance(rows.config.sampler, Prioritized)
    return 1.0 if least == np.inf else float(least ** (1 / rows.config.sampler.alpha))


def magnitudes(errors: ArrayLike) -> NDArray[np.float64]:
    """Returns the absolute values of TD errors, ``[B]``, which may be an array or a tensor."""
    detach = getattr(errors, "detach", None)  # a torch tensor
    values: NDArray[np.float64] = np.abs(np.asarray(detach().cpu() if detach else errors, np.float64)).reshape(-1)
    return values


def checked_beta(beta: float) -> float:
    """Returns the exponent of importance weights.

    :raises ValueError: if it is negative or NaN.
    """
    if not beta >= 0.0:
        raise ValueError(f"beta must be >= 0, got {beta}")
    return float(beta)


def _update(rows: RowRange, here: Index, values: NDArray[np.float64]) -> None:
    here = here if here.ndim == 1 else here.reshape(-1)
    rows.core.update_priority(here, values if values.size != 1 else np.resize(values, len(here)))


class PriorityMethods(HasRows):
    """The methods of a buffer about priorities. Each name raises an AttributeError if rows are drawn uniformly."""

    def _need_priorities(self, name: str) -> None:
        if not self._core.prioritized:
            raise missing(self, name)

    @property
    def _alpha(self) -> float:
        self._need_priorities("_alpha")
        sampler = self._config.sampler
        assert isinstance(sampler, Prioritized)
        return sampler.alpha

    @property
    def _min_prio(self) -> float:
        self._need_priorities("_min_prio")
        return least(self._rows)

    @property
    def weight(self) -> SegmentTree:
        """The sum tree of priorities to the power of alpha."""
        self._need_priorities("weight")
        return self._core.tree

    @property
    def stale_updates(self) -> int:
        """The number of priority updates that were ignored because their rows had been overwritten after sampling."""
        self._need_priorities("stale_updates")
        return self._core.stale_updates

    @when_prioritized
    def init_weight(self, index: int | Index) -> None:
        """Gives rows the largest priority so far, which new rows have, too.

        :param index: one row or many.
        :raises IndexError: if a row is out of range.
        """
        core = self._core
        core.hold(lambda: core.tree.__setitem__(self._rows.resolve(index), core.max_priority**self._alpha))

    @when_prioritized
    def get_weight(self, index: int | Index) -> float | NDArray[np.float64]:
        r"""Returns importance weights :math:`(P(i) / \min_k P(k))^{-\beta}` over live rows :math:`k`.

        They are not divided by the largest of the batch (Schaul et al. 2016, arXiv:1511.05952, section 3.4).

        :param index: one row or many.
        :return: float64 of the shape of ``index``.
        """
        found = weights(self._rows, self._rows.resolve(index), normalize=False)
        return float(found) if found.ndim == 0 else found

    @when_prioritized
    def update_weight(self, index: int | Index, new_weight: ArrayLike) -> None:
        r"""Sets priorities: leaves become :math:`(|\delta| + \epsilon)^\alpha`, where :math:`\epsilon` is that of
        float32.

        Rows that were overwritten after ``index`` was sampled keep their present priority.

        :param index: rows, preferably the array that ``sample`` returned, which records generations.
        :param new_weight: TD errors :math:`\delta`, an array or tensor with one for each row, or one for all; if a row
            occurs twice, its last value counts.
        :raises ValueError: for NaN or infinity, or if the numbers of values and rows differ. Nothing is changed then.
        """
        rows = self._rows
        values = magnitudes(new_weight)
        rows.read(True, _update, index, values)

    @when_prioritized
    def set_beta(self, beta: float) -> None:
        """Sets the exponent of the importance weights, for a manager and all its buffers together.

        :param beta: the exponent, at least 0.
        :raises ValueError: if it is negative or NaN.
        """
        self._core.beta = checked_beta(beta)
