"""What a policy is given to act on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rlfast.data import row_trees
from rlfast.data.batch.batch import Batch, wrap
from rlfast.data.batch.fields import set_fields

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ids: TypeAlias = NDArray[np.int64]
    Before: TypeAlias = tuple[Ids, dict[str, Any]]
    """The transitions of the newest step: of which environments, and the columns of their rows."""

_LEFT = frozenset({"act", "rew", "terminated", "truncated", "done", "obs_next", "policy"})
_context = "_context"


class Seen(Batch):
    """``obs`` and ``info`` of environments, with the step before within reach.

    Tianshou 1.0 gives policies a batch with all keys of a transition. Those that are not known yet are left from the
    step before, or empty. They can be read here as attributes, and are no fields: ``batch.rew`` is the newest reward.
    """

    __slots__ = (_context,)

    def __getattr__(self, key: str) -> Any:
        if key in _LEFT:
            try:
                ids, before = object.__getattribute__(self, _context)
            except AttributeError:  # a copy, or one made of nothing
                return super().__getattr__(key)
            return wrap({}) if before is None else _left(before, ids, key)
        return super().__getattr__(key)


_set_context = Seen.__dict__[_context].__set__


def seen(fields: dict[str, Any], ids: Ids, before: Before | None) -> Seen:
    """What is seen of the environments ``ids``; ``fields`` are neither copied nor looked at."""
    batch: Seen = object.__new__(Seen)
    set_fields(batch, fields)
    _set_context(batch, (ids, before))
    return batch


def _left(before: Before, ids: Ids, key: str) -> Any:
    """The field ``key`` of the environments ``ids``; an empty ``Batch`` where one of them has none."""
    known, fields = before
    value = fields["terminated"] | fields["truncated"] if key == "done" else fields.get(key)
    if value is None or np.array_equal(ids, known):
        return Batch() if value is None else value
    place = {i: row for row, i in enumerate(known.tolist())}
    if not all(i in place for i in ids.tolist()):
        return Batch()
    return row_trees.take(value, np.array([place[i] for i in ids.tolist()]))
