"""The engine under test, with the interface of random programs: flat rows in, flat rows out."""

import tempfile
from collections.abc import Sequence
from pathlib import Path as FilePath
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.replay import Fields, Replay
from property.compare import flatten, must_raise, nest, same
from property.observations import LATE
from property.programs import Config, Extend, Install, Late, Operation, storages
from property.questions import compare
from rlfast import _core

Index = NDArray[np.int64]


class Nested:
    """A type for nested values of the engine, in place of ``Batch``."""


APPENDED = {"obs", "act", "rew", "terminated", "truncated", "obs_next"}


class Engine:
    """``rlfast._core.Replay`` behind the operations of a program."""

    objects = False

    def __init__(self, config: Config) -> None:
        self.config = config
        self.folder = tempfile.TemporaryDirectory()
        self.storages = storages(config)
        self.replay = self._make()

    def _make(self) -> _core.Replay:
        """An empty engine, each one in another storage than the one before."""
        storage = next(self.storages)
        storage = tempfile.mkdtemp(dir=self.folder.name) if storage == "folder" else storage
        capacities = list(self.config.capacities)
        return _core.Replay(capacities, batch=Nested, seed=3, storage=storage, **self.config.options())

    def close(self) -> None:
        del self.replay
        self.folder.cleanup()

    def model(self) -> Replay:
        return Replay(self.config.capacities, **self.config.options())

    def supports(self, operation: Operation) -> bool:
        """Objects are kept beside the engine, and rows of other buffers are the buffers' affair."""
        return not (
            isinstance(operation, Extend | Install) or (isinstance(operation, Late) and LATE[operation.path][0] == "O")
        )

    def compare(self, model: Replay, random: Random) -> None:
        compare(self, model, random)

    # -- writing -----------------------------------------------------------------------------------------------------
    def _complete(self, fields: Fields) -> Fields:
        """The row with every column the engine has, and the engine with every column the row has."""
        known = {path: (dtype, shape) for path, dtype, shape in self.replay.columns()}
        stored = [path for path in fields if self.config.save_obs_next or path[0] != "obs_next"]
        new = [(path, fields[path].dtype, fields[path].shape) for path in stored if path not in known]
        if new:
            self.replay.define(new)
        missing = {path: np.zeros(*reversed(column)) for path, column in known.items() if path not in fields}
        return {path: value for path, value in (fields | missing).items() if path != ("done",)}

    def add(self, rings: Sequence[int], rows: Sequence[Fields], *, vector: bool) -> tuple[NDArray[Any], ...]:
        complete = [self._complete(row) for row in rows]
        if not vector and rings[0] == 0:
            if {path[0] for path in complete[0]} <= APPENDED:
                return (np.array([self.replay.append(**nest(complete[0]))]),)
            return self.replay.add(nest(complete[0]))
        batch = {path: np.stack([row[path] for row in complete]) for path in complete[0]}
        return self.replay.add(nest(batch), np.array(rings))

    def reset(self, ring: int | None, keep_statistics: bool) -> None:
        self.replay.reset(ring, keep_statistics)

    def close_episode(self, ring: int) -> None:
        self.replay.close_episode(ring)

    def extend(self, ring: int, source: str, other: Any) -> Index:
        raise NotImplementedError

    def install(self, storage: list[Fields]) -> None:
        raise NotImplementedError

    def stored(self, fields: Fields) -> Fields:
        return fields

    def update_priority(self, index: Index, priority: NDArray[np.float64]) -> int:
        return self.replay.update_priority(index, priority)

    def draw(self, size: int) -> Index:
        return self.replay.draw(size)

    def set_beta(self, beta: float) -> None:
        self.replay.beta = beta

    def persist(self, how: str) -> bool:
        """The same state in a new object, which goes on in the same way."""
        old, self.replay = self.replay, self._make()
        if how == "columns":
            self._load_columns(old)
            return False
        if how == "file":
            file = str(FilePath(self.folder.name) / "snapshot")
            old.save(file)
            self.replay.open(file)
        else:
            self.replay.restore(old.dump())
        if len(old.chronological()):
            same("draw", self.replay.draw(5), np.array(old.draw(5)))
        return True

    def _load_columns(self, old: _core.Replay) -> None:
        """What HDF5 files and ``set_batch`` do: whole columns, and which rows of them are live."""
        self.replay.beta = old.beta
        columns = old.columns()
        if not columns:
            return
        self.replay.define(columns)
        views = {path: np.array(old.view(path)) for path in [*(path for path, *_ in columns), *old.finals]}
        known = old.has_obs_next(np.arange(old.total)).tolist()
        self.replay.load(nest(views), old.sizes().tolist(), old.cursors().tolist(), known)
        for ring in range(len(self.config.capacities)):
            self.replay.set_running(ring, *old.running(ring))
        if self.config.alpha is not None:
            slots = np.arange(old.total)
            self.replay.max_priority = old.max_priority
            self.replay.tree[slots] = old.tree[slots]

    # -- reading -----------------------------------------------------------------------------------------------------
    def take(self, index: Index, depth: int | None = None) -> Fields:
        return flatten(self.replay.take(index, stack_num=depth))

    def sample(self, size: int) -> tuple[Fields, Index]:
        batch, index = self.replay.sample(size)
        return flatten(vars(batch)), index

    # -- bad input ---------------------------------------------------------------------------------------------------
    def refuse(self, what: str, model: Replay) -> None:
        """Passes bad input, which must raise an error; the next comparison shows that nothing changed."""
        live, total = model.live(), sum(self.config.capacities)
        if not live:
            return
        match what:
            case "nan priority" | "infinite priority" | "negative priority":
                if self.config.alpha is not None:
                    place = np.repeat([model.index(live[-1])], 2)
                    values = np.array([1.0, {"nan": np.nan, "inf": np.inf, "neg": -1.0}[what[:3]]])
                    must_raise(ValueError, lambda: self.replay.update_priority(place, values))
            case "index":
                must_raise(IndexError, lambda: self.replay.take(np.array([total])))
                must_raise(IndexError, lambda: self.replay.take(np.array([-total - 1])))
            case _:
                self._refuse_row(what, {path: model.value(live[-1], path) for path in model.columns})

    def _refuse_row(self, what: str, fields: Fields) -> None:
        if not self.config.save_obs_next:
            fields = {path: value for path, value in fields.items() if path[0] != "obs_next"}
        match what:
            case "shape":
                fields["act",] = np.zeros(11)
            case "dtype":
                fields["rew",] = np.asarray("much")
            case "missing key":
                del fields["truncated",]
        ring = len(self.config.capacities) if what == "ring" else 0
        batch = nest({path: np.asarray(value)[None] for path, value in fields.items()})
        wanted = (_core.SchemaMismatch, IndexError, ValueError, KeyError, TypeError)
        must_raise(wanted, lambda: self.replay.add(batch, np.array([ring])))
