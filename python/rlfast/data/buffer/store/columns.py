"""The columns of a store: reading, assigning and storing whole columns."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast._core import Replay
from rlfast.data._leaves import FLAGS, OBJECT, Column, Path, as_array, convert, dotted, engine_layout, fit
from rlfast.data.batch.batch import Batch, wrap_nested
from rlfast.data.buffer.options.config import Config
from rlfast.data.buffer.options.samplers import Prioritized
from rlfast.data.schema import Leaves, Schema, flatten, nest
from rlfast.utils.arguments.checks import ArgumentError
from rlfast.utils.tree import object_array

PACKED = ("lz4", "zstd")
"""Storages in memory that pack frames. A copy of a buffer packs its frames as well."""
_LOADED = frozenset({"obs", "obs_next", "terminated", "truncated"})
"""Columns that the engine stores in a form of its own, so that only ``load`` can change them."""


@dataclass(frozen=True)
class Known:
    """The columns of the engine at one time.

    :ivar version: the engine's count of changes of its columns.
    :ivar groups: the groups without leaves that ``schema`` was made with.
    :ivar schema: the columns.
    :ivar arrays: all arrays of objects, in the engine's order: those of ``objects`` and of ``finals``.
    :ivar objects: the arrays of object columns.
    :ivar finals: with ``ignore_obs_next``, the ``obs_next`` of rows that end an episode, for object columns of ``obs``,
        by the path of ``obs``: None, or a tuple of the value.
    """

    version: int
    groups: frozenset[Path]
    schema: Schema
    arrays: Leaves
    objects: Leaves
    finals: Leaves


class Columns:
    """The columns of a buffer, as arrays over all rows of the storage.

    Numbers are stored in the engine, and objects in NumPy object arrays that the engine writes together with the
    numbers. The engine knows which columns there are; what is kept here is a copy that is renewed when it is out of
    date, so that an interrupt or another thread cannot leave the two different. A column that a user assigned through
    ``buffer._meta`` hides the stored one until rows are written, which stores it if possible.

    :param capacities: number of rows of each ring.
    :param config: the options of the buffer.
    :param seed: seed of the engine's random streams.
    :param storage: where rows are: see :class:`rlfast.data.ReplayBuffer`.
    :ivar plain: whether all columns are in the engine.
    :ivar seen: whether columns were seen: once there are some, they stay.
    """

    plain: bool
    seen: bool

    def __init__(self, capacities: list[int], config: Config, seed: int, storage: str) -> None:
        self.config = config
        self.assigned: dict[str, Leaves] = {}
        self.storage = storage
        self.core = self._engine(capacities, seed, storage)
        self._begin(Schema())
        self._views: weakref.WeakValueDictionary[Path, NDArray[Any]] = weakref.WeakValueDictionary()

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
            storage=storage,
            **priorities,
        )

    @property
    def quick(self) -> bool:
        """Whether rows may be written by the engine alone: all columns are in it, and no frames are cut."""
        return self.plain and not self.config.save_only_last_obs

    @cached_property
    def capacities(self) -> list[int]:
        """Number of rows of each ring."""
        return self.core.capacities

    @cached_property
    def offsets(self) -> list[int]:
        """First row of each ring."""
        return self.core.offsets

    def _begin(self, schema: Schema) -> None:
        """Sets what the engine does not know of its columns: groups without leaves, and warnings."""
        self._groups, self._oddities = frozenset(schema.groups), schema.oddities
        self._known: Known | None = None
        self.seen = bool(schema)
        self._update_flags()

    def __getstate__(self) -> dict[str, Any]:
        return self.core.hold(partial(self._state, self.__dict__.copy()))

    def _state(self, attributes: dict[str, Any]) -> dict[str, Any]:
        known = self.known()
        state: dict[str, Any] = {key: attributes[key] for key in ("config", "assigned", "storage")}
        state |= {"schema": known.schema, "capacities": self.capacities, "snapshot": self.core.dump()}
        return state | {name: copied(getattr(known, name)) for name in ("objects", "finals")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.config, self.assigned = state["config"], state["assigned"]
        storage = state.get("storage", "ram")  # not in a pickle of an earlier version
        self.storage = storage if storage in PACKED else "ram"
        self._views = weakref.WeakValueDictionary()
        self.core = self._engine(state["capacities"], 0, self.storage)  # the snapshot has the random streams
        self.core.restore(state["snapshot"])
        self.adopt(state["schema"], state["objects"], state.get("finals", state.get("last", {})))

    def known(self) -> Known:
        """Returns the present columns."""
        known = self._known
        if known is None or known.version != self.core.version or known.groups is not self._groups:
            self._known = known = self._look()
            self.seen = bool(known.schema)
            self._update_flags()
        return known

    def _look(self) -> Known:
        """Looks at the columns of the engine, again if another thread changes them meanwhile."""
        version, groups = self.core.version, self._groups
        numbers = {path: Column(dtype, tuple(shape)) for path, dtype, shape in self.core.columns()}
        arrays = dict(self.core.objects())
        if version != self.core.version:
            return self._look()
        finals = {path for path in arrays if path[0] == "obs_next"} if self.config.ignore_obs_next else set()
        objects = {path: array for path, array in arrays.items() if path not in finals}
        shapes = {path: Column(OBJECT, array.shape[1:]) for path, array in objects.items()}
        schema = Schema(numbers, shapes, oddities=self._oddities)
        schema.extend(Schema(groups=set(groups)))
        last = {("obs", *path[1:]): arrays[path] for path in finals}
        return Known(version, groups, schema, arrays, objects, last)

    @property
    def schema(self) -> Schema:
        """The present columns."""
        return self.known().schema

    @property
    def objects(self) -> Leaves:
        """The columns of objects."""
        return self.known().objects

    def define(self, added: Schema, version: int | None = None) -> bool:
        """Adds empty columns, and promotes columns, whose live rows keep their values.

        :param added: the columns.
        :param version: the version of the columns that they are to be added to; None for any.
        :return: whether that was still the version; if not, nothing is changed.
        :raises ArgumentError: a name is no valid text; nothing is changed then.
        """
        _check_names(added)
        if added and not (
            self.core.hold(partial(self._define, added, version)) if added.promoted else self._define(added, version)
        ):
            return False
        if not added.groups <= self._groups:
            self._groups = self._groups | added.groups
        return True

    def _define(self, added: Schema, version: int | None) -> bool:
        numbers = [(path, column.dtype, column.shape) for path, column in added.numbers.items()]
        arrays = {path: column.blank(self.core.total) for path, column in added.objects.items()}
        values = []
        for path in added.promoted:
            if path in arrays:
                arrays[path][self._written()] = object_array(self._rows_at(path))
            else:
                array = added.numbers[path].blank(self.core.total)
                array[self._written()] = self.written_values(path)
                values.append((path, array.tobytes()))
        objects = [*arrays.items(), *self._blank_finals(added).items()]
        return self.core.define(numbers, objects, version, list(added.promoted), values)

    def _written(self) -> NDArray[np.int64]:
        """Returns the slots that hold rows."""
        rings = zip(
            self.offsets, self.capacities, self.core.sizes().tolist(), self.core.cursors().tolist(), strict=True
        )
        return np.concatenate(
            [offset + np.arange(cursor - size, cursor) % max(capacity, 1) for offset, capacity, size, cursor in rings]
        )

    def written_values(self, path: Path) -> NDArray[Any]:
        """Returns the values of all rows in a column."""
        values: NDArray[Any] = self._whole(path)[self._written()]
        return values

    def _rows_at(self, path: Path) -> list[Any]:
        """Returns the value of each row at a path: that of a column, or a dict of the values in a group."""
        below = [column for column in self.schema.columns() if column[: len(path)] == path]
        values = Batch(nest({column[len(path) - 1 :]: self.written_values(column) for column in below}))[path[-1]]
        if isinstance(values, Batch):
            return [row.to_dict() for row in values]
        return values.tolist() if values.ndim == 1 or values.dtype == OBJECT else list(values)

    def _blank_finals(self, schema: Schema) -> Leaves:
        observed = [path[1:] for path in schema.objects if path[0] == "obs"] if self.config.ignore_obs_next else []
        return {("obs_next", *path): np.full(self.core.total, None, object) for path in observed}

    def adopt(self, schema: Schema, objects: Leaves, finals: Mapping[Path, Any]) -> None:
        """Sets the object columns of a restored engine.

        :param schema: the columns.
        :param objects: the arrays of its object columns.
        :param finals: see :class:`Known`; in files of earlier versions, the values by row.
        """
        kept = self._blank_finals(schema)
        for path, values in finals.items():
            rows = kept["obs_next", *path[1:]]
            for row, value in values.items() if isinstance(values, dict) else enumerate(values):
                rows[row] = (value,) if isinstance(values, dict) else value
        arrays = {path: np.require(objects[path], None, ("C", "W", "E")) for path in schema.objects}
        self.core.define([], [*arrays.items(), *kept.items()])
        self._begin(schema)

    def _update_flags(self) -> None:
        """Updates ``plain`` after a change of the columns."""
        self._set_plain(plain=self._is_plain())

    def _set_plain(self, *, plain: bool) -> None:
        self.plain = plain

    def _is_plain(self) -> bool:
        return not self.core.objects() and not self.assigned

    def names(self) -> list[str]:
        """Returns the names of the columns, ``done`` last."""
        names = self.schema.names()
        return [*names, "done"] if names else names

    def has(self, key: str) -> bool:
        """Returns whether there is a column with this name."""
        schema = self.schema
        if key == "done":
            return bool(schema)
        return any(path[0] == key for paths in (schema.numbers, schema.objects, schema.groups) for path in paths)

    def span(self, ring: int) -> slice:
        """Returns the slice of a ring's rows."""
        offset = self.offsets[ring]
        return slice(offset, offset + self.capacities[ring])

    def column(self, key: str, rows: slice | None) -> Any:
        """Returns a column over the whole storage (or over ``rows`` of it): an array, or a ``Batch`` of arrays.

        :raises KeyError: if there is no such column.
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
        self._views[path] = array = self.core.view(path)
        return array

    def assign(self, key: str, value: object) -> None:
        """Replaces a column, or adds a new one.

        :raises ValueError: if the number of rows is not that of the storage.
        """
        leaves, groups = ({("done",): value}, set[Path]()) if key == "done" else flatten({key: value})
        arrays = {path: as_array(leaf) for path, leaf in leaves.items()}
        for path, array in arrays.items():
            if array.ndim == 0 or len(array) != self.core.total:
                raise ValueError(
                    f"{dotted(path)} needs {self.core.total} rows, one for each of the storage, got {array.shape}"
                )
        if key == "done" or (key,) in FLAGS:
            if self.schema:  # without columns, there are no rows whose flags could be set
                self._assign_flags(key, arrays[(key,)])
        elif key not in self.schema.names():
            self._add_columns(arrays, groups)
        elif {path for path in self.schema.columns() if path[0] == key} == {
            path for path, array in arrays.items() if self._is_own(path, array)
        }:
            self.assigned.pop(key, None)
        else:
            self._hide({key: arrays})
        self._update_flags()

    def _hide(self, columns: dict[str, Leaves]) -> None:
        """Hides stored columns behind others."""
        self._set_plain(plain=False)  # first, as rows that are added must store the others
        self.assigned = self.assigned | columns
        self._update_flags()

    def _assign_flags(self, key: str, values: NDArray[Any]) -> None:
        """Stores a column of flags at once, as it determines the episodes of rows."""
        stored = {path: np.array(self.assigned.get(path[0], {}).get(path, self.core.view(path))) for path in FLAGS}
        flag = Column(np.dtype(bool), ())
        oddities = self.schema.oddities.fresh()
        given: NDArray[np.bool_] = fit(values, flag, FLAGS[0], self.core.total, oddities)
        flags = stored | {(key,): given}
        if key == "done":  # a new end without terminated counts as truncated
            terminated = stored["terminated",] & given
            flags = {("terminated",): terminated, ("truncated",): given & ~terminated}
            if np.array_equal(given, stored["terminated",] | stored["truncated",]):
                flags = stored
        oddities.emit()
        if all(np.array_equal(flags[path], stored[path]) for path in FLAGS):
            return
        self._write(flags)
        if (self.core.sizes() < self.core.capacities).any():  # keeps the values of slots that may become live
            self._hide({path[0]: {path: array} for path, array in flags.items()})

    def write_rows(self, rows: NDArray[np.int64], fields: Mapping[str, Any]) -> None:
        """Writes slots of the storage, with live rows or without. As in a ``Batch``, missing fields become 0 or None.

        :raises ValueError: for a field without a column, or another number of rows.
        :raises TypeError: if values cannot be converted to the dtype of their column.
        """
        columns = self.schema.columns()
        given, _ = flatten({key: value for key, value in fields.items() if key != "done"}, self.objects)
        unknown = [dotted(path) for path in given if path not in columns and path[0] != "obs_next"]
        if unknown:
            raise ValueError(f"{', '.join(unknown)}: there is no such column, but {', '.join(map(dotted, columns))}")
        assigned = self._converted_assigned()
        written: Leaves = {}
        oddities = self.schema.oddities.fresh()
        for path, column in columns.items():
            written[path] = np.array(assigned[path] if path in assigned else self._whole(path))
            value = as_array(given[path]) if path in given else column.blank(None)
            written[path][rows] = convert(value, column.dtype, path, oddities)
        oddities.emit()
        self._write(written)
        full = (self.core.sizes() == self.core.capacities).all()
        kept = {key: {path: written[path] for path in leaves} for key, leaves in self.assigned.items()}
        self.assigned = {} if full else kept
        self._update_flags()

    def resize(self, ring: int, size: int, cursor: int) -> None:
        """Makes the ``size`` slots before ``cursor`` of a ring its live rows, with the values in the columns."""
        arrays = self._converted_assigned()
        sizes, cursors = self.core.sizes(), self.core.cursors()
        sizes[ring], cursors[ring] = size, cursor
        for path in self.schema.numbers:
            if path not in arrays:
                arrays[path] = np.array(self._whole(path))
        self._write(arrays, (sizes.tolist(), cursors.tolist()))
        if not (sizes < self.core.capacities).any():  # else keeps the values of slots that may become live
            self.assigned = {}
        self._update_flags()

    def _add_columns(self, arrays: Leaves, groups: set[Path]) -> None:
        added = Schema(groups=groups)
        for path, array in arrays.items():
            (added.objects if array.dtype == object else added.numbers)[path] = Column(array.dtype, array.shape[1:])
        self.define(added)
        self._write(arrays)

    def _is_own(self, path: Path, array: NDArray[Any]) -> bool:
        if path in self.objects:
            return array is self.objects[path]
        if array is self._views.get(path):
            return True
        column = self.schema.numbers.get(path)
        if column is None or path[0] in _LOADED or (array.dtype, array.shape[1:]) != (column.dtype, column.shape):
            return False
        return bool(array.ctypes.data == self.core.view(path).ctypes.data)

    def store_assigned(self) -> None:
        """Stores assigned columns, so that rows can be added."""
        if not self.assigned:
            return
        arrays = self._converted_assigned()
        self._write(arrays)
        self.assigned = {}
        self._update_flags()

    def _converted_assigned(self) -> Leaves:
        """Returns assigned columns converted for storage. Leaves that an assigned column lacks become 0 or None.

        :raises ValueError: if the structure or the shape of an assigned column differs from the stored one.
        :raises TypeError: if values cannot be converted to the dtype of their column.
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
                    f"{dotted(path)} was replaced through _meta by a column of another structure: put the stored one, "
                    "or one like it, back before rows are added"
                )
        oddities = self.schema.oddities.fresh()
        arrays = {
            path: convert(leaf, columns[path].dtype, path, oddities) if path in columns else leaf
            for path, leaf in assigned.items()
        }
        for path, column in columns.items():
            if path[0] in self.assigned and path not in assigned:
                arrays[path] = column.blank(self.core.total)
        oddities.emit()
        self.define(added)
        return arrays

    def _write(self, arrays: Leaves, live: tuple[list[int], list[int]] | None = None) -> None:
        if live or any(path[0] in _LOADED and path not in self.objects for path in arrays):
            self._reload(arrays, live or (self.core.sizes().tolist(), self.core.cursors().tolist()))
            return
        for path, array in arrays.items():
            if path in self.objects:
                self.objects[path][:] = array
            else:
                np.copyto(self.core.view(path), array)

    def _reload(self, arrays: Leaves, live: tuple[list[int], list[int]]) -> None:
        """Writes columns in one call. Those that are not given stay as they are."""
        core, known = self.core, self.known()
        full = {
            path: engine_layout(arrays[path]) if path in arrays else np.array(core.view(path))
            for path in (*known.schema.numbers, *core.finals)
        }
        objects = [engine_layout(arrays.get(path, array)) for path, array in known.arrays.items()]
        ends = core.has_obs_next(np.arange(core.total)).tolist() if core.finals else None
        core.load(nest(full), *live, ends, objects or None, keep=True)


def copied(arrays: Leaves) -> Leaves:
    """Returns copies of arrays."""
    return {path: array.copy() for path, array in arrays.items()}


def _check_names(schema: Schema) -> None:
    """Checks that names of columns can be encoded, which lone surrogates cannot."""
    for path in (*schema.numbers, *schema.objects, *schema.groups):
        try:
            "".join(path).encode()
        except UnicodeEncodeError as error:
            raise ArgumentError(
                f"a buffer cannot store the key {dotted(path)!a}: it has a lone surrogate, which is no valid text; "
                "rename the key"
            ) from error
