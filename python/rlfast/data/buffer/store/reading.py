"""Drawing and reading rows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import combinations
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlfast.data.batch.batch import Batch, wrap
from rlfast.data.buffer.options.config import Config
from rlfast.data.buffer.options.units import NStep, Readable, Sequence
from rlfast.data.buffer.store import priorities
from rlfast.data.buffer.store.row_range import IndexLike, RowRange, shift
from rlfast.data.buffer.store.store import STACKED, Index, Store
from rlfast.utils.arguments.checks import count_of

Out: TypeAlias = Mapping[str, NDArray[Any]] | Batch


class Sampled(Readable, Protocol):
    """The parts of a buffer that sampling uses."""

    _config: Config
    _rows: RowRange

    def sample_indices(self, batch_size: int | None) -> Index:
        """Draws rows."""


def draw(rows: RowRange, batch_size: int) -> Index:
    """Draws indices by the sampler.

    :param batch_size: number of rows; 0 for all rows, oldest first.
    """
    if rows.config.relabel is not None:
        return rows.core.hold(partial(_draw, rows, batch_size))
    return _draw(rows, batch_size)


def _draw(rows: RowRange, batch_size: int) -> Index:
    core, relabel = rows.core, rows.config.relabel
    drawn = core.draw(batch_size, rows.only_ring) if batch_size else core.chronological(rows.only_ring)
    if relabel is not None and len(drawn):
        drawn = relabel.choose(core, drawn)
    return rows.outside(drawn)


def sample(buffer: Sampled, batch_size: int | None, out: Out | None, maker: str | None) -> tuple[Batch, Index]:
    """Draws rows by ``sample_indices``, and expands them to the unit of the buffer by the methods that read rows.

    :param out: arrays to be filled; see :meth:`rlfast.data.ReplayBuffer.sample`.
    :param maker: the method of a subclass that makes batches, if any.
    :raises ValueError: if ``out`` is given, but batches are not made by the engine.
    """
    unit, rows = buffer._config.unit, buffer._rows
    expands = isinstance(unit, NStep | Sequence)
    if out is None:
        indices = buffer.sample_indices(batch_size)
        return unit.expand(buffer, indices) if isinstance(unit, NStep | Sequence) else buffer[indices], indices
    if expands or maker:
        maker = type(unit).__name__ if expands else maker
        raise ValueError(f"{maker} makes the rows of this buffer's batches itself: sample without out")
    given = fillable(rows.store, out)
    indices = buffer.sample_indices(batch_size)
    return wrap(fields(rows, rows.resolve(indices), out=given)), indices


def fillable(store: Store, out: Out) -> dict[str, NDArray[Any]]:
    """Returns the arrays of ``out`` by name.

    :raises ValueError: if a name has no column of numbers, or arrays overlap.
    """
    if not store.schema:
        return {}  # there is no row to draw, so drawing raises an error
    names = {path[0] for path in store.schema.numbers if len(path) == 1 and path[0] not in store.assigned}
    names |= {"done"} | ({"obs_next"} if "obs" in names else set()) | ({"weight"} if store.core.prioritized else set())
    empty = [key for key, value in out.items() if isinstance(value, Batch | Mapping) and not len(value.keys())]
    given = {key: value for key, value in out.items() if key not in empty}  # such as the info of an earlier batch
    if wrong := [key for key in given if key not in names]:
        raise ValueError(
            f"out gives {wrong[0]}, but only arrays of numbers that stand at the top of a batch can be filled: "
            f"{', '.join(sorted(names))}"
        )
    for (name, one), (other_name, other) in combinations(given.items(), 2):
        if np.may_share_memory(one, other):
            raise ValueError(f"out gives overlapping arrays for {name} and {other_name}")
    return given


def batch(rows: RowRange, here: Index) -> Batch:
    """Returns all fields of rows of the store as a new batch.

    Inside of nested fields, the values of one row are scalars.
    """
    if rows.direct and here.ndim and rows.store.seen:
        return wrap(rows.store.take(here, None, rows.stack_num))
    found = fields(rows, here)
    if here.ndim == 0:
        found = {key: scalars(value) if isinstance(value, Batch) else value for key, value in found.items()}
    return wrap(found)


def scalars(value: object) -> Any:
    """Returns values with NumPy's scalars in place of arrays without axes, which cannot be keys of a dict.

    :param value: an array, or a batch of arrays.
    """
    if isinstance(value, Batch):
        return wrap({key: scalars(part) for key, part in value.items()})
    return value[()] if type(value) is np.ndarray and not value.ndim else value


def joined(rows: RowRange, index: Index, given: dict[str, Any], later: Index, names: tuple[str, ...]) -> Batch:
    """Returns rows as a batch that has the ``given`` fields, and the fields ``names`` of the rows ``later``.

    :raises IndexError: if a row is out of range, or ``index`` is not an index.
    """
    return rows.read(False, _joined, index, given, shift(later, rows.base), names)


def _joined(rows: RowRange, here: Index, given: dict[str, Any], later: Index, names: tuple[str, ...]) -> Batch:
    if not rows.store.seen and not rows.store.schema:
        return wrap(_no_rows() | given)
    order = rows.store.fields
    found = fields(rows, here, [name for name in order if name not in given and name not in names])
    found |= fields(rows, later, list(names)) | given
    batch = {name: found.pop(name) for name in order}
    if rows.core.prioritized:
        batch["weight"] = priorities.weights(rows, here)
    return wrap(batch | found)


def fields(
    rows: RowRange,
    here: Index,
    keys: list[str] | None = None,
    stack_num: int | None = None,
    out: Mapping[str, NDArray[Any]] | None = None,
) -> dict[str, Any]:
    """Returns fields of rows of the store, with hindsight goals; all fields include importance weights.

    :param here: rows of the store, of any shape.
    :param keys: names of fields at the top level; None for all.
    :param stack_num: number of frames of a stack; None for the buffer's own.
    :param out: arrays to be filled, by name.
    :raises ValueError: if one of them is read-only, or has another dtype or shape.
    """
    store = rows.store
    if not store.seen and not store.schema and here.size == 0:
        return _no_rows()
    if out and "weight" in out:
        _check_weight(out["weight"], here.shape)
    found = store.take(here, keys, rows.stack_num if stack_num is None else stack_num, out)
    if rows.direct:
        return found
    if rows.config.relabel is not None:
        rows.config.relabel.apply(here, rows.core.goals(here), found, store.take)
    if keys is None and rows.core.prioritized:
        found["weight"] = priorities.weights(rows, here)
        if out and "weight" in out:
            np.copyto(out["weight"], found["weight"])
            found["weight"] = out["weight"]
    return found


def _check_weight(array: object, shape: tuple[int, ...]) -> None:
    """Checks the array for importance weights; the engine checks the others."""
    fits = isinstance(array, np.ndarray) and (array.dtype, array.shape) == (np.dtype(np.float64), shape)
    if not (isinstance(array, np.ndarray) and fits and array.flags.writeable):
        got = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else repr(array)
        raise ValueError(f"out needs a writable array of dtype float64 and shape {shape} for weight, got {got}")


def field(rows: RowRange, index: IndexLike, key: str, default_value: object, stack_num: int | None) -> Any:
    """Returns one field of rows, with frame stacks; see :meth:`rlfast.data.ReplayBuffer.get`."""
    store = rows.store
    rebuilt = key == "obs_next" and rows.config.ignore_obs_next  # read from the rows after them
    if not (store.schema if rebuilt else store.has(key)):
        if default_value is not None:
            return default_value
        raise KeyError(f"{key}: there is no such field, but {', '.join(store.names()) or 'nothing at all'}")
    depth = rows.stack_num if stack_num is None else count_of("stack_num", stack_num, least=1)
    at_once = rows.config.relabel is None and depth == 1
    return rows.read(at_once, _field, index, key, depth)


def _field(rows: RowRange, here: Index, key: str, depth: int) -> Any:
    place = here
    if depth > 1 and key not in STACKED:
        place, depth = rows.store.frames(here, depth), 1
    value = fields(rows, place, [key], depth).get(key)
    value = Batch() if value is None else value
    return value if here.ndim else scalars(value)


def _no_rows() -> dict[str, Any]:
    """Returns empty fields, for a buffer without columns."""
    flag = np.zeros(0, np.bool_)
    empty: dict[str, Any] = {key: Batch() for key in ("obs", "act", "obs_next", "info", "policy")}
    return empty | {"rew": np.zeros(0), "terminated": flag, "truncated": flag.copy(), "done": flag.copy()}
