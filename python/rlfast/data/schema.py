"""The schema of a buffer: the names, dtypes and shapes of its columns, and the conversion of rows to them.

The first row decides a column's dtype and shape. A later row is converted if no information is lost: integers and
flags must keep their values exactly; a float may be rounded to a float of lower precision, but must stay finite. A
value that is not numeric (a string, None, a graph, an environment) is an *object leaf*. It is stored in a NumPy object
column, which takes any value in later rows.

A value that cannot be converted is an error in observations, actions, rewards and flags. Any other column, such as that
of an info, is *promoted*: to float64 if that keeps all numbers, otherwise to objects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from numpy.typing import NDArray

from rlfast.data._leaves import OBJECT, STRICT, Column, Oddities, Path, dotted, fit, infer, promoted
from rlfast.data.batch.batch import Batch
from rlfast.utils.arguments.checks import MissingKeyError

Leaves: TypeAlias = dict[Path, NDArray[Any]]

REQUIRED = ("obs", "act", "rew", "terminated", "truncated")
COMPLETE = ("obs", "act", "obs_next")
"""Fields of which a missing leaf is zero with a warning. In other fields it is zero or None without a warning."""


def flatten(fields: Mapping[str, Any], whole: Collection[Path] = ()) -> tuple[dict[Path, Any], set[Path]]:
    """Flattens nested fields. ``done`` is left out, because it follows from ``terminated`` and ``truncated``.

    :param fields: nested leaves.
    :param whole: the paths of object columns, where a group is stored as one leaf.
    :return: the leaves by path, and the paths of empty groups.

    >>> flatten({"obs": {"a": 1, "b": {}}, "done": True})
    ({('obs', 'a'): 1}, {('obs', 'b')})
    """
    return leaves_of({key: value for key, value in fields.items() if key != "done"}, whole)


def leaves_of(fields: Mapping[str, Any], whole: Collection[Path] = ()) -> tuple[dict[Path, Any], set[Path]]:
    """Flattens nested fields as :func:`flatten` does, with ``done`` where it is given."""
    leaves: dict[Path, Any] = {}
    groups: set[Path] = set()
    _flatten(fields, (), leaves, groups, whole)
    return leaves, groups


def _flatten(
    fields: Mapping[Any, Any], path: Path, leaves: dict[Path, Any], groups: set[Path], whole: Collection[Path]
) -> None:
    for key, value in fields.items():
        here = (*path, key if isinstance(key, str) else str(key))
        inner = value.__dict__ if isinstance(value, Batch) else value
        if isinstance(inner, Mapping) and here in whole:
            leaves[here] = value if isinstance(value, Batch) else Batch(value)
        elif not isinstance(inner, Mapping):
            leaves[here] = inner
        elif inner:
            _flatten(inner, here, leaves, groups, whole)
        else:
            groups.add(here)


def _outer(path: Path, known: Collection[Path]) -> Path | None:
    """Returns the first of ``known`` that a path leads through."""
    return next((path[:depth] for depth in range(1, len(path)) if path[:depth] in known), None)


def _groups(paths: Iterable[Path]) -> set[Path]:
    """Returns all groups that paths lead through."""
    return {path[:depth] for path in paths for depth in range(1, len(path))}


def _is_within(path: Path, outer: Collection[Path]) -> bool:
    """Returns whether a path is one of ``outer`` or below one."""
    return path in outer or _outer(path, outer) is not None


def _boxed(given: Iterable[Path], groups: Iterable[Path], known: Collection[Path]) -> dict[Path, Column]:
    """Returns columns of objects for the paths at which either rows or columns have a group, and the others a value."""
    inner = _groups(known)
    outer = [_outer(path, known) or path for path in groups if path[0] == "info"]  # elsewhere, empty means not given
    found = [(path, _outer(path, known) or path) for path in given]
    paths = [path for path in outer if path in known] + [to for path, to in found if to != path or path in inner]
    return {path: Column(OBJECT, ()) for path in paths if path[0] not in STRICT}


def nest(leaves: Mapping[Path, Any], groups: Iterable[Path] = ()) -> dict[str, Any]:
    """Nests leaves in plain dicts; the inverse of :func:`flatten`.

    :param leaves: the leaves by path.
    :param groups: the paths of empty groups.
    :return: the nested dict.

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
    """The columns of a buffer, which grow when rows bring new leaves.

    :ivar numbers: the numeric columns, which the engine stores.
    :ivar objects: the columns of Python objects, with the shape of one row.
    :ivar groups: groups without leaves, such as ``info={}``.
    :ivar promoted: in the result of :meth:`conform`, the paths whose present columns the new ones replace.
    :ivar oddities: the warnings that were given about unusual values.
    """

    numbers: dict[Path, Column] = field(default_factory=dict)
    objects: dict[Path, Column] = field(default_factory=dict)
    groups: set[Path] = field(default_factory=set)
    promoted: set[Path] = field(default_factory=set)
    oddities: Oddities = field(default_factory=Oddities, compare=False, repr=False)

    def __bool__(self) -> bool:
        return bool(self.numbers or self.objects)

    def columns(self) -> dict[Path, Column]:
        """Returns the numeric and the object columns by path."""
        return {**self.numbers, **self.objects}

    def names(self) -> list[str]:
        """Returns the names of the fields, in the order in which rows brought them."""
        return list(dict.fromkeys(path[0] for path in (*self.numbers, *self.objects, *sorted(self.groups))))

    def conform(
        self,
        fields: Mapping[str, Any],
        rows: int | None,
        *,
        links_next: bool = False,
        stored: Callable[[Path], NDArray[Any]] | None = None,
    ) -> tuple[Leaves, Schema]:
        """Converts rows to the dtypes and shapes of the columns, without changing this schema.

        :param fields: nested leaves; if ``rows`` is given, each has that many rows along its first axis.
        :param rows: the number of rows; None for a single row without that axis.
        :param links_next: whether rows may lack ``obs_next``; its leaves are then missing in the result.
        :param stored: returns the values of a column; if it is given, columns can be promoted.
        :return: every leaf in its column's dtype and shape, and a schema of the columns that these rows add or promote.
        :raises MissingKeyError: a field that every row needs is missing.
        :raises TypeError: a conversion to the column's dtype would lose information.
        :raises ValueError: the rows have another shape or structure than the first row.
        """
        if links_next and fields.get("obs_next", ()) is None:
            fields = {key: value for key, value in fields.items() if key != "obs_next"}
        oddities = self.oddities.fresh()
        given, groups = flatten(fields, self.objects)
        columns = self.columns()
        boxed = _boxed(given, groups, columns) if stored else {}
        if boxed:
            given, groups = flatten(fields, {*self.objects, *boxed})
            columns = {path: column for path, column in columns.items() if not _is_within(path, boxed)}
        absent = self._check_structure(given, groups, columns, oddities, links_next=links_next)
        added = Schema(groups=groups - self.groups, objects=dict(boxed), promoted=set(boxed))
        leaves: Leaves = {}
        for path, value in given.items():
            column = columns.get(path) or boxed.get(path)
            if column is None:
                column = infer(value, path, rows)
                (added.objects if column.dtype == OBJECT else added.numbers)[path] = column
            fixed = path in self.numbers or bool(column.shape)  # else it takes any object
            loose = stored is not None and path in columns and fixed and path[0] not in STRICT
            try:
                leaves[path] = fit(value, column, path, rows, oddities, spread=not loose)
            except (TypeError, ValueError):
                if not loose or stored is None:
                    raise
                column = promoted(value, column, path, rows, stored(path))
                leaves[path] = fit(value, column, path, rows, Oddities())
                (added.objects if column.dtype == OBJECT else added.numbers)[path] = column
                added.promoted.add(path)
        for path in added.promoted:
            self._record_promotion(oddities, path, "objects" if path in added.objects else "float64")
        for path, column in columns.items():
            if path not in leaves and path not in absent:
                leaves[path] = column.blank(rows)
        oddities.emit()
        return leaves, added

    def _record_promotion(self, oddities: Oddities, path: Path, dtype: str) -> None:
        """Keeps the warning about a column that becomes one of ``dtype``."""
        column = self.columns().get(path)
        was = f"{column.dtype} of shape {column.shape}" if column else "a group of columns"
        text = f"is promoted from {was} to {dtype}, as a value does not fit the earlier rows"
        oddities.record(path, f"promoted to {dtype}", text)
        oddities.mute(path, "none")

    def extend(self, added: Schema) -> None:
        """Adds the columns that :meth:`conform` returned, in the place of those that they replace."""
        for columns in (self.numbers, self.objects):
            for path in [path for path in columns if _is_within(path, added.promoted)]:
                del columns[path]
        self.numbers.update(added.numbers)
        self.objects.update(added.objects)
        filled = {path[:depth] for path in (*self.numbers, *self.objects) for depth in range(1, len(path) + 1)}
        self.groups = (self.groups | added.groups) - filled

    def _check_structure(
        self,
        given: Mapping[Path, Any],
        groups: set[Path],
        known: Mapping[Path, Column],
        oddities: Oddities,
        *,
        links_next: bool,
    ) -> list[Path]:
        """Checks that no field is missing and that no group became a leaf or the other way round.

        :return: the paths of ``obs_next`` if that was not given.
        """
        tops = {path[0] for path in (*given, *groups)}
        absent = [path for path in self.numbers if path[0] == "obs_next"] if "obs_next" not in tops else []
        missing = [key for key in REQUIRED if key not in tops]
        missing += [path[0] for path in known if path[0] in COMPLETE and path[0] not in tops]
        if absent and not links_next:
            missing.append("obs_next")
        if missing := [name for name in dict.fromkeys(missing) if name != "obs_next" or not (absent and links_next)]:
            names = ", ".join(sorted(map(dotted, given))) or "nothing"
            raise MissingKeyError(
                f"{', '.join(missing)} missing, got {names}: a row needs {', '.join(REQUIRED)}, and obs_next where "
                "earlier rows had it"
            )
        inner = _groups(known)
        for path in given:
            outer = _outer(path, known)
            if outer is not None or path in inner:
                was = "an array" if outer is not None else "a group of arrays"
                raise ValueError(f"{dotted(path)} does not fit: {dotted(outer or path)} was {was} in the first row")
        if absent:
            oddities.record(
                ("obs_next",), "absent", "is not given: it is the obs of the next row until an episode ends"
            )
        for path in known:
            if path[0] in COMPLETE and path not in given and path not in absent:
                oddities.record(path, "absent", "is not given, though earlier rows had it: it is kept as zeros")
        return absent
