"""What observations are: arrays, or dicts of arrays, whose numbers the engine reads one after the other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlfast._core import SchemaMismatch
from rlfast.data.batch.batch import Batch, wrap_nested
from rlfast.utils.runtime.native import NotNativeError

_NUMBERS = np.generic | float | int


class Part(NamedTuple):
    """An array of one observation."""

    keys: tuple[str, ...]
    """Its keys in nested dicts; none if it is the whole observation."""
    shape: tuple[int, ...]
    is_bytes: bool = False
    """Whether it is of uint8, such as an image, as networks may scale such numbers."""
    is_integer: bool = False
    """Whether it is of other integers, by which networks may look up rows."""
    is_double: bool = False
    """Whether it is of float64, with which networks may compute before they convert it."""
    least: int = 0
    """A number that integers may be, and the next one, too."""

    @classmethod
    def of(cls, keys: tuple[str, ...], array: NDArray[Any], axes: int = 0) -> Part:
        """Return the part that an array is.

        :param keys: its keys.
        :param array: the array.
        :param axes: how many of its first axes are of rows. Default: 0.
        """
        return cls(keys, array.shape[axes:], *_kind(array.dtype))


@dataclass(frozen=True)
class Form:
    """The arrays of one observation."""

    parts: tuple[Part, ...]

    @classmethod
    def of(cls, obs: object, *, batched: bool = False) -> Form:
        """Return the form of an observation.

        :param obs: an array, a number, a list of numbers, or a dict of arrays.
        :param batched: whether arrays have an axis more, of environments. Default: False.
        :raises NotNativeError: it has other parts, or a mask of legal actions.
        """
        if isinstance(obs, np.ndarray) and obs.dtype.kind in "fiub" and obs.ndim >= batched:
            return _of_array(obs.shape[int(batched) :], *_kind(obs.dtype))
        return cls(tuple(_parts(obs, (), int(batched))))

    @classmethod
    def given(cls, shape: tuple[int, ...] | Form, *, is_bytes: bool = False) -> Form:
        """Return a form as it is, and a shape as the form of an array.

        :param shape: the form or shape.
        :param is_bytes: whether the array is of uint8, and not of floats.
        :raises TypeError: a shape is no tuple of whole numbers.
        """
        if isinstance(shape, Form):
            return shape
        sizes: Any = shape  # of scripts without types, which may pass a range without end
        if not isinstance(sizes, tuple) or not all(isinstance(size, int | np.integer) for size in sizes):
            raise TypeError(f"the shape of an observation is a tuple of whole numbers, got {shape!r:.100}")
        return _of_array(shape, is_bytes, False, False)

    def flat(self, obs: object, *, batched: bool = True) -> Any:
        """Return the numbers of observations in the order in which the engine reads them.

        :param obs: the observations.
        :param batched: whether they have an axis of rows. Default: True.
        :return: an array as it is; of a dict, float32 ``[B, ...]``.
        :raises SchemaMismatch: they are of another form.
        """
        if not self.parts[0].keys:
            obs = np.asarray(obs) if isinstance(obs, _NUMBERS) else obs
            if isinstance(obs, np.ndarray) and _kind(obs.dtype) != self.parts[0][2:5]:
                raise SchemaMismatch(f"observations are {obs.dtype}")
            return obs
        rows: list[NDArray[Any]] = []
        for known in self.parts:
            part = obs
            for key in known.keys:
                part = part.get(key) if isinstance(part, dict | Batch) else None
            array = np.asarray(part)
            if array.ndim < batched or Part.of(known.keys, array, int(batched))[:5] != known[:5]:
                raise SchemaMismatch(f"observations have another {'.'.join(known.keys)}")
            rows.append(array.reshape(*array.shape[: int(batched)], -1))
        if batched and len({len(row) for row in rows}) > 1:
            raise SchemaMismatch("parts of observations have other numbers of rows")
        with np.errstate(over="ignore"):  # torch converts to infinity, too
            return np.concatenate(rows, axis=-1, dtype=np.float32, casting="unsafe")

    def rows(self, obs: object) -> int | None:
        """Return the number of rows of observations; None for what has none.

        :param obs: the observations.
        """
        for key in self.parts[0].keys:
            obs = obs.get(key) if isinstance(obs, dict | Batch) else None
        return len(obs) if isinstance(obs, np.ndarray) and obs.ndim else None

    def row_of(self, obs: object) -> Any:
        """Return one observation as a batch of one row; what is no array and no number stays as it is.

        :param obs: the observation.
        """
        if isinstance(obs, dict):
            return {key: self.row_of(value) for key, value in obs.items()}
        return np.asarray(obs)[None] if isinstance(obs, np.ndarray | np.generic | list | float | int) else obs

    def nested(self, leaves: Sequence[Any]) -> Any:
        """Return parts as networks get them: the only one, or a ``Batch``.

        :param leaves: the parts.
        """
        nested: dict[str, Any] = {}
        for part, leaf in zip(self.parts, leaves, strict=True):
            inner = nested
            for key in part.keys[:-1]:
                inner = inner.setdefault(key, {})
            if not part.keys:
                return leaf
            inner[part.keys[-1]] = leaf
        return wrap_nested(nested)

    @property
    def size(self) -> int:
        """The numbers of one observation."""
        return sum(math.prod(part.shape) for part in self.parts)


@lru_cache(maxsize=256)
def _of_array(shape: tuple[int, ...], is_bytes: bool, is_integer: bool, is_double: bool) -> Form:
    """Return the form of an array, the same object each time, which is quick to make and to compare."""
    return Form((Part((), shape, is_bytes, is_integer, is_double),))


def _kind(dtype: np.dtype[Any]) -> tuple[bool, bool, bool]:
    """Return whether numbers are bytes, whether they are other integers, and whether they are of float64."""
    return _KINDS.get(dtype.char, (False, False, False))


_KINDS = {
    "B": (True, False, False),
    **dict.fromkeys("bhHiIlLqQ", (False, True, False)),
    **dict.fromkeys("dg", (False, False, True)),
}
"""The dtypes that are told from float32, by their letters."""


def _parts(obs: object, keys: tuple[str, ...], axes: int) -> Iterator[Part]:
    if isinstance(obs, Batch):
        obs = vars(obs)
    if isinstance(obs, dict) and obs and all(isinstance(key, str) for key in obs):
        if "mask" in obs and not keys:
            raise NotNativeError("observations have a mask of legal actions")
        for key, value in obs.items():
            yield from _parts(value, (*keys, key), axes)
        return
    if isinstance(obs, list | float | int) and not keys:
        with suppress(ValueError):  # of a ragged list
            yield Part.of(keys, np.asarray(obs))
            return
    if isinstance(obs, np.generic):
        obs = np.asarray(obs)
    if not isinstance(obs, np.ndarray) or obs.dtype.kind not in "fiub" or obs.ndim < axes:
        raise NotNativeError("observations are no arrays of one shape")
    yield Part.of(keys, obs, axes)
