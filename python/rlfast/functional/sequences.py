"""Functions of sequences of steps: n-step returns within them, priorities, and the rescaling of values.

Letters in shapes: B batch, T steps.
"""

import numpy as np
from numpy.typing import NDArray

from rlfast.utils.runtime.extras import needed_by

with needed_by("rlfast.functional.sequences"):
    import torch


def rescaled(value: torch.Tensor, eps: float = 1e-3) -> torch.Tensor:
    r"""Rescale values, so that returns of any size are learned without clipping of rewards.

    .. math:: h(x) = \operatorname{sign}(x)\left(\sqrt{|x| + 1} - 1\right) + \epsilon x

    (Pohlen et al., arXiv:1805.11593, proposition A.2; Kapturowski et al. 2019, *Recurrent Experience Replay in
    Distributed Reinforcement Learning*, section 2.3.)

    :param value: :math:`x`, of any shape.
    :param eps: :math:`\epsilon`, at least 0. Default: 0.001.
    :return: the same shape.

    >>> rescaled(torch.tensor([8.0, -3.0, 0.0]), eps=0.5).tolist()
    [6.0, -2.5, 0.0]
    """
    return value.sign() * ((value.abs() + 1).sqrt() - 1) + eps * value


def unrescaled(value: torch.Tensor, eps: float = 1e-3) -> torch.Tensor:
    r"""Invert :func:`rescaled`.

    .. math::
        h^{-1}(x) = \operatorname{sign}(x)\left(
            \left(\frac{\sqrt{1 + 4\epsilon\,(|x| + 1 + \epsilon)} - 1}{2\epsilon}\right)^2 - 1\right)

    (Pohlen et al., arXiv:1805.11593, proposition A.2.) It is computed in double precision, since the difference within
    the fraction has few digits in single precision where :math:`\epsilon` is small.

    :param value: :math:`x`, of any shape.
    :param eps: :math:`\epsilon`, at least 0; the limit at 0 is :math:`\operatorname{sign}(x)((|x| + 1)^2 - 1)`.
        Default: 0.001.
    :return: the same shape and dtype.

    >>> unrescaled(torch.tensor([6.0, -2.5, 0.0]), eps=0.5).tolist()
    [8.0, -3.0, 0.0]
    """
    size = value.double().abs()
    root = size + 1 if eps == 0 else ((1 + 4 * eps * (size + 1 + eps)).sqrt() - 1) / (2 * eps)
    return (value.sign() * (root.square() - 1)).to(value.dtype)


def sequence_priority(error_BT: torch.Tensor, mask_BT: torch.Tensor, eta: float = 0.9) -> torch.Tensor:
    r"""Priority of sequences.

    .. math:: p = \eta \max_t |\delta_t| + (1 - \eta)\, \frac1{T'} \sum_t |\delta_t|

    over the :math:`T'` steps that the mask counts (Kapturowski et al. 2019, *Recurrent Experience Replay in Distributed
    Reinforcement Learning*, section 2.3).

    :param error_BT: temporal-difference errors, ``[B, T]``; those outside the mask may be any number.
    :param mask_BT: bool ``[B, T]``, True for at least one step of each sequence.
    :param eta: :math:`\eta`, in [0, 1]. Default: 0.9.
    :return: ``[B]``.

    >>> mask = torch.tensor([[True, True, False]])
    >>> sequence_priority(torch.tensor([[-3.0, 1.0, torch.nan]]), mask, eta=0.5).tolist()
    [2.5]
    """
    size_BT = error_BT.abs().masked_fill(~mask_BT, 0)
    return eta * size_BT.amax(dim=1) + (1 - eta) * size_BT.sum(dim=1) / mask_BT.sum(dim=1)


def nstep_sums_within(
    rew_BT: NDArray[np.floating],
    terminated_BT: NDArray[np.bool_],
    mask_BT: NDArray[np.bool_],
    n_step: int = 1,
    gamma: float = 0.99,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    r"""Discounted sums of up to n rewards within sequences.

    .. math:: \sum_{i=0}^{k-1} \gamma^i r_{t+i}, \qquad k = \min(n, T' - t)

    for a sequence whose first :math:`T'` steps exist (Sutton and Barto, 2nd edition, equation 7.1). The n-step return
    of a step adds its discount times the value of the observation after the last step of its sum.

    :param rew_BT: rewards, ``[B, T]``.
    :param terminated_BT: whether a step reached a terminal state, ``[B, T]``.
    :param mask_BT: bool ``[B, T]``, True for the steps that exist, which are the first ones.
    :param n_step: n, the largest number of rewards, at least 1. Default: 1.
    :param gamma: :math:`\gamma`. Default: 0.99.
    :return: the sums; the discounts :math:`\gamma^k`, 0 after a terminal state; and the number of the last step of each
        sum. Each ``[B, T]``, of which the entries outside the mask mean nothing.

    >>> exists, ends = np.array([[True, True, True, False]]), np.array([[False, False, True, True]])
    >>> sums, discount, last = nstep_sums_within(np.array([[1.0, 2.0, 4.0, 9.0]]), ends, exists, n_step=2, gamma=0.5)
    >>> sums[exists].tolist(), discount[exists].tolist(), last[exists].tolist()
    ([2.0, 4.0, 4.0], [0.25, 0.0, 0.0], [1, 2, 2])
    """
    steps = mask_BT.shape[1]
    number = np.arange(steps)
    last = np.clip(np.minimum(number + n_step, mask_BT.sum(axis=1, keepdims=True)) - 1, 0, None)
    later = np.pad(np.where(mask_BT, rew_BT, 0.0), ((0, 0), (0, n_step - 1)))
    sums = np.zeros(mask_BT.shape)
    for i in range(min(n_step, steps)):
        sums += gamma**i * later[:, i : i + steps]
    ended = np.take_along_axis(np.asarray(terminated_BT), last, axis=1)
    return sums, np.where(ended, 0.0, gamma ** (last - number + 1.0)), last
