"""From nested rows to typed columns: which leaves there are, what their columns hold, and what later rows may put
there.

The first row decides a column's dtype and shape. A later row is converted only where nothing is lost: integers, flags
and whole numbers must come through exactly; a float may be rounded to a narrower float, but stay finite. Everything
that NumPy cannot hold as numbers (strings, None, graphs, environments) is an *object leaf*, kept in NumPy object
columns; such a column holds anything that later rows bring.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlfast.data._leaves import (
    OBJECT,
    Column,
    Oddities,
    Path,
    as_array,
    convert,
    fit,
    infer,
    plain,
    spell,
)
from rlfast.data.batch.batch import Batch

__all__ = [
    "Column",
    "Leaves",
    "Oddities",
    "Path",
    "Schema",
    "as_array",
    "convert",
    "fit",
    "flatten",
    "nest",
    "plain",
    "spell",
]

Leaves: TypeAlias = dict[Path, NDArray[Any]]

REQUIRED = ("obs", "act", "rew", "terminated", "truncated")
COMPLETE = ("obs", "act", "obs_next")
"""Groups of which a row should leave no leaf out; elsewhere what is missing is zero or None, and nobody is told."""


def flatten(fields: Mapping[str, Any], whole: Collection[Path] = ()) -> tuple[dict[Path, Any], set[Path]]:
    """Leaves by path, and the paths of groups that hold nothing. ``done`` is left out: it follows from the other flags.

    :param fields: nested leaves.
    :param whole: paths at which a group is a leaf: an object column holds it.

    >>> flatten({"obs": {"a": 1, "b": {}}, "done": True})
    ({('obs', 'a'): 1}, {('obs', 'b')})
    """
    leaves: dict[Path, Any] = {}
    groups: set[Path] = set()
    _flatten({key: value for key, value in fields.items() if key != "done"}, (), leaves, groups, whole)
    return leaves, groups


def _flatten(
    fields: Mapping[str, Any], path: Path, leaves: dict[Path, Any], groups: set[Path], whole: Collection[Path]
) -> None:
    for key, value in fields.items():
        here = (*path, key)
        inner = value.__dict__ if isinstance(value, Batch) else value
        if isinstance(inner, Mapping) and here in whole:
            leaves[here] = value if isinstance(value, Batch) else Batch(value)
        elif not isinstance(inner, Mapping):
            leaves[here] = inner
        elif inner:
            _flatten(inner, here, leaves, groups, whole)
        else:
            groups.add(here)


def nest(leaves: Mapping[Path, Any], groups: Iterable[Path] = ()) -> dict[str, Any]:
    """The reverse of :func:`flatten`, as plain dicts.

    >>> nest({("obs", "a"): 1, ("act",): 2}, [("info",)])
    {'obs': {'a': 1}, 'act': 2, 'info': {}}
    """
    result: dict[str, Any] = {}
    for path, value in leaves.items():
        group = result
        for key in path[:-1]:
            group = group.setdefault(key, {})
        group[path[-1]] = value
    for path in groups:
        group = result
        for key in path:
            group = group.setdefault(key, {})
    return result


@dataclass
class Schema:
    """The columns so far.

    :ivar numbers: leaves that the engine stores.
    :ivar objects: leaves kept as Python objects, with the shape of one row.
    :ivar groups: groups that came empty, such as ``info={}``.
    :ivar oddities: what has been said of odd rows.
    """

    numbers: dict[Path, Column] = field(default_factory=dict)
    objects: dict[Path, Column] = field(default_factory=dict)
    groups: set[Path] = field(default_factory=set)
    oddities: Oddities = field(default_factory=Oddities, compare=False, repr=False)

    def __bool__(self) -> bool:
        return bool(self.numbers or self.objects)

    def columns(self) -> dict[Path, Column]:
        """Both kinds of leaves."""
        return {**self.numbers, **self.objects}

    def names(self) -> list[str]:
        """Top-level names, in the order they came."""
        return list(dict.fromkeys(path[0] for path in (*self.numbers, *self.objects, *sorted(self.groups))))

    def conform(
        self, fields: Mapping[str, Any], rows: int | None, *, links_next: bool = False
    ) -> tuple[Leaves, Schema]:
        """Turns rows into what the columns hold; changes nothing.

        :param fields: nested leaves; with ``rows`` given, each has that many rows along its first axis.
        :param rows: None for a single row without that axis.
        :param links_next: whether a row may do without ``obs_next``: its leaves are left out of the answer then.
        :return: every leaf in its column's dtype and shape, and the columns that these rows add.
        :raises KeyError: a field that every row needs is missing.
        :raises TypeError: a dtype that would lose information.
        :raises ValueError: another shape or structure than the first row's.
        """
        if links_next and fields.get("obs_next", ()) is None:
            fields = {key: value for key, value in fields.items() if key != "obs_next"}
        self.oddities.forget()
        given, groups = flatten(fields, self.objects)
        columns = self.columns()
        absent = self._check_structure(given, groups, columns, links_next)
        added = Schema(groups=groups - self.groups)
        leaves: Leaves = {}
        for path, value in given.items():
            column = columns.get(path)
            if column is None:
                column = infer(value, path, rows)
                (added.objects if column.dtype == OBJECT else added.numbers)[path] = column
            leaves[path] = fit(value, column, path, rows, self.oddities)
        for path, column in columns.items():
            if path not in leaves and path not in absent:
                shape = column.shape if rows is None else (rows, *column.shape)
                leaves[path] = np.full(shape, None if column.dtype == OBJECT else 0, column.dtype)
        self.oddities.tell()
        return leaves, added

    def extend(self, added: Schema) -> None:
        """Takes the new columns in."""
        self.numbers.update(added.numbers)
        self.objects.update(added.objects)
        filled = {path[:depth] for path in (*self.numbers, *self.objects) for depth in range(1, len(path) + 1)}
        self.groups = (self.groups | added.groups) - filled

    def _check_structure(
        self, given: Mapping[Path, Any], groups: set[Path], known: Mapping[Path, Column], links_next: bool
    ) -> list[Path]:
        """Looks for what is missing or stands in another place; the leaves of an ``obs_next`` that was not given."""
        tops = {path[0] for path in (*given, *groups)}
        absent = [path for path in self.numbers if path[0] == "obs_next"] if "obs_next" not in tops else []
        missing = [key for key in REQUIRED if key not in tops]
        missing += [path[0] for path in known if path[0] in COMPLETE and path[0] not in tops]
        if absent and not links_next:
            missing.append("obs_next")
        if missing := [name for name in dict.fromkeys(missing) if name != "obs_next" or not (absent and links_next)]:
            names = ", ".join(sorted(map(spell, given))) or "nothing"
            raise KeyError(
                f"{', '.join(missing)} missing, got {names}: a row needs {', '.join(REQUIRED)}, and obs_next where "
                "earlier rows had it"
            )
        for path in given:
            outer = next((path[:depth] for depth in range(1, len(path)) if path[:depth] in known), None)
            if outer is not None or any(other[: len(path)] == path and other != path for other in known):
                was = "an array" if outer is not None else "a group of arrays"
                raise ValueError(f"{spell(path)} does not fit: {spell(outer or path)} was {was} in the first row")
        if absent:
            self.oddities.note(
                ("obs_next",), "absent", "is not given: it is the obs of the next row until an episode ends"
            )
        for path in known:
            if path[0] in COMPLETE and path not in given and path not in absent:
                self.oddities.note(path, "absent", "is not given, though earlier rows had it: it is kept as zeros")
        return absent
