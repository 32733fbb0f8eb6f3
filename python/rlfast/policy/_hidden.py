from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rlfast.data import Batch, to_torch
from rlfast.data.row_trees import storable

if TYPE_CHECKING:
    from rlfast.data import ReplayBuffer
    from rlfast.data.types import RolloutBatchProtocol
    from rlfast.policy._returns import Index


def stored_state(
    batch: "RolloutBatchProtocol",
    buffer: "ReplayBuffer",
    indices: "Index",
    *,
    after: Callable[[Any, Any], Any] | None = None,
) -> Any:
    """Give the hidden state that a recurrent policy had before it saw some rows, as it was stored while collecting.

    It is what a network starts from when it sees their frames again (the *stored state* of Kapturowski et al. 2019,
    *Recurrent Experience Replay in Distributed Reinforcement Learning*, section 3). What follows is as it was while
    acting, but for rows at the start of an episode, which have no whole stack: there the first frame is repeated, and
    was seen once.

    :param batch: a sample of the buffer.
    :param indices: rows, ``[B]``.
    :param after: for the state before the frames of ``obs_next``, of which the first is a row later: gives the state
        of the network after an observation, from the state before it. It is asked where the buffer has no later row
        of the episode. None (default) is for the frames of ``obs``.
    :return: a ``Batch`` of tensors ``[B, ...]``; None if no state was stored.
    """
    policy = batch.get("policy")
    if policy is None or "hidden_state" not in policy:
        return None
    for _ in range(buffer.stack_num - 1 - (after is not None)):
        indices = np.asarray(buffer.prev(indices))
    if after is None or buffer.stack_num > 1:  # the first frame is that of a row
        return _state_of(buffer, indices)
    later = np.asarray(buffer.next(indices))
    state = _state_of(buffer, later)
    last = np.flatnonzero(later == indices)
    if len(last):
        rows = indices[last]
        with torch.no_grad():
            own = after(buffer.get(rows, "obs", stack_num=1), _state_of(buffer, rows))
        _put(state, last, to_torch(Batch(storable(own))))
    return state


def add_stored_state(batch: "RolloutBatchProtocol", buffer: "ReplayBuffer", indices: "Index") -> None:
    """Add to a sample, as ``batch.state``, the hidden state of :func:`stored_state`, if there is one.

    A field without rows would leave the sample without a length.
    """
    state = stored_state(batch, buffer, indices)
    if state is not None:
        batch.state = state


def _state_of(buffer: "ReplayBuffer", rows: "Index") -> Any:
    return to_torch(buffer.get(rows, "policy", stack_num=1).hidden_state)


def _put(state: Any, rows: "Index", values: Any) -> None:
    if isinstance(state, Batch):
        for key, value in state.items():
            _put(value, rows, values[key])
    else:
        state[rows] = values.to(state.dtype)
