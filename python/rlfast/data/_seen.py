"""What a policy is given to act on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rlfast.data import _tree
from rlfast.data._fields import set_fields
from rlfast.data.batch import Batch, wrap

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]

_LEFT = frozenset({"act", "rew", "terminated", "truncated", "done", "obs_next", "policy"})
_ids = "_ids"
_before = "_before"


@dataclass(frozen=True, slots=True)
class Before:
    """The transitions of the newest step."""

    ids: Ids
    """Of which environments, in the order of the rows."""
    fields: dict[str, Any]
    """Their columns."""

    def of(self, ids: Ids, key: str) -> Any:
        """The field ``key`` of the environments ``ids``; an empty ``Batch`` where one of them has none."""
        value = self.fields.get(key)
        if key == "done":
            value = self.fields["terminated"] | self.fields["truncated"]
        if value is None or np.array_equal(ids, self.ids):
            return Batch() if value is None else value
        place = {i: row for row, i in enumerate(self.ids.tolist())}
        if not all(i in place for i in ids.tolist()):
            return Batch()
        return _tree.take(value, np.array([place[i] for i in ids.tolist()]))


class Seen(Batch):
    """``obs`` and ``info`` of environments, with the step before within reach.

    Tianshou 1.0 gives policies a batch with all keys of a transition. Those that are not known yet are left from the
    step before, or empty. They can be read here as attributes, and are no fields: ``batch.rew`` is the newest reward.
    """

    __slots__ = (_before, _ids)

    def __getattr__(self, key: str) -> Any:
        if key in _LEFT:
            try:
                before, ids = object.__getattribute__(self, _before), object.__getattribute__(self, _ids)
            except AttributeError:  # a copy, or one made of nothing
                return super().__getattr__(key)
            return wrap({}) if before is None else before.of(ids, key)
        return super().__getattr__(key)


_set_before, _set_ids = Seen.__dict__[_before].__set__, Seen.__dict__[_ids].__set__


def seen(fields: dict[str, Any], ids: Ids, before: Before | None) -> Seen:
    """What is seen of the environments ``ids``; ``fields`` are neither copied nor looked at."""
    batch: Seen = object.__new__(Seen)
    set_fields(batch, fields)
    _set_before(batch, before)
    _set_ids(batch, ids)
    return batch
