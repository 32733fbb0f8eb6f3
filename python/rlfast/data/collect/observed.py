"""The batch that a policy is given to choose actions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlfast.data.batch.batch import Batch
from rlfast.data.batch.parsing import made
from rlfast.utils import tree

Ids: TypeAlias = NDArray[np.int64]
Before: TypeAlias = tuple[Ids, dict[str, Any]]
"""The transitions of the newest step: the indices of their environments, and their columns by name."""

_PREVIOUS_STEP = frozenset({"act", "rew", "terminated", "truncated", "done", "obs_next", "policy"})


class AnnotatedBatch(Batch):
    """A batch with attributes that are not fields. Copies, and batches of its rows, do not have them."""

    __slots__ = ("_attributes",)

    def __getattr__(self, key: str) -> Any:
        try:
            attributes: Callable[[str], Any] = object.__getattribute__(self, "_attributes")
            return attributes(key)
        except (AttributeError, KeyError):
            return super().__getattr__(key)


_set_attributes = AnnotatedBatch.__dict__["_attributes"].__set__


def annotated(fields: dict[str, Any], attributes: Callable[[str], Any]) -> AnnotatedBatch:
    """Make a batch of ``fields``, which are neither copied nor checked.

    :param fields: the fields.
    :param attributes: returns the attribute of a name, or raises a KeyError.
    """
    batch = made(AnnotatedBatch, fields)
    _set_attributes(batch, attributes)
    return batch


def policy_input(fields: dict[str, Any], ids: Ids, before: Before | None) -> AnnotatedBatch:
    """Make the batch that a policy is given to choose actions of the environments ``ids``.

    The other keys of a transition are attributes of the batch but no fields. They hold the values of the previous step,
    or are empty: ``batch.rew`` is the reward of the previous step.

    :param fields: ``obs`` and ``info``.
    :param ids: the indices of the environments.
    :param before: the transitions of the previous step; None if there are none.
    """
    return annotated(fields, partial(_previous, ids, before))


def _previous(ids: Ids, before: Before | None, key: str) -> Any:
    """Return the field ``key`` of the previous step for ``ids``; an empty ``Batch`` if one of them has no such row.

    :raises KeyError: transitions have no such field.
    """
    if key not in _PREVIOUS_STEP:
        raise KeyError(key)
    if before is None:
        return Batch()
    known, fields = before
    value = fields["terminated"] | fields["truncated"] if key == "done" else fields.get(key)
    if value is None or np.array_equal(ids, known):
        return Batch() if value is None else value
    place = {i: row for row, i in enumerate(known.tolist())}
    if not all(i in place for i in ids.tolist()):
        return Batch()
    return tree.take(value, np.array([place[i] for i in ids.tolist()]))
