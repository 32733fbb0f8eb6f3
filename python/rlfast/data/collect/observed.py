"""The batch that a policy is given to choose actions."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlfast.data.batch.batch import Batch, wrap
from rlfast.data.batch.parsing import set_fields
from rlfast.utils import tree

Ids: TypeAlias = NDArray[np.int64]
Before: TypeAlias = tuple[Ids, dict[str, Any]]
"""The transitions of the newest step: the indices of their environments, and their columns by name."""

_PREVIOUS_STEP = frozenset({"act", "rew", "terminated", "truncated", "done", "obs_next", "policy"})
_context = "_context"


class PolicyInput(Batch):
    """The fields ``obs`` and ``info``, and attributes that hold the values of the previous step.

    Tianshou 1.0 gives policies a batch with all keys of a transition, in which the keys that are not known yet hold the
    values of the previous step, or are empty. Here those keys are attributes but not fields: ``batch.rew`` is the
    reward of the previous step.
    """

    __slots__ = (_context,)

    def __getattr__(self, key: str) -> Any:
        if key in _PREVIOUS_STEP:
            try:
                ids, before = object.__getattribute__(self, _context)
            except AttributeError:  # a copy or a new batch, which has no previous step
                return super().__getattr__(key)
            return wrap({}) if before is None else _previous(before, ids, key)
        return super().__getattr__(key)


_set_context = PolicyInput.__dict__[_context].__set__


def policy_input(fields: dict[str, Any], ids: Ids, before: Before | None) -> PolicyInput:
    """Make the batch of the environments ``ids``; ``fields`` are neither copied nor checked.

    :param fields: ``obs`` and ``info``.
    :param ids: the indices of the environments.
    :param before: the transitions of the previous step; None if there are none.
    """
    batch: PolicyInput = object.__new__(PolicyInput)
    set_fields(batch, fields)
    _set_context(batch, (ids, before))
    return batch


def _previous(before: Before, ids: Ids, key: str) -> Any:
    """Return the field ``key`` of the previous step for ``ids``; an empty ``Batch`` if one of them has no such row."""
    known, fields = before
    value = fields["terminated"] | fields["truncated"] if key == "done" else fields.get(key)
    if value is None or np.array_equal(ids, known):
        return Batch() if value is None else value
    place = {i: row for row, i in enumerate(known.tolist())}
    if not all(i in place for i in ids.tolist()):
        return Batch()
    return tree.take(value, np.array([place[i] for i in ids.tolist()]))
