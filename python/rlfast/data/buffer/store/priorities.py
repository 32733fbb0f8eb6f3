"""Priorities on any buffer whose sampler is prioritized."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlfast.data.buffer.samplers import Prioritized
from rlfast.data.buffer.store.row_range import Rows
from rlfast.data.buffer.store.store import Index

if TYPE_CHECKING:
    from rlfast._core import SegmentTree

P = ParamSpec("P")
R = TypeVar("R")


class _WhenPrioritized(Generic[P, R]):
    """A method that a uniformly sampled buffer does not have: scripts probe ``hasattr(buffer, "update_weight")``."""

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
        instance._need_priorities(self.function.__name__)
        return MethodType(self.function, instance)


class Priorities(Rows):
    """What a prioritized buffer can do beside the rest. Without priorities every name here is an AttributeError."""

    def _need_priorities(self, name: str) -> None:
        if not self._core.prioritized:
            raise AttributeError(f"{type(self).__name__} has no {name!r}: it samples uniformly")

    @property
    def weight(self) -> SegmentTree:
        """The sum tree over priorities to the power of alpha."""
        self._need_priorities("weight")
        return self._core.tree

    @property
    def stale_updates(self) -> int:
        """Priority updates refused so far because their rows had been overwritten since they were sampled."""
        self._need_priorities("stale_updates")
        return self._core.stale_updates

    @_WhenPrioritized
    def init_weight(self, index: int | Index) -> None:
        """Gives rows the largest priority so far, as new rows have it.

        :param index: one row or many.
        """
        sampler = self._config.sampler
        assert isinstance(sampler, Prioritized)
        self._core.tree[self._rows(index)] = self._core.max_priority**sampler.alpha

    @_WhenPrioritized
    def get_weight(self, index: int | Index) -> float | NDArray[np.float64]:
        r"""Importance weights :math:`(P(i) / \min_k P(k))^{-\beta}` over live rows :math:`k`, not normalised by batch.

        Schaul et al. 2016, arXiv:1511.05952, section 3.4.

        :param index: one row or many.
        :return: float64, of the shape of ``index``.
        """
        weights = self._weights(self._rows(index), normalize=False)
        return float(weights) if weights.ndim == 0 else weights

    @_WhenPrioritized
    def update_weight(self, index: int | Index, new_weight: ArrayLike) -> None:
        r"""Sets priorities: the leaf becomes :math:`(|\delta| + \epsilon)^\alpha`, with :math:`\epsilon` of float32.

        Rows that were overwritten since ``index`` was sampled keep the priority of what they hold now.

        :param index: rows, best the array that ``sample`` gave.
        :param new_weight: TD errors :math:`\delta`, an array or tensor with one for each row, or one for all; of a
            repeated row the last counts.
        :raises ValueError: NaN or infinity, or another number of values than rows; nothing is changed then.
        """
        detach = getattr(new_weight, "detach", None)  # a torch tensor
        values = np.abs(np.asarray(detach().cpu() if detach else new_weight, np.float64)).reshape(-1)
        if self._whole and type(index) is np.ndarray and index.dtype == np.int64:
            try:
                self._core.update_priority(index, values if values.size != 1 else np.resize(values, index.size))
            except IndexError:  # rows from the end, or none at all: looked at one by one below, nothing is changed yet
                pass
            else:
                return
        rows = self._rows(index)
        rows = rows if rows.ndim == 1 else rows.reshape(-1)
        self._core.update_priority(rows, values if values.size != 1 else np.resize(values, len(rows)))

    @_WhenPrioritized
    def set_beta(self, beta: float) -> None:
        """Sets the exponent of the importance weights, for this buffer with all its children.

        :param beta: >= 0.
        :raises ValueError: beta is negative or NaN.
        """
        if not beta >= 0.0:
            raise ValueError(f"beta must be >= 0, got {beta}")
        self._core.beta = float(beta)

    def _weights(self, rows: Index, *, normalize: bool | None = None) -> NDArray[np.float64]:
        return self._core.weights(rows.reshape(-1), normalize).reshape(rows.shape)
