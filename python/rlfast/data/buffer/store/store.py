"""The rows of a buffer and of all its children: the engine, and beside it the columns that only Python can hold."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast.data.batch.batch import wrap
from rlfast.data.buffer.store.columns import Columns
from rlfast.data.schema import Leaves, Oddities, Path, Schema, fit, flatten, nest
from rlfast.utils.tree import object_array

Index = NDArray[np.int64]
Added = tuple[Index, NDArray[np.float64], Index, Index]
STACKED = frozenset({"obs", "obs_next", "info", "policy"})


class Store(Columns):
    """The rows of a buffer and of all its children: columns to which rows are added, and from which they are read."""

    def _count(self) -> None:
        super()._count()
        self.core.on_mismatch(self._careful, always=not self.quick)

    @cached_property
    def _careful(self) -> Callable[[Mapping[str, Any]], int]:
        """``add`` of one row, without a reference to this store, as the engine keeps it."""
        this = weakref.ref(self)

        def append(row: Mapping[str, Any]) -> int:
            store = this()
            if store is None:
                raise ReferenceError("the buffer of this append method is gone: keep the buffer itself")
            return int(store.add(row, None)[0][0])

        return append

    # -- writing -----------------------------------------------------------------------------------------------------
    def add(self, fields: Mapping[str, Any], rings: Index | None) -> Added:
        """The general way in: converts, adds late columns, writes object leaves."""
        leaves, added = self.check(fields, rings)
        self.settle()
        self.define(added)
        last = self._last(fields, leaves, None if rings is None else len(rings))
        result = self.core.add(self._numbers(leaves, last), rings)
        for path, column in self.objects.items():
            column[result[0]] = leaves[path]
        self._keep_last(result[0], leaves, last)
        return result

    def _numbers(self, leaves: Leaves, last: Leaves) -> dict[str, Any]:
        """What the engine takes of rows."""
        absent = [("obs_next",)] if self.core.links_next else []
        numbers = {path: leaves[path] for path in self.schema.numbers if path in leaves}
        numbers |= {path: last[path] for path in self.core.finals if path in last}
        given = {path[0] for path in numbers}
        return nest(numbers) | {path[0]: None for path in absent if path[0] not in given}

    def _last(self, fields: Mapping[str, Any], leaves: Leaves, rows: int | None) -> Leaves:
        """Under ``ignore_obs_next``, the ``obs_next`` of rows where episodes end; none that is unlike ``obs``."""
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

    def _keep_last(self, index: Index, leaves: Leaves, last: Leaves, known: NDArray[np.bool_] | None = None) -> None:
        """Notes, for object leaves, what rows that end an episode led to."""
        if not self.config.ignore_obs_next:
            return
        done = np.atleast_1d(leaves["terminated",] | leaves["truncated",]) & (True if known is None else known)
        for path in self.objects:
            if path[0] != "obs":
                continue
            kept = self.last.setdefault(path, {})
            values = last.get(("obs_next", *path[1:]))
            for k, row in enumerate(index.tolist()):
                kept.pop(row, None)
                if values is not None and done[k]:
                    kept[row] = values.reshape((len(index), *self.schema.objects[path].shape))[k]

    def check(self, fields: Mapping[str, Any], rings: Index | None) -> tuple[Leaves, Schema]:
        """The rows as the columns hold them, and the columns they add. Raises what :meth:`add` would."""
        self._check_rings(rings)
        rows = None if rings is None else len(rings)
        return self.schema.conform(self._kept(fields), rows, links_next=self.core.links_next)

    def _kept(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        if not self.config.ignore_obs_next:
            return fields
        return {key: value for key, value in fields.items() if key != "obs_next"}

    def _check_rings(self, rings: Index | None) -> None:
        capacities = self.capacities
        for ring in [0] if rings is None else rings.tolist():
            if not 0 <= ring < len(capacities):
                raise IndexError(f"buffer id {ring} is out of range: there are {len(capacities)} buffers")
            if capacities[ring] == 0:
                raise ValueError("a buffer of size 0 takes no rows: make it larger")

    def replace(
        self,
        fields: Mapping[str, Any],
        sizes: Iterable[int],
        cursors: Iterable[int],
        known: NDArray[np.bool_] | None = None,
    ) -> None:
        """Installs full-length columns, of which the ``sizes[r]`` rows before ``cursors[r]`` are live.

        ``known`` says, under ``ignore_obs_next``, of which rows that end an episode ``obs_next`` is kept: default all.
        """
        total = self.core.total
        leaves, added = self.schema.conform(self._kept(fields), total, links_next=self.core.links_next)
        self.define(added)
        last = self._last(fields, leaves, total)
        self.core.load(
            self._numbers(leaves, last), list(sizes), list(cursors), None if known is None else known.tolist()
        )
        self.assigned.clear()
        self._count()
        for path, column in self.objects.items():
            column[:] = leaves[path]
        self._keep_last(np.arange(total), leaves, last, known)

    def install(self, fields: Mapping[str, Any]) -> None:
        """Replaces all columns; which rows are live stays as it is, and other rows can be made so."""
        core = self.core
        running = [core.running(ring) for ring in range(len(core.capacities))]
        sizes, leaves = core.sizes(), core.tree[np.arange(core.total)] if core.prioritized else None
        try:
            self.replace(fields, sizes.tolist(), core.cursors().tolist())
        except (TypeError, ValueError):
            if not fields.keys() >= {path[0] for path in self.schema.columns()}:
                raise
        else:
            for ring, statistics in enumerate(running):
                core.set_running(ring, *statistics)
            if leaves is not None:
                core.tree[np.arange(core.total)] = leaves
            if not (sizes < core.capacities).any():
                return
        for key, value in self._kept(fields).items():
            if key != "done":  # it follows from the flags
                self.assign(key, value)

    def reset(self, ring: int | None, keep_statistics: bool) -> None:
        """Forgets all rows, or those of one ring; assigned columns with them."""
        self.core.reset(ring, keep_statistics)
        self.assigned.clear()
        self._count()
        span = slice(0, self.core.total) if ring is None else self.span(ring)
        for column in self.objects.values():
            column[span] = None
        for path, kept in self.last.items():
            self.last[path] = {row: value for row, value in kept.items() if not span.start <= row < span.stop}

    # -- reading -----------------------------------------------------------------------------------------------------
    def take(
        self,
        rows: Index,
        keys: list[str] | None = None,
        stack_num: int | None = None,
        out: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """The rows as fresh nested arrays; see ``Replay.take``.

        :raises KeyError: nothing was ever added.
        """
        if not self.schema:
            raise KeyError("obs: nothing has been added to this buffer yet")
        fields = self.core.take(rows, keys, stack_num, out)
        if self.plain:
            return fields
        depth = self.core.stack_num if stack_num is None else stack_num
        for path, column in self.objects.items():
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
        """Stacks that end with the next row's ``obs``, or, where an episode ends, with what the row led to."""
        kept = self.last.get(path)
        ends = [place for place in np.ndindex(rows.shape) if int(rows[place]) in kept] if kept else []
        if not kept or not ends:
            return following
        if rows.ndim == 0 and depth == 1:
            return kept[int(rows)]
        for place in ends:
            if depth > 1:
                following[place][:-1] = following[place][1:].copy()
                following[(*place, -1)] = kept[int(rows[place])]
            else:
                following[place] = kept[int(rows[place])]
        return following

    def _gather(self, path: Path, column: NDArray[Any], rows: Index, depth: int) -> Any:
        if depth == 1 or path[0] not in STACKED:
            taken = column[rows]
            alone = column.dtype == object and column.ndim == 1 and rows.ndim == 0  # not an array of an object's parts
            return taken if alone else np.asarray(taken, column.dtype)
        frames = self.frames(rows, depth)
        stack = np.asarray(column[frames])
        if path[0] == "obs_next":
            padding = np.append(frames[..., :-1] == frames[..., 1:], np.zeros((*rows.shape, 1), np.bool_), -1)
            observed = self._observed(path[1:], frames[padding])
            if observed is not None:  # before the episode's oldest row, what was seen there repeats
                alone = stack.dtype == object and stack.ndim == frames.ndim
                stack[padding] = object_array(list(observed)) if alone else observed
        return stack

    def _observed(self, path: Path, rows: Index) -> NDArray[Any] | None:
        """The leaf of ``obs`` at ``path``, if there is one."""
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
        """A whole column that Python holds."""
        return self.assigned.get(path[0], self.objects).get(path)

    def frames(self, rows: Index, depth: int) -> Index:
        """The rows of a frame stack, oldest first, along a new last axis."""
        chain = [rows]
        for _ in range(depth - 1):
            chain.insert(0, self.core.prev(chain[0]))
        return np.stack(chain, -1)

    def live(self, ring: int | None = None) -> Index:
        """All live rows, oldest first, whether or not they have a full stack."""
        sample_avail, self.core.sample_avail = self.core.sample_avail, False
        try:
            return self.core.chronological(ring)
        finally:
            self.core.sample_avail = sample_avail


def _put(fields: dict[str, Any], path: Path, value: Any) -> None:
    group = fields
    for key in path[:-1]:
        inner = group.setdefault(key, wrap({}))
        group = inner.__dict__
    group[path[-1]] = value
