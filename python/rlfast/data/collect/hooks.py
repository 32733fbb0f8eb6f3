"""What hooks and statistics of a user's class are called with."""

# ruff: noqa: SLF001 (whole columns of a buffer are `_meta`)

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from rlfast.data.batch.batch import Batch, wrap
from rlfast.data.buffer.base import ReplayBuffer
from rlfast.data.collect.observed import annotated

Ids = NDArray[np.int64]
StepFunction: TypeAlias = Callable[[Any, Any], None]
EpisodeFunction: TypeAlias = Callable[[Any], dict[str, NDArray[Any]] | None]


def step_batches(
    transition: Batch, normalized: NDArray[Any], dist: torch.distributions.Distribution | None
) -> tuple[Batch, Batch]:
    """Return what step hooks are called with: the actions, and the transitions.

    :param transition: the transitions, a row for each environment.
    :param normalized: the actions as they were sent to the environments.
    :param dist: the distribution that the actions are drawn from; None if there is none.
    """
    fields = transition.__dict__
    stored = fields.get("policy", Batch())
    actions = {
        "act": fields["act"],
        "act_normalized": normalized,
        "policy_entry": stored,
        "hidden_state": stored.get("hidden_state"),
    }
    step = {**fields, "done": fields["terminated"] | fields["truncated"]}
    more = {"dist": dist}.__getitem__
    return annotated(actions, more), annotated(step, more)


def stored_fields(step: Batch) -> Batch:
    """Return the fields that the buffer stores of the transitions of a step hook, which may have changed them."""
    distribution = torch.distributions.Distribution
    kept = {key: value for key, value in step.__dict__.items() if not isinstance(value, distribution)}
    kept.pop("done", None)
    return wrap(kept)


def add_to_episode(buffer: ReplayBuffer, episode: Batch, rows: Ids, added: Mapping[str, Any], *, whole: bool) -> None:
    """Add what an episode hook returned to the rows of an episode. Other rows have NaN there, or None among objects.

    :param buffer: the buffer.
    :param episode: the transitions of the episode, which get the values too.
    :param rows: their indices in the buffer.
    :param added: the values of each field, one for each row.
    :param whole: whether only whole episodes are collected.
    :raises ValueError: rows of running episodes would have no values, or there are not as many values as rows.
    """
    if not whole:
        raise ValueError(
            f"on_episode_done_hook adds {', '.join(added)} to the rows of an episode, and rows of episodes "
            "that are running would have no such values: collect by n_episode"
        )
    for key, given in added.items():
        values = np.asarray(given)
        if len(values) != len(rows):
            raise ValueError(
                f"on_episode_done_hook gave {len(values)} values of {key} for an episode of {len(rows)} rows"
            )
        if key in buffer._meta:
            column = np.array(buffer._meta[key])
        else:
            dtype = np.result_type(values, np.float32) if values.dtype.kind in "biuf" else object
            column = np.full((buffer.maxsize, *values.shape[1:]), None, dtype)  # which is NaN among numbers
        column[rows] = values
        buffer._meta[key] = column
        setattr(episode, key, given)
