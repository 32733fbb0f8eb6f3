"""The store of a buffer and of all buffers under a manager: adding and reading rows."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast._core import SchemaMismatch
from rlfast.data._leaves import Oddities, Path, fit
from rlfast.data.batch.batch import Batch, wrap
from rlfast.data.buffer.store.columns import Columns, Known
from rlfast.data.schema import Leaves, Schema, flatten, nest
from rlfast.utils.tree import object_array

Index = NDArray[np.int64]
Added = tuple[Index, NDArray[np.float64], Index, Index]
Converted = tuple[int, dict[str, Any], list[NDArray[Any]]]
STACKED = frozenset({"obs", "obs_next", "info", "policy"})


class Store(Columns):
    """The rows of a buffer, or of a manager and all its buffers."""

    def _set_plain(self, *, plain: bool) -> None:
        self.core.convert_by(self._converter, always=not plain)
        self.__dict__.pop("fields", None)
        super()._set_plain(plain=plain)

    @cached_property
    def _converter(self) -> Callable[[Mapping[str, Any], int | None], Converted]:
        """:meth:`convert` for the engine, with only a weak reference to this store."""
        this = weakref.ref(self)

        def convert(batch: Mapping[str, Any], rows: int | None) -> Converted:
            store = this()
            if store is None:
                raise ReferenceError("the buffer of this append method is gone: keep the buffer itself")
            return store.convert(batch, rows)

        return convert

    # -- writing -----------------------------------------------------------------------------------------------------
    def convert(self, batch: Mapping[str, Any], rows: int | None) -> Converted:
        """Converts rows to the form in which the engine reads them, after adding the columns that they bring.

        This is the only conversion. The engine skips it for rows that have that form already.

        :param batch: the rows: a batch or a mapping of nested leaves of any kind.
        :param rows: the number of rows along the first axis of each leaf; None for one row without that axis.
        :return: the version of the columns that the rows were converted for, their numbers as nested arrays, and their
            objects as an array for each column of objects.
        """
        if not hasattr(batch, "items"):
            raise TypeError(f"rows are a Batch or a dict of their fields, got {type(batch).__name__}: {batch!r:.100}")
        fields = dict(batch.items())
        while True:  # until no other thread changes the columns meanwhile
            known = self.known()
            leaves, added = self._conform(known, fields, rows)
            if self.plain != self._is_plain():  # an interrupt came before they were updated
                self._update_flags()
            if self.assigned:
                self.core.hold(self.store_assigned)
            elif self.define(added, known.version):
                version, known = known.version + bool(added), self.known()
                if known.version == version:
                    last = self._last(fields, leaves, rows)
                    return version, self._numbers(known, leaves, last), self._object_rows(known, leaves, last, rows)

    def check(self, batch: Batch | Mapping[str, Any], rows: int | None) -> None:
        """Raises what :meth:`convert` raises, and changes nothing."""
        self._conform(self.known(), dict(batch.items()), rows)

    def _conform(self, known: Known, fields: Mapping[str, Any], rows: int | None) -> tuple[Leaves, Schema]:
        """Returns the leaves of rows converted for the columns, and new columns."""
        return known.schema.conform(
            self._kept(fields), rows, links_next=self.core.links_next, stored=self.written_values
        )

    def _object_rows(
        self, known: Known, leaves: Leaves, last: Leaves, rows: int | None, kept: NDArray[np.bool_] | bool = True
    ) -> list[NDArray[Any]]:
        """Returns rows of the arrays of objects.

        :param kept: whether the ``obs_next`` of a row that ends an episode is kept.
        """
        done = np.atleast_1d(leaves["terminated",] | leaves["truncated",]) & kept
        result = []
        for path in known.arrays:
            if path not in known.objects:
                shape = known.schema.objects["obs", *path[1:]].shape
                result.append(_finals(last.get(path), shape, done))
            else:
                result.append(leaves[path] if rows is not None else leaves[path][None])
        return result

    def _numbers(self, known: Known, leaves: Leaves, last: Leaves) -> dict[str, Any]:
        """Returns the values of rows that the engine stores."""
        absent = [("obs_next",)] if self.core.links_next else []
        numbers = {path: leaves[path] for path in known.schema.numbers if path in leaves}
        numbers |= {path: last[path] for path in self.core.finals if path in last}
        given = {path[0] for path in numbers}
        return nest(numbers) | {path[0]: None for path in absent if path[0] not in given}

    def _last(self, fields: Mapping[str, Any], leaves: Leaves, rows: int | None) -> Leaves:
        """Returns, with ``ignore_obs_next``, the ``obs_next`` of rows; nothing if no episode ends or it is unlike
        ``obs``.
        """
        done = leaves["terminated",] | leaves["truncated",]
        if not self.config.ignore_obs_next or fields.get("obs_next") is None or not done.any():
            return {}
        wanted = {path: column for path, column in self.schema.columns().items() if path[0] == "obs"}
        given, _ = flatten({"obs": fields["obs_next"]}, [path for path in wanted if path in self.objects])
        if given.keys() != wanted.keys():
            return {}
        oddities = Oddities()
        try:
            last = {
                ("obs_next", *path[1:]): fit(given[path], column, path, rows, oddities)
                for path, column in wanted.items()
            }
        except (TypeError, ValueError):
            return {}
        return {} if oddities.any else last

    def _kept(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        if not self.config.ignore_obs_next:
            return fields
        return {key: value for key, value in fields.items() if key != "obs_next"}

    def replace(
        self,
        fields: Mapping[str, Any],
        sizes: Iterable[int],
        cursors: Iterable[int],
        with_next: NDArray[np.bool_] | None = None,
        *,
        keep: bool = False,
    ) -> None:
        """Replaces all columns by full-length ones, in which the ``sizes[r]`` rows before ``cursors[r]`` are live.

        :param with_next: with ``ignore_obs_next``, the ends of episodes whose ``obs_next`` is stored; default all.
        :param keep: whether running episodes keep their statistics, and rows that stay live their priorities.
        """
        total, live = self.core.total, (list(sizes), list(cursors))
        leaves, added = self.schema.conform(self._kept(fields), total, links_next=self.core.links_next)
        self.define(added)
        known, last = self.known(), self._last(fields, leaves, total)
        objects = self._object_rows(known, leaves, last, total, True if with_next is None else with_next)
        flags = None if with_next is None else with_next.tolist()
        self.core.load(self._numbers(known, leaves, last), *live, flags, objects or None, keep, self.assigned)
        self._update_flags()

    def install(self, fields: Mapping[str, Any]) -> None:
        """Replaces all columns. The live rows stay live, and the values of other slots are kept in case they become
        live.
        """
        core = self.core
        sizes = core.sizes()
        try:
            self.replace(fields, sizes.tolist(), core.cursors().tolist(), keep=True)
        except (TypeError, ValueError):
            if not fields.keys() >= {path[0] for path in self.schema.columns()}:
                raise
        else:
            if not (sizes < core.capacities).any():
                return
        for key, value in self._kept(fields).items():
            if key != "done":  # it follows from the flags
                self.assign(key, value)

    def reset(self, ring: int | None, keep_statistics: bool) -> None:
        """Removes all rows, or those of one ring, and assigned columns."""
        self.core.reset(ring, keep_statistics)
        self.assigned = {}
        self._update_flags()
        self.release(ring)

    def release(self, ring: int | None) -> None:
        """Releases the objects of rows that were removed."""
        for array in self.known().arrays.values():
            array[slice(None) if ring is None else self.span(ring)] = None

    # -- reading -----------------------------------------------------------------------------------------------------
    @cached_property
    def fields(self) -> list[str]:
        """The names of the fields that :meth:`take` returns."""
        return list(self.take(np.zeros(0, np.int64)))

    def take(
        self,
        rows: Index,
        keys: list[str] | None = None,
        stack_num: int | None = None,
        out: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Returns rows as new nested arrays; see ``Replay.take``.

        :raises KeyError: if nothing was added yet.
        """
        if not self.seen and not self.schema:
            raise KeyError("obs: nothing has been added to this buffer yet")
        if self.plain:
            try:
                return self.core.take(rows, keys, stack_num, out, True)
            except SchemaMismatch:  # the first objects were added meanwhile
                pass
        return self.core.hold(partial(self._take, rows, keys, stack_num, out))

    def _take(
        self, rows: Index, keys: list[str] | None, stack_num: int | None, out: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        fields = self.core.take(rows, keys, stack_num, out)
        depth = self.core.stack_num if stack_num is None else stack_num
        for path, column in self.known().objects.items():
            self._insert(fields, path, column, rows, keys, depth)
        for key, leaves in self.assigned.items():
            if keys is None or key in keys:
                fields[key] = wrap({})
            for path, column in leaves.items():
                self._insert(fields, path, column, rows, keys, depth)
        return fields

    def _insert(
        self, fields: dict[str, Any], path: Path, column: NDArray[Any], rows: Index, keys: list[str] | None, depth: int
    ) -> None:
        if keys is None or path[0] in keys:
            _put(fields, path, self._gather(path, column, rows, depth))
        if self.config.ignore_obs_next and path[0] == "obs" and (keys is None or "obs_next" in keys):
            following = self._gather(path, column, self.core.next(rows), depth)
            _put(fields, ("obs_next", *path[1:]), self._with_last(path, following, rows, depth))

    def _with_last(self, path: Path, following: Any, rows: Index, depth: int) -> Any:
        """Returns stacks whose last frame is the next row's ``obs``, or at the end of an episode the stored
        ``obs_next``.
        """
        kept = self.known().finals.get(path)
        if kept is None:
            return following
        for place in np.ndindex(rows.shape):
            final: Any = kept[rows[place]]
            if final is None:
                continue
            if rows.ndim == 0 and depth == 1:
                return final[0]
            if depth > 1:
                following[place][:-1] = following[place][1:].copy()
                following[(*place, -1)] = final[0]
            else:
                following[place] = final[0]
        return following

    def _gather(self, path: Path, column: NDArray[Any], rows: Index, depth: int) -> Any:
        if depth == 1 or path[0] not in STACKED:
            taken = column[rows]
            alone = column.dtype == object and column.ndim == 1 and rows.ndim == 0  # one object, not an array
            return taken if alone else np.asarray(taken, column.dtype)
        frames = self.frames(rows, depth)
        stack = np.asarray(column[frames])
        if path[0] == "obs_next":
            padding = np.append(frames[..., :-1] == frames[..., 1:], np.zeros((*rows.shape, 1), np.bool_), -1)
            observed = self._observed(path[1:], frames[padding])
            if observed is not None:  # before the episode's oldest row, the obs of that row repeats
                alone = stack.dtype == object and stack.ndim == frames.ndim
                stack[padding] = object_array(list(observed)) if alone else observed
        return stack

    def _observed(self, path: Path, rows: Index) -> NDArray[Any] | None:
        """Returns the leaf of ``obs`` at ``path``; None if there is none."""
        column = self.column_of(("obs", *path))
        if column is not None:
            return column[rows]
        if "obs" in self.assigned or ("obs", *path) not in self.schema.numbers:
            return None
        value = self.core.take(rows, ["obs"], 1)["obs"]
        for key in path:
            value = value[key]
        return np.asarray(value)

    def column_of(self, path: Path) -> NDArray[Any] | None:
        """Returns a column that is an array of Python's; None if it is in the engine."""
        return self.assigned.get(path[0], self.objects).get(path)

    def frames(self, rows: Index, depth: int) -> Index:
        """Returns the rows of a frame stack, oldest first, along a new last axis."""
        chain = [rows]
        for _ in range(depth - 1):
            chain.insert(0, self.core.prev(chain[0]))
        return np.stack(chain, -1)

    def live(self, ring: int | None = None) -> Index:
        """Returns all live rows, oldest first, also those without a whole stack."""
        return self.core.chronological(ring, True)


def _finals(values: NDArray[Any] | None, shape: tuple[int, ...], done: NDArray[np.bool_]) -> NDArray[Any]:
    """Returns rows of an array of finals; see :class:`rlfast.data.buffer.store.columns.Known`.

    :param values: the ``obs_next`` of each row, of this shape; None if it is not kept.
    :param done: whether each row ends its episode.
    """
    rows = np.full(len(done), None, object)
    if values is not None:
        values = values.reshape((len(done), *shape))
        for k in np.flatnonzero(done):
            rows[k] = (values[k],)
    return rows


def _put(fields: dict[str, Any], path: Path, value: object) -> None:
    group = fields
    for key in path[:-1]:
        inner = group.setdefault(key, wrap({}))
        group = inner.__dict__
    group[path[-1]] = value
