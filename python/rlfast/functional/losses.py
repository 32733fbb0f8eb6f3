"""The arithmetic of value-based learning: pure functions of tensors, each with its equation and source.

Letters in shapes: B batch, A actions. Nothing here waits for the device.
"""

import torch


def max_value(q_BA: torch.Tensor) -> torch.Tensor:
    r"""Value of the next state in Q-learning.

    .. math:: \max_a Q^-(s', a)

    (Mnih et al. 2015, doi:10.1038/nature14236, algorithm 1.)

    :param q_BA: action values of the target network at the next state, ``[B, A]``; illegal actions at minus infinity.
    :return: ``[B]``.

    >>> max_value(torch.tensor([[1.0, 3.0], [2.0, 0.0]])).tolist()
    [3.0, 2.0]
    """
    return q_BA.amax(dim=1)


def double_q_value(online_q_BA: torch.Tensor, target_q_BA: torch.Tensor) -> torch.Tensor:
    r"""Value of the next state in double Q-learning: one network chooses the action, the other one rates it.

    .. math:: Q^-\bigl(s', \arg\max_a Q(s', a)\bigr)

    (van Hasselt, Guez and Silver, arXiv:1509.06461, equation 4 and the update after it.)

    :param online_q_BA: action values of the trained network at the next state, ``[B, A]``; illegal actions at minus
        infinity.
    :param target_q_BA: action values of the target network there, ``[B, A]``.
    :return: ``[B]``.

    >>> double_q_value(torch.tensor([[1.0, 3.0]]), torch.tensor([[5.0, 4.0]])).tolist()
    [4.0]
    """
    return target_q_BA.gather(1, online_q_BA.argmax(dim=1, keepdim=True)).squeeze(1)


def bootstrapped_return(reward_sum: torch.Tensor, discount: torch.Tensor, next_value: torch.Tensor) -> torch.Tensor:
    r"""N-step return.

    .. math:: G_t = \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k V(s_{t+k})

    (Sutton and Barto, 2nd edition, equation 7.1; :math:`k \le n` steps are left in the episode, and a terminal state
    has no value.)

    :param reward_sum: the sum, in any shape that broadcasts with ``next_value``.
    :param discount: :math:`\gamma^k`, or 0 if :math:`s_{t+k}` is terminal; the value does not matter then, not even
        NaN.
    :param next_value: :math:`V(s_{t+k})`.

    >>> bootstrapped_return(torch.tensor([1.0, 1.0]), torch.tensor([0.5, 0.0]), torch.tensor([4.0, torch.nan])).tolist()
    [3.0, 1.0]
    """
    return reward_sum + discount * next_value.masked_fill(discount == 0, 0)


def td_error(q_BA: torch.Tensor, act_B: torch.Tensor, returns_B: torch.Tensor) -> torch.Tensor:
    r"""Temporal-difference error of the actions taken.

    .. math:: \delta = G - Q(s, a)

    (Sutton and Barto, 2nd edition, equation 6.5, with a return of any length.)

    :param q_BA: action values, ``[B, A]``.
    :param act_B: actions, ``[B]``, int64.
    :param returns_B: targets, ``[B]``, without gradient.
    :return: ``[B]``.

    >>> td_error(torch.tensor([[1.0, 2.0]]), torch.tensor([1]), torch.tensor([5.0])).tolist()
    [3.0]
    """
    return returns_B - q_BA.gather(1, act_B[:, None]).squeeze(1)


def squared_loss(error: torch.Tensor, weight: torch.Tensor | None = None) -> torch.Tensor:
    r"""Mean squared error.

    .. math:: \frac1B \sum_i w_i\, \delta_i^2

    :param error: ``[B]``.
    :param weight: importance weights of prioritized replay (Schaul et al., arXiv:1511.05952, section 3.4), ``[B]``;
        None for 1.
    :return: scalar.

    >>> squared_loss(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.5])).item()
    1.5
    """
    loss = error.square()
    return (loss if weight is None else weight * loss).mean()


def huber_loss(error: torch.Tensor, weight: torch.Tensor | None = None, delta: float = 1.0) -> torch.Tensor:
    r"""Mean Huber error: squared near zero, linear beyond ``delta``, so that its gradient is clipped to ``[-delta,
    delta]``.

    .. math::
        \frac1B \sum_i w_i
        \begin{cases}\frac12 \delta_i^2 & |\delta_i| \le d\\ d\,(|\delta_i| - \frac12 d) & \text{otherwise}\end{cases}

    (Huber 1964, doi:10.1214/aoms/1177703732; the error clipping of Mnih et al. 2015, doi:10.1038/nature14236.)

    :param error: ``[B]``.
    :param weight: importance weights of prioritized replay (Schaul et al., arXiv:1511.05952, section 3.4), ``[B]``;
        None for 1.
    :param delta: :math:`d`, above 0. Default: 1.
    :return: scalar.

    >>> huber_loss(torch.tensor([1.0, 3.0]), torch.tensor([1.0, 0.5])).item()
    0.875
    """
    loss = torch.nn.functional.huber_loss(error, torch.zeros_like(error), reduction="none", delta=delta)
    return (loss if weight is None else weight * loss).mean()
