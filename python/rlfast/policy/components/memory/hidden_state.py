from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from rlfast.data import Batch, ReplayBuffer, to_torch
from rlfast.data.batch.batch import wrap
from rlfast.data.types import RolloutBatchProtocol
from rlfast.policy.components.returns import Index
from rlfast.utils.tree import storable


def stored_state(
    batch: RolloutBatchProtocol | None,
    buffer: ReplayBuffer,
    indices: Index,
    *,
    after: Callable[[Any, Any], Any] | None = None,
) -> Any:
    """Return the hidden state of a recurrent policy before given rows, as it was stored during collection.

    A network that processes the frames of the rows again starts from it (the *stored state* of Kapturowski et al. 2019,
    *Recurrent Experience Replay in Distributed Reinforcement Learning*, section 3). Its outputs are then those of
    acting, except at the start of an episode: a stack repeats the first frame there, which acting saw once.

    :param batch: a sample of the buffer, which tells whether states were stored; None to ask the buffer.
    :param buffer: the buffer.
    :param indices: rows, ``[B]``.
    :param after: selects the state before the frames of ``obs_next``, the first of which is one row later. It is called
        with an observation and the state before it, and returns the state after it, for rows without a later row in
        their episode. None (default) selects the state before the frames of ``obs``.
    :return: a ``Batch`` of tensors ``[B, ...]``; None if no state was stored.
    """
    policy = buffer.get(indices[:1], "policy", (), stack_num=1) if batch is None else batch.get("policy", ())
    if "hidden_state" not in policy:
        return None
    for _ in range(buffer.stack_num - 1 - (after is not None)):
        indices = np.asarray(buffer.prev(indices))
    if after is None or buffer.stack_num > 1:  # the first frame is the observation of a row
        return _state_of(buffer, indices)
    later = np.asarray(buffer.next(indices))
    state = _state_of(buffer, later)
    last = np.flatnonzero(later == indices)
    if len(last):
        rows = indices[last]
        with torch.no_grad():
            own = after(buffer.get(rows, "obs", stack_num=1), as_returned(_state_of(buffer, rows)))
        _put(state, last, to_torch(Batch(storable(own))))
    return state


def add_stored_state(batch: RolloutBatchProtocol, buffer: ReplayBuffer, indices: Index) -> None:
    """Set ``batch.state`` to the hidden state of :func:`stored_state`, if one was stored.

    :param batch: a sample of the buffer.
    :param buffer: the buffer.
    :param indices: rows, ``[B]``.
    """
    state = stored_state(batch, buffer, indices)
    if state is not None:
        batch.state = state


def as_field(hidden: object) -> Any:
    """Return a hidden state as a field of what a policy returns: a ``Batch`` for a dict, and else as it is.

    :param hidden: the state, as a network returns it.
    """
    return wrap({name: as_field(part) for name, part in hidden.items()}) if isinstance(hidden, dict) else hidden


def as_returned(state: object) -> Any:
    """Return a stored hidden state as the network returned it: a tuple for a tuple or a list, whose parts are stored
    under the names "0", "1" and so on.

    :param state: the stored state, a ``Batch``, a tensor or None.
    """
    if not isinstance(state, Batch):
        return state
    parts = {name: as_returned(part) for name, part in state.items()}
    return tuple(parts.values()) if [*parts] == [str(i) for i in range(len(parts))] else wrap(parts)


def _state_of(buffer: ReplayBuffer, rows: Index) -> Any:
    return to_torch(buffer.get(rows, "policy", stack_num=1).hidden_state)


def _put(state: Any, rows: Index, values: Any) -> None:
    if isinstance(state, Batch):
        for key, value in state.items():
            _put(value, rows, values[key])
    else:
        state[rows] = values.to(state.dtype)
