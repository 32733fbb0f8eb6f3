"""Whole columns of a store: handed out, replaced by the user's own, and made the stored ones again."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast._core import Replay
from rlfast.data._leaves import FLAGS
from rlfast.data.batch.batch import Batch, wrap_nested
from rlfast.data.buffer.config import Config
from rlfast.data.buffer.samplers import Prioritized
from rlfast.data.schema import Column, Leaves, Path, Schema, as_array, convert, fit, flatten, nest, plain, spell

_LOADED = frozenset({"obs", "obs_next", "terminated", "truncated"})
"""Columns that the engine keeps in its own form: they change through ``load`` alone."""


class Columns:
    """Columns of three kinds, addressed alike by row, as arrays over the whole storage.

    Numbers live in the engine, object leaves in NumPy object columns beside it. A column that the user assigned through
    ``buffer._meta`` hides the stored one until rows are written: then it takes its place, if it can.

    :param capacities: rows of each ring.
    :param config: what kind of buffer the rows are for.
    :param seed: of the engine's random streams.
    :param storage: ``"ram"``, or a folder for columns in memory-mapped files.
    :ivar last: of object leaves of ``obs`` under ``ignore_obs_next``: what rows that end an episode led to.
    :ivar plain: the engine alone answers everything.
    :ivar quick: and takes rows as they are given.
    """

    def __init__(self, capacities: list[int], config: Config, seed: int, storage: str) -> None:
        self.config = config
        self.schema = Schema()
        self.objects: Leaves = {}
        self.last: dict[Path, dict[int, Any]] = {}
        self.assigned: dict[str, Leaves] = {}
        self.core = self._engine(capacities, seed, storage)
        self._count()
        self._lent: weakref.WeakValueDictionary[Path, NDArray[Any]] = weakref.WeakValueDictionary()

    def _engine(self, capacities: list[int], seed: int, storage: str) -> Replay:
        sampler = self.config.sampler
        priorities: dict[str, Any] = {}
        if isinstance(sampler, Prioritized):
            priorities = {"alpha": sampler.alpha, "beta": sampler.beta, "weight_norm": sampler.weight_norm}
        return Replay(
            capacities,
            batch=Batch,
            save_obs_next=not self.config.ignore_obs_next,
            stack_num=self.config.stack_num,
            sample_avail=self.config.sample_avail,
            seed=seed,
            storage=None if storage == "ram" else storage,
            **priorities,
        )

    @cached_property
    def capacities(self) -> list[int]:
        """Rows of each ring."""
        return self.core.capacities

    @cached_property
    def offsets(self) -> list[int]:
        """First row of each ring."""
        return self.core.offsets

    def __getstate__(self) -> dict[str, Any]:
        state = {key: value for key, value in self.__dict__.items() if key not in ("core", "_lent", "_careful")}
        return state | {"capacities": self.capacities, "snapshot": self.core.dump()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        capacities, snapshot = state.pop("capacities"), state.pop("snapshot")
        self.__dict__.update(state, _lent=weakref.WeakValueDictionary())
        self.core = self._engine(capacities, 0, "ram")  # the snapshot brings its own random streams
        self.core.restore(snapshot)
        self.adopt(self.schema, self.objects)

    def define(self, added: Schema) -> None:
        """Lays out new columns, empty."""
        if added:
            numbers = [(path, column.dtype, column.shape) for path, column in added.numbers.items()]
            self.core.define(numbers, list(added.objects))
        for path, column in added.objects.items():
            self.objects[path] = np.full((self.core.total, *column.shape), None, object)
        self.schema.extend(added)
        self._count()

    def adopt(self, schema: Schema, objects: Leaves) -> None:
        """Takes over what a restored engine's columns are, and the object columns beside it."""
        self.schema = schema
        self.objects = {path: objects[path] for path in schema.objects}
        self.core.define([], list(schema.objects))
        self._count()

    def _count(self) -> None:
        """Notes what the columns have become."""
        self.plain = not self.objects and not self.assigned
        self.quick = self.plain and not self.config.save_only_last_obs

    def names(self) -> list[str]:
        """Names of the stored columns, ``done`` last."""
        names = self.schema.names()
        return [*names, "done"] if names else names

    def has(self, key: str) -> bool:
        """Whether ``key`` is among the names."""
        schema = self.schema
        if key == "done":
            return bool(schema)
        return any(path[0] == key for paths in (schema.numbers, schema.objects, schema.groups) for path in paths)

    def span(self, ring: int) -> slice:
        """Where a ring's rows stand."""
        offset = self.offsets[ring]
        return slice(offset, offset + self.capacities[ring])

    def column(self, key: str, rows: slice | None) -> Any:
        """A field over the whole storage (or over ``rows`` of it): an array, or a ``Batch`` of arrays.

        :raises KeyError: no such field.
        """
        if key in self.assigned:
            leaves = self.assigned[key]
            groups: list[Path] = [(key,)]
        else:
            paths: list[Path] = [path for path in self.schema.columns() if path[0] == key]
            if key == "done" and self.schema:
                paths = [("done",)]
            leaves = {path: self._whole(path) for path in paths}
            groups = [path for path in self.schema.groups if path[0] == key]
            if not leaves and not groups:
                raise KeyError(key)
        if rows is not None:
            leaves = {path: leaf[rows] for path, leaf in leaves.items()}
        return wrap_nested(nest(leaves, () if leaves else groups)[key])

    def _whole(self, path: Path) -> NDArray[Any]:
        if path in self.objects:
            return self.objects[path]
        self._lent[path] = array = self.core.view(path)
        return array

    def assign(self, key: str, value: Any) -> None:
        """Puts a whole column in the place of a stored one, or adds a new one.

        :raises ValueError: not one row for each of the storage.
        """
        leaves, groups = ({("done",): value}, set[Path]()) if key == "done" else flatten({key: value})
        arrays = {path: as_array(leaf) for path, leaf in leaves.items()}
        for path, array in arrays.items():
            if array.ndim == 0 or len(array) != self.core.total:
                raise ValueError(
                    f"{spell(path)} needs {self.core.total} rows, one for each of the storage, got {array.shape}"
                )
        if key == "done" or (key,) in FLAGS:
            if self.schema:  # done follows from the others: there is nothing for it to follow from yet
                self._assign_flags(key, arrays[(key,)])
        elif key not in self.schema.names():
            self._add_columns(arrays, groups)
        elif {path for path in self.schema.columns() if path[0] == key} == {
            path for path, array in arrays.items() if self._is_own(path, array)
        }:
            self.assigned.pop(key, None)
        else:
            self.assigned[key] = arrays
        self._count()

    def _assign_flags(self, key: str, values: NDArray[Any]) -> None:
        """Stores a column of flags at once: where episodes end, decides which rows belong together."""
        stored = {path: np.array(self.assigned.get(path[0], {}).get(path, self.core.view(path))) for path in FLAGS}
        flag = Column(np.dtype(bool), ())
        given: NDArray[np.bool_] = fit(values, flag, FLAGS[0], self.core.total, self.schema.oddities)
        flags = stored | {(key,): given}
        if key == "done":  # an end for no reason that is known is a cut
            terminated = stored["terminated",] & given
            flags = {("terminated",): terminated, ("truncated",): given & ~terminated}
            if np.array_equal(given, stored["terminated",] | stored["truncated",]):
                flags = stored
        self.schema.oddities.tell()
        if all(np.array_equal(flags[path], stored[path]) for path in FLAGS):
            return
        self._write(flags)
        if (self.core.sizes() < self.core.capacities).any():  # rows that are not live may become so
            self.assigned |= {path[0]: {path: array} for path, array in flags.items()}

    def write_rows(self, rows: NDArray[np.int64], fields: Mapping[str, Any]) -> None:
        """Writes rows of the storage, live ones or not; as in a ``Batch``, what is not given becomes 0 or None.

        :raises ValueError: a field that has no column, or another number of rows.
        :raises TypeError: numbers that a column cannot hold.
        """
        columns = self.schema.columns()
        given, _ = flatten({key: value for key, value in fields.items() if key != "done"}, self.objects)
        unknown = [spell(path) for path in given if path not in columns and path[0] != "obs_next"]
        if unknown:
            raise ValueError(f"{', '.join(unknown)}: there is no such column, but {', '.join(map(spell, columns))}")
        assigned = self._settled()
        written: Leaves = {}
        for path, column in columns.items():
            written[path] = np.array(assigned[path] if path in assigned else self._whole(path))
            empty = None if column.dtype == object else 0
            written[path][rows] = (
                convert(as_array(given[path]), column.dtype, path, self.schema.oddities) if path in given else empty
            )
        self.schema.oddities.tell()
        self._write(written)
        full = (self.core.sizes() == self.core.capacities).all()
        kept = {key: {path: written[path] for path in leaves} for key, leaves in self.assigned.items()}
        self.assigned = {} if full else kept
        self._count()

    def resize(self, ring: int, size: int, cursor: int) -> None:
        """Makes the ``size`` rows before ``cursor`` of a ring the live ones, whatever the columns hold there."""
        arrays, assigned = self._settled(), dict(self.assigned)
        sizes, cursors = self.core.sizes(), self.core.cursors()
        sizes[ring], cursors[ring] = size, cursor
        self.assigned.clear()
        for path in self.schema.numbers:
            if path not in arrays:
                arrays[path] = np.array(self._whole(path))
        self._write(arrays, (sizes.tolist(), cursors.tolist()))
        if (sizes < self.core.capacities).any():  # what lies beyond, may be asked for yet
            self.assigned = assigned
        self._count()

    def _add_columns(self, arrays: Leaves, groups: set[Path]) -> None:
        added = Schema(groups=groups)
        for path, array in arrays.items():
            (added.objects if array.dtype == object else added.numbers)[path] = Column(array.dtype, array.shape[1:])
        self.define(added)
        self._write(arrays)

    def _is_own(self, path: Path, array: NDArray[Any]) -> bool:
        if path in self.objects:
            return array is self.objects[path]
        if array is self._lent.get(path):
            return True
        column = self.schema.numbers.get(path)
        if column is None or path[0] in _LOADED or (array.dtype, array.shape[1:]) != (column.dtype, column.shape):
            return False
        return bool(array.ctypes.data == self.core.view(path).ctypes.data)

    def settle(self) -> None:
        """Assigned columns become the stored ones, so that new rows can join them."""
        if not self.assigned:
            return
        arrays = self._settled()
        self.assigned.clear()
        self._count()
        self._write(arrays)

    def _settled(self) -> Leaves:
        """Assigned columns as the stored ones can hold them: what an assigned one lacks is 0 or None in all rows.

        :raises ValueError: a leaf has rows of another shape, or stands where the stored column has a nested one.
        :raises TypeError: numbers that a column cannot hold.
        """
        assigned = {path: leaf for leaves in self.assigned.values() for path, leaf in leaves.items()}
        columns = self.schema.columns()
        added = Schema()
        for path, leaf in assigned.items():
            column = columns.get(path)
            others = [other for other in columns if other[: len(path)] == path or path[: len(other)] == other]
            if column is None and not others:
                kind = added.objects if leaf.dtype == object else added.numbers
                kind[path] = Column(leaf.dtype, leaf.shape[1:])
            elif column is None or leaf.shape[1:] != column.shape:
                raise ValueError(
                    f"{spell(path)} was replaced through _meta by a column of another structure: put the stored one, "
                    "or one like it, back before rows are added"
                )
        oddities = self.schema.oddities
        arrays = {
            path: convert(leaf, columns[path].dtype, path, oddities) if path in columns else leaf
            for path, leaf in assigned.items()
        }
        for path, column in columns.items():
            if path[0] in self.assigned and path not in assigned:
                empty = None if column.dtype == object else 0
                arrays[path] = np.full((self.core.total, *column.shape), empty, column.dtype)
        oddities.tell()
        self.define(added)
        return arrays

    def _write(self, arrays: Leaves, live: tuple[list[int], list[int]] | None = None) -> None:
        if live or any(path[0] in _LOADED and path not in self.objects for path in arrays):
            self._reload(arrays, live or (self.core.sizes().tolist(), self.core.cursors().tolist()))
        for path, array in arrays.items():
            if path in self.objects:
                self.objects[path][:] = array
            elif path[0] not in _LOADED:
                self.core.set_column(path, array)

    def _reload(self, arrays: Leaves, live: tuple[list[int], list[int]]) -> None:
        core = self.core
        full = {
            path: plain(arrays[path]) if path in arrays else np.array(core.view(path))
            for path in (*self.schema.numbers, *core.finals)
        }
        running = [core.running(ring) for ring in range(len(core.capacities))]
        rows = np.arange(core.total)
        leaves = np.array(core.tree[rows]) if core.prioritized else None
        known = core.keeps_next(rows).tolist() if core.finals else None
        core.load(nest(full), *live, known)
        for ring, statistics in enumerate(running):
            core.set_running(ring, *statistics)
        if leaves is not None:
            fresh = np.array(core.tree[rows])
            core.tree[rows] = np.where((leaves > 0) & (fresh > 0), leaves, fresh)
