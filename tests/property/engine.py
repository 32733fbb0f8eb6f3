"""The engine under test, spoken to as random programs speak: flat rows in, flat rows out."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path as FilePath
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.replay import Fields, Path, Replay
from property.observations import LATE
from property.programs import Config, Late, Operation
from property.questions import compare
from rlfast import _core

Index = NDArray[np.int64]


class Nested:
    """What stands for a ``Batch`` here."""


def nest(fields: Fields) -> dict[str, Any]:
    """Flat leaves as nested dicts."""
    result: dict[str, Any] = {}
    for path, value in fields.items():
        place = result
        for key in path[:-1]:
            place = place.setdefault(key, {})
        place[path[-1]] = value
    return result


def flatten(batch: Any, above: Path = ()) -> Fields:
    """Nested leaves as flat ones."""
    if isinstance(batch, np.ndarray | np.generic):
        return {above: batch}
    children = batch if isinstance(batch, Mapping) else batch.__dict__
    return {path: leaf for key, child in children.items() for path, leaf in flatten(child, (*above, key)).items()}


def must_raise(kind: type[Exception] | tuple[type[Exception], ...], call: Callable[[], object]) -> None:
    try:
        call()
    except kind:
        return
    raise AssertionError(f"nothing was raised, wanted {kind}")


class Engine:
    """``rlfast._core.Replay`` behind the operations of a program."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.replay = self._make()

    def _make(self) -> _core.Replay:
        return _core.Replay(list(self.config.capacities), batch=Nested, seed=3, **self.config.options())

    def model(self) -> Replay:
        return Replay(self.config.capacities, **self.config.options())

    def supports(self, operation: Operation) -> bool:
        """Objects are kept beside the engine."""
        return not (isinstance(operation, Late) and LATE[operation.path][0] == "O")

    def compare(self, model: Replay, random: Random) -> None:
        compare(self, model, random)

    # -- writing -----------------------------------------------------------------------------------------------------
    def _complete(self, fields: Fields) -> Fields:
        """The row with every column the engine has, and the engine with every column the row has."""
        if not self.config.save_obs_next:
            fields = {path: value for path, value in fields.items() if path[0] != "obs_next"}
        known = {path: (dtype, shape) for path, dtype, shape in self.replay.columns()}
        new = [(path, value.dtype, value.shape) for path, value in fields.items() if path not in known]
        if new:
            self.replay.define(new)
        missing = {path: np.zeros(*reversed(column)) for path, column in known.items() if path not in fields}
        return {path: value for path, value in (fields | missing).items() if path != ("done",)}

    def add(self, rings: Sequence[int], rows: Sequence[Fields], *, vector: bool) -> tuple[NDArray[Any], ...]:
        complete = [self._complete(row) for row in rows]
        if not vector and rings[0] == 0:
            return self.replay.add(nest(complete[0]))
        batch = {path: np.stack([row[path] for row in complete]) for path in complete[0]}
        return self.replay.add(nest(batch), np.array(rings))

    def reset(self, ring: int | None, keep_statistics: bool) -> None:
        self.replay.reset(ring, keep_statistics)

    def close_episode(self, ring: int) -> None:
        self.replay.close_episode(ring)

    def update_priority(self, index: Index, priority: NDArray[np.float64]) -> int:
        return self.replay.update_priority(index, priority)

    def draw(self, size: int) -> Index:
        return self.replay.draw(size)

    def set_beta(self, beta: float) -> None:
        self.replay.beta = beta

    def persist(self, how: str) -> bool:
        """The same state in a new object."""
        old, self.replay = self.replay, self._make()
        if how in ("memory", "copy"):
            self.replay.restore(old.dump())
        else:
            with tempfile.TemporaryDirectory() as folder:
                file = str(FilePath(folder) / "replay")
                old.save(file)
                self.replay.open(file)
        self.replay.beta = old.beta
        return True

    # -- reading -----------------------------------------------------------------------------------------------------
    def take(self, index: Index, depth: int | None = None) -> Fields:
        return flatten(self.replay.take(index, stack_num=depth))

    def sample(self, size: int) -> tuple[Fields, Index]:
        batch, index = self.replay.sample(size)
        return flatten(batch), index

    # -- bad input ---------------------------------------------------------------------------------------------------
    def refuse(self, what: str, model: Replay) -> None:
        """Input that must raise; the comparison that follows sees that nothing changed."""
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
