from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray

from rlfast import _core
from rlfast.data import ReplayBuffer
from rlfast.data.types import BatchWithReturnsProtocol, RolloutBatchProtocol
from rlfast.functional.losses import bootstrapped_return
from rlfast.functional.returns import as_flags, discounted_returns
from rlfast.utils.arguments.checks import ArgumentError

Index: TypeAlias = NDArray[np.int64]


def episode_mc_return_to_go(rewards: NDArray[Any], gamma: float = 0.99) -> NDArray[np.float64]:
    """Return the discounted sum of an episode's rewards from each step on.

    :param rewards: rewards of one episode in order of time, ``[T]``.
    :param gamma: discount. Default: 0.99.
    :return: float64 ``[T]``.

    >>> episode_mc_return_to_go(np.array([1.0, 0.0, 4.0]), gamma=0.5).tolist()
    [2.0, 2.0, 4.0]
    """
    rewards = np.asarray(rewards, np.float64)
    ends = np.arange(1, len(rewards) + 1) == len(rewards)
    return discounted_returns(rewards, ends, gamma=gamma)


def value_mask(buffer: ReplayBuffer, indices: Index) -> NDArray[np.bool_]:
    """Return for which rows the value of the next observation counts: all but those that reached a terminal state.

    A truncated episode, such as one that a time limit ended, has not reached one.

    :param buffer: the buffer that holds the rows.
    :param indices: rows, ``[B]``.
    :return: bool ``[B]``.
    """
    return ~as_flags("terminated", buffer.terminated[indices])


def compute_episodic_return(
    batch: RolloutBatchProtocol,
    buffer: ReplayBuffer,
    indices: Index,
    v_s_: NDArray[np.floating] | torch.Tensor | None = None,
    v_s: NDArray[np.floating] | torch.Tensor | None = None,
    gamma: float = 0.99,
    gae_lambda: float = 0.95,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Estimate advantages and returns of whole episodes (Schulman et al., arXiv:1506.02438, equations 11 to 16).

    .. math::
        \delta_t = r_t + \gamma V(s_{t+1}) - V(s_t), \qquad
        A_t = \delta_t + \gamma\lambda A_{t+1}, \qquad
        G_t = A_t + V(s_t)

    Episodes end at rows that are terminated or truncated, and at the newest row of a running episode. A terminal
    state has value 0, whatever ``v_s_`` is there; the last state of a truncated episode keeps its value.

    :param batch: B rows in order of time, with ``rew``, ``terminated`` and ``truncated``, each ``[B]`` or ``[B,
        1]``; flags may be the numbers 0 and 1.
    :param buffer: the buffer that holds the rows.
    :param indices: their indices in the buffer, ``[B]``.
    :param v_s_: values of the next observations, B of them; None for 0, which needs ``gae_lambda=1``.
    :param v_s: values of the observations, B of them. None takes the next value of the row before, and 0 for the
        first row of an episode, whose return is still correct but whose advantage has no baseline.
    :param gamma: discount. Default: 0.99.
    :param gae_lambda: 0 for one-step, 1 for Monte Carlo advantages. Default: 0.95.
    :return: returns and advantages, each ``[B]``.
    :raises ValueError: if ``v_s_`` is None and ``gae_lambda`` is not 1, the numbers of rows differ, or a flag is
        neither 0 nor 1.
    """
    check_indices(batch, indices)
    if v_s_ is None and not np.isclose(gae_lambda, 1.0):
        raise ArgumentError(
            f"gae_lambda={gae_lambda} needs the next observations' values v_s_; without them it must be 1"
        )
    return _core.episodic_returns(
        _floats(batch.rew),
        None if v_s is None else _floats(v_s),
        None if v_s_ is None else _floats(v_s_),
        as_flags("terminated", batch.terminated),
        as_flags("truncated", batch.truncated),
        np.asarray(indices, np.int64),
        buffer.unfinished_index(),
        gamma,
        gae_lambda,
    )


def compute_nstep_return(
    batch: RolloutBatchProtocol,
    buffer: ReplayBuffer,
    indices: Index,
    target_q_fn: Callable[[ReplayBuffer, Index], torch.Tensor],
    gamma: float = 0.99,
    n_step: int = 1,
    rew_norm: bool = False,
) -> BatchWithReturnsProtocol:
    r"""Add n-step returns to a sample.

    .. math:: G_t = \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k (1 - d)\, Q(s_{t+k})

    (Sutton and Barto, 2nd edition, section 7.1). The sum has the :math:`k \le n` steps that are left in the
    episode, and :math:`d` is 1 if :math:`s_{t+k}` is terminal, else 0. The buffer sums the rewards; the rest is
    computed on the device of Q. A sample of a buffer with ``unit=NStep`` contains the sums, for the unit's number
    of steps and discount.

    :param batch: a sample of B rows. Its ``weight``, if any, becomes a tensor.
    :param buffer: the buffer that it was drawn from.
    :param indices: indices of the rows in the buffer, ``[B]``.
    :param target_q_fn: called, without gradients, with the buffer and the last row of each sum; returns the value
        of the observation after that row, ``[B]`` or ``[B, m]``.
    :param gamma: discount. Default: 0.99.
    :param n_step: the largest number of steps to sum over, at least 1. Default: 1.
    :param rew_norm: must be False.
    :return: the batch, with ``returns``, ``[B, m]``, of the dtype and device of Q (m is 1 if Q has one dimension).
    :raises ValueError: if the numbers of rows differ, ``rew_norm`` is set, or both ``n_step`` and the unit sum
        rewards.
    """
    if rew_norm:
        raise ArgumentError(
            "rew_norm must be False: bootstrapped returns of normalized rewards are not defined; scale the rewards"
        )
    reward_sum, discount, last = nstep_sums(batch, buffer, indices, gamma, n_step)
    with torch.no_grad():
        target_q = target_q_fn(buffer, last).reshape(len(indices), -1)
        tensor = partial(torch.as_tensor, dtype=target_q.dtype, device=target_q.device)
        if target_q.is_cpu and target_q.dtype in _TENSOR_FLOATS and _is_column(reward_sum):
            batch.returns = torch.from_numpy(_core.bootstrapped(reward_sum, discount, target_q.detach().numpy()))
        else:
            batch.returns = bootstrapped_return(
                tensor(reward_sum.reshape(len(indices), -1)), tensor(discount[:, None]), target_q
            )
        if "weight" in batch:
            batch.weight = tensor(batch.weight)
    return cast(BatchWithReturnsProtocol, batch)


def check_indices(batch: RolloutBatchProtocol, indices: Index) -> None:
    """Check that there is one index for each row of a batch.

    :param batch: a sample.
    :param indices: indices of its rows in the buffer, ``[B]``.
    :raises ValueError: if their numbers differ.
    """
    if len(indices) != len(batch.rew):
        raise ValueError(f"got {len(batch.rew)} rows and {len(indices)} indices")


def nstep_sums(
    batch: RolloutBatchProtocol, buffer: ReplayBuffer, indices: Index, gamma: float, n_step: int
) -> tuple[NDArray[Any], NDArray[Any], Index]:
    """Return discounted sums of up to ``n_step`` rewards from each row on.

    :param batch: the rows, which contain the sums if they were drawn with ``unit=NStep``.
    :param buffer: the buffer that they were drawn from.
    :param indices: indices of the rows in the buffer, ``[B]``.
    :param gamma: discount.
    :param n_step: the largest number of steps to sum over.
    :return: the sums; the discount of the value after them, 0 after a terminal state; the last row of each sum. Each
        ``[B]``.
    :raises ValueError: if the numbers of rows differ, or both ``n_step`` and the unit sum rewards.
    """
    check_indices(batch, indices)
    if "last_index" not in batch or "discount" not in batch:
        return buffer.nstep(indices, n_step, gamma)
    if n_step == 1:  # drawn with unit=NStep, so a transition has several steps already
        return batch.rew, batch.discount, batch.last_index
    raise ValueError(f"the buffer's unit sums rewards already, n_step={n_step} would do so again; set it to 1")


def _floats(numbers: "NDArray[Any] | torch.Tensor") -> NDArray[np.floating]:
    array = numbers.numpy(force=True) if isinstance(numbers, torch.Tensor) else np.asarray(numbers)
    return array if array.dtype in _FLOATS else array.astype(np.float64)


def _is_column(sums: object) -> bool:
    """Return whether ``sums`` is a float64 array with one sum for each row, as the engine takes it."""
    return isinstance(sums, np.ndarray) and sums.ndim == 1 and sums.dtype == np.float64


_TENSOR_FLOATS = (torch.float32, torch.float64)
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
