from typing import TYPE_CHECKING, Any

import numpy as np

from rlfast.data import Batch, to_torch

if TYPE_CHECKING:
    from rlfast.data import ReplayBuffer
    from rlfast.data.types import RolloutBatchProtocol
    from rlfast.policy._returns import Index


def stored_state(
    batch: "RolloutBatchProtocol", buffer: "ReplayBuffer", indices: "Index", *, of_next: bool = False
) -> Any:
    """Give the hidden state that a recurrent policy had before it saw some rows, as it was stored while collecting.

    It is what a network starts from when it sees their frames again (the *stored state* of Kapturowski et al. 2019,
    *Recurrent Experience Replay in Distributed Reinforcement Learning*, section 3). What follows is as it was while
    acting, but for rows at the start of an episode, which have no whole stack: there the first frame is repeated, and
    was seen once.

    :param batch: a sample of the buffer.
    :param indices: rows, ``[B]``.
    :param of_next: whether the frames are those of ``obs_next``, of which the first is a row later. Default: False.
    :return: a ``Batch`` of tensors ``[B, ...]``, zero where the frames reach back to the start of their episode; None
        if no state was stored.
    """
    policy = batch.get("policy")
    if policy is None or "hidden_state" not in policy:
        return None
    begun = np.ones(len(indices), bool)
    for _ in range(buffer.stack_num - of_next):
        before = np.asarray(buffer.prev(indices))
        begun &= before != indices
        indices = before
    state = buffer.get(indices, "policy", stack_num=1).hidden_state
    return _masked(to_torch(state), ~begun)


def add_stored_state(batch: "RolloutBatchProtocol", buffer: "ReplayBuffer", indices: "Index") -> None:
    """Add to a sample, as ``batch.state``, the hidden state of :func:`stored_state`, if there is one.

    A field without rows would leave the sample without a length.
    """
    state = stored_state(batch, buffer, indices)
    if state is not None:
        batch.state = state


def _masked(state: Any, gone: "np.ndarray[Any, np.dtype[np.bool_]]") -> Any:
    if isinstance(state, Batch):
        return Batch({key: _masked(value, gone) for key, value in state.items()})
    state[gone] = 0
    return state
