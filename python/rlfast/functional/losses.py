"""Values, targets and losses: pure functions of tensors, each with its equation and source.

Letters in shapes: B batch, A actions. No function synchronizes with the device.
"""

from typing import Any

from rlfast.utils.runtime.extras import needed_by

with needed_by("rlfast.functional.losses"):
    import torch

_BLOCK = 2**17  # numbers that are worked on at once, half a megabyte


def max_value(q_BA: torch.Tensor) -> torch.Tensor:
    r"""Value of the next state in Q-learning.

    .. math:: \max_a Q^-(s', a)

    (Mnih et al. 2015, doi:10.1038/nature14236, algorithm 1.)

    :param q_BA: action values of the target network at the next state, ``[B, A]``; minus infinity for illegal actions.
    :return: ``[B]``.

    >>> max_value(torch.tensor([[1.0, 3.0], [2.0, 0.0]])).tolist()
    [3.0, 2.0]
    """
    return q_BA.amax(dim=1)


def double_q_value(online_q_BA: torch.Tensor, target_q_BA: torch.Tensor) -> torch.Tensor:
    r"""Value of the next state in double Q-learning: one network selects the action, the other evaluates it.

    .. math:: Q^-\bigl(s', \arg\max_a Q(s', a)\bigr)

    (van Hasselt, Guez and Silver, arXiv:1509.06461, equation 4 and the update after it.)

    :param online_q_BA: action values of the trained network at the next state, ``[B, A]``; minus infinity for illegal
        actions.
    :param target_q_BA: action values of the target network at the next state, ``[B, A]``.
    :return: ``[B]``.

    >>> double_q_value(torch.tensor([[1.0, 3.0]]), torch.tensor([[5.0, 4.0]])).tolist()
    [4.0]
    """
    return target_q_BA.gather(1, online_q_BA.argmax(dim=1, keepdim=True)).squeeze(1)


def bootstrapped_return(reward_sum: torch.Tensor, discount: torch.Tensor, next_value: torch.Tensor) -> torch.Tensor:
    r"""N-step return.

    .. math:: G_t = \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k V(s_{t+k})

    (Sutton and Barto, 2nd edition, equation 7.1, with the :math:`k \le n` steps that are left in the episode; the value
    of a terminal state is 0.)

    :param reward_sum: the sum, of any shape that broadcasts with ``next_value``.
    :param discount: :math:`\gamma^k`, or 0 if :math:`s_{t+k}` is terminal; then ``next_value`` is ignored, even if it
        is NaN.
    :param next_value: :math:`V(s_{t+k})`.
    :return: returns, of the broadcast shape.

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
    return returns_B - q_BA.gather(1, act_B.unsqueeze(1)).squeeze(1)


def squared_loss(error: torch.Tensor, weight: torch.Tensor | float | None = None) -> torch.Tensor:
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


def huber_loss(error: torch.Tensor, weight: torch.Tensor | float | None = None, delta: float = 1.0) -> torch.Tensor:
    r"""Mean Huber loss: quadratic up to ``delta`` and linear beyond, so that gradients are in ``[-delta, delta]``.

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


def policy_gradient_loss(log_prob: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    r"""Loss whose negative gradient is the policy gradient.

    .. math:: -\frac1B \sum_i \log \pi(a_i \mid s_i)\, w_i

    (Sutton and Barto, 2nd edition, equation 13.8, and 13.11 with a baseline; Mnih et al., arXiv:1602.01783, section 4.)

    :param log_prob: log-probabilities of the actions, ``[B]``; ``[B, D]`` for one for each action dimension.
    :param weight: w, returns or advantages, ``[B]``, without gradient.
    :return: scalar.

    >>> policy_gradient_loss(torch.log(torch.tensor([0.5, 0.25])), torch.tensor([2.0, 1.0])).exp().item()
    4.0
    """
    return -(by_row(log_prob) * weight).mean()


def by_row(log_prob: torch.Tensor) -> torch.Tensor:
    """Return log-probabilities with the rows last, ``[..., B]``, so that columns ``[B]`` broadcast.

    >>> by_row(torch.zeros(5, 2)).shape
    torch.Size([2, 5])
    """
    return log_prob.flatten(1).T if log_prob.dim() > 1 else log_prob


def surrogate_loss(log_prob: torch.Tensor, log_prob_old: torch.Tensor, advantage: torch.Tensor) -> torch.Tensor:
    r"""The policy loss of trust region policy optimization, by samples of the policy that acted.

    .. math:: -\frac1B \sum_i \frac{\pi(a_i \mid s_i)}{\pi_{\mathrm{old}}(a_i \mid s_i)}\, A_i

    (Schulman et al., arXiv:1502.05477, equation 14.)

    :param log_prob: log-probabilities of the actions under the policy that learns, ``[B]``; ``[B, D]`` for one ratio
        for each action dimension.
    :param log_prob_old: log-probabilities of the actions under the policy that acted, same shape, without gradient.
    :param advantage: advantages, ``[B]``, without gradient.
    :return: scalar.

    >>> surrogate_loss(torch.log(torch.tensor([0.5, 2.0])), torch.zeros(2), torch.tensor([1.0, 3.0])).item()
    -3.25
    """
    return -(by_row((log_prob - log_prob_old).exp()) * advantage).mean()


def policy_change(
    log_prob: torch.Tensor, log_prob_old: torch.Tensor, eps_clip: float
) -> tuple[torch.Tensor, torch.Tensor]:
    r"""How far a policy has moved from the one that acted.

    .. math:: \frac1B \sum (r - 1) - \log r, \qquad \frac1B \sum [\,|r - 1| > \epsilon\,], \qquad
        r = \frac{\pi(a \mid s)}{\pi_\mathrm{old}(a \mid s)}

    (an estimate of the Kullback-Leibler divergence that is never negative: Schulman 2020, *Approximating KL
    Divergence*, k3.)

    :param log_prob: :math:`\log \pi`, ``[B]``.
    :param log_prob_old: :math:`\log \pi_\mathrm{old}`, ``[B]``.
    :param eps_clip: :math:`\epsilon`.
    :return: the estimate, and the share of rows that are clipped; scalars.

    >>> change, share = policy_change(torch.tensor([0.5, 2.0]).log(), torch.zeros(2), 0.6)
    >>> change.item(), share.item()
    (0.25, 0.5)
    """
    log_ratio = log_prob - log_prob_old
    excess = log_ratio.expm1()  # the ratio minus 1
    return (excess - log_ratio).mean(), (excess.abs() > eps_clip).to(excess.dtype).mean()


def explained_variance(values: torch.Tensor, returns: torch.Tensor) -> torch.Tensor:
    r"""The share of the variance of returns that values explain.

    .. math:: 1 - \frac{\mathrm{Var}[G - V]}{\mathrm{Var}[G]}

    :param values: V, ``[B]``.
    :param returns: G, ``[B]``.
    :return: a scalar: 1 for values without errors, 0 for values that say as little as a constant; NaN if returns are
        all equal.

    >>> explained_variance(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 4.0, 6.0])).item()
    0.75
    """
    total = returns.var(correction=0)
    return torch.where(total > 0, 1 - (returns - values).var(correction=0) / total, torch.nan)


def clipped_surrogate_loss(
    log_prob: torch.Tensor,
    log_prob_old: torch.Tensor,
    advantage: torch.Tensor,
    eps_clip: float = 0.2,
    dual_clip: float | None = None,
) -> torch.Tensor:
    r"""The policy loss of proximal policy optimization.

    .. math::
        L = -\frac1B \sum_i L_i, \qquad
        L_i = \min\bigl(r_i A_i,\; \mathrm{clip}(r_i, 1-\epsilon, 1+\epsilon)\, A_i\bigr), \qquad
        r_i = \frac{\pi(a_i \mid s_i)}{\pi_{\mathrm{old}}(a_i \mid s_i)}

    (Schulman et al., arXiv:1707.06347, equation 7.) With a dual clip c, :math:`L_i` is replaced by
    :math:`\max(L_i, c A_i)` where the advantage is negative (Ye et al., arXiv:1912.09729, equation 5).

    :param log_prob: log-probabilities of the actions under the policy that learns, ``[B]``; ``[B, D]`` for one ratio
        for each action dimension.
    :param log_prob_old: log-probabilities of the actions under the policy that acted, same shape, without gradient.
    :param advantage: advantages, ``[B]``, without gradient.
    :param eps_clip: :math:`\epsilon`. Default: 0.2.
    :param dual_clip: c, above 1; None for no second clip. Default: None.
    :return: scalar.

    >>> half = torch.log(torch.tensor([0.5, 2.0]))
    >>> clipped_surrogate_loss(half, torch.zeros(2), torch.tensor([1.0, 1.0])).item()  # -(0.5 + 1.2) / 2
    -0.850...
    """
    ratio = by_row((log_prob - log_prob_old).exp())
    # Only one bound of the clip can be the minimum, by the sign of the advantage. It is constant: no gradient is lost.
    objective = torch.minimum(ratio * advantage, torch.add(advantage, advantage.abs(), alpha=eps_clip))
    if dual_clip is not None:
        objective = torch.where(advantage < 0, torch.maximum(objective, dual_clip * advantage), objective)
    return -objective.mean()


def value_loss(
    value: torch.Tensor, returns: torch.Tensor, value_old: torch.Tensor | None = None, eps_clip: float = 0.2
) -> torch.Tensor:
    r"""Mean squared error of the state values, clipped if the values at the time of acting are given.

    .. math::
        \frac1B \sum_i \max\Bigl( (V_i - G_i)^2,\; \bigl(V^{\mathrm{old}}_i
        + \mathrm{clip}(V_i - V^{\mathrm{old}}_i, -\epsilon, \epsilon) - G_i\bigr)^2 \Bigr)

    (The clipping of OpenAI's PPO; Engstrom et al., arXiv:2005.12729, section 3.)

    :param value: values of the critic that learns, ``[B]``.
    :param returns: targets, ``[B]``, without gradient.
    :param value_old: values of the critic when the actions were chosen, ``[B]``, without gradient; None for no
        clipping. Default: None.
    :param eps_clip: :math:`\epsilon`. Default: 0.2.
    :return: scalar.

    >>> value_loss(torch.tensor([3.0]), torch.tensor([3.0]), torch.tensor([1.0]), eps_clip=0.5).item()
    2.25
    """
    if value_old is None:
        return torch.nn.functional.mse_loss(value, returns)
    clipped = value_old + (value - value_old).clamp(-eps_clip, eps_clip)
    return torch.maximum((returns - value).square(), (returns - clipped).square()).mean()


def soft_value(q1: torch.Tensor, q2: torch.Tensor, log_prob: torch.Tensor, alpha: torch.Tensor | float) -> torch.Tensor:
    r"""Soft state value of maximum-entropy learning, from two critics and one sampled action.

    .. math:: V(s) = \min\bigl(Q_1(s, a), Q_2(s, a)\bigr) - \alpha \log \pi(a \mid s), \qquad a \sim \pi(\cdot \mid s)

    (Haarnoja et al., arXiv:1812.05905, equation 3, with the two critics of its section 6.) With the target critics at
    the next state, it is the value in the critics' target. The mean of its negative is the actor's loss (equation 7).

    :param q1: values of the action by the first critic, ``[B]``.
    :param q2: values of the action by the second critic, ``[B]``.
    :param log_prob: log-probabilities of the action, ``[B]``.
    :param alpha: the temperature.
    :return: ``[B]``.

    >>> soft_value(torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([-3.0]), 0.5).tolist()
    [2.5]
    """
    return torch.minimum(q1, q2) - alpha * log_prob


def temperature_loss(log_alpha: torch.Tensor, log_prob: torch.Tensor, target_entropy: float) -> torch.Tensor:
    r"""Loss of the temperature; its minimization raises the temperature while the entropy is below its target.

    .. math:: L(\alpha) = -\frac1B \sum_i \log\alpha\, \bigl(\log \pi(a_i \mid s_i) + \bar{\mathcal H}\bigr)

    (Haarnoja et al., arXiv:1812.05905, equation 18, with :math:`\log\alpha` in place of :math:`\alpha` as in the code
    of its authors: the gradient has the same sign, and does not depend on the scale of :math:`\alpha`.)

    :param log_alpha: a tensor of one element.
    :param log_prob: log-probabilities of sampled actions, ``[B]``; no gradient flows into them.
    :param target_entropy: :math:`\bar{\mathcal H}`, usually minus the number of action dimensions.
    :return: scalar.

    >>> temperature_loss(torch.tensor([2.0]), torch.tensor([1.0, 3.0]), target_entropy=-1.0).item()
    -2.0
    """
    return -(log_alpha * (log_prob.detach() + target_entropy)).mean()


def smoothed_action(
    act: torch.Tensor, noise: torch.Tensor, deviation: float = 0.2, noise_clip: float = 0.5
) -> torch.Tensor:
    r"""Action near that of the target actor: a target value of its neighbourhood does not follow a peak of the critic.

    .. math:: \tilde a = \mu^-(s') + \mathrm{clip}(\sigma \epsilon, -c, c), \qquad \epsilon \sim \mathcal N(0, 1)

    (Fujimoto, van Hoof and Meger, arXiv:1802.09477, section 5.3 and algorithm 1.)

    :param act: of the target actor at the next state, ``[B, *shape]``.
    :param noise: :math:`\epsilon`, standard normal, in that shape.
    :param deviation: :math:`\sigma`. Default: 0.2.
    :param noise_clip: :math:`c`; 0 for no limit. Default: 0.5.
    :return: in that shape; it may leave the range of actions.

    >>> smoothed_action(torch.tensor([0.5, 0.5]), torch.tensor([-1.0, 4.0]), deviation=0.25).tolist()
    [0.25, 1.0]
    """
    step = noise * deviation
    return act + (step.clamp(-noise_clip, noise_clip) if noise_clip > 0 else step)


def projected_distribution(value_BN: torch.Tensor, prob_BN: torch.Tensor, support_N: torch.Tensor) -> torch.Tensor:
    r"""Distribution over the values of a support that a distribution over other values comes nearest to.

    .. math::
        p_i = \sum_j \left[1 - \frac{\bigl|[x_j]_{z_1}^{z_N} - z_i\bigr|}{\Delta z}\right]_0^1 q_j

    (Bellemare, Dabney and Munos, arXiv:1707.06887, equation 7.) Each probability goes to the two nearest values of the
    support, shared out by distance.

    :param value_BN: the values x, ``[B, N]``; values outside the support count as its ends.
    :param prob_BN: their probabilities q, ``[B, N]``.
    :param support_N: the values z, evenly spaced and rising, ``[N]``.
    :return: ``[B, N]``.

    >>> support = torch.tensor([0.0, 1.0, 2.0])
    >>> projected_distribution(torch.tensor([[0.25, 1.0, 9.0]]), torch.tensor([[0.5, 0.25, 0.25]]), support).tolist()
    [[0.375, 0.375, 0.25]]
    """
    last = len(support_N) - 1
    step = (support_N[-1] - support_N[0]) / last
    place_BN = (value_BN.clamp(min=support_N[0], max=support_N[-1]) - support_N[0]) / step
    below_BN = place_BN.floor().clamp(max=last - 1).nan_to_num()  # NaN has no place, and stays NaN in what it is worth
    above_BN = prob_BN * (place_BN - below_BN)
    index_BN = below_BN.long()
    shared_BN = prob_BN.new_zeros(len(prob_BN), last + 1).scatter_add(1, index_BN, prob_BN - above_BN)
    return shared_BN.scatter_add(1, index_BN + 1, above_BN)


def cross_entropy(target_BN: torch.Tensor, prob_BN: torch.Tensor) -> torch.Tensor:
    r"""Cross-entropy of distributions.

    .. math:: -\sum_i p_i \log(q_i + 10^{-8})

    (Bellemare, Dabney and Munos, arXiv:1707.06887, algorithm 1; the small number replaces what rounds to 0.)

    :param target_BN: p, ``[B, N]``, without gradient.
    :param prob_BN: q, ``[B, N]``.
    :return: ``[B]``.

    >>> cross_entropy(torch.tensor([[0.0, 1.0]]), torch.tensor([[0.5, 0.5]])).item()
    0.69...
    """
    return -(target_BN * (prob_BN + 1e-8).log()).sum(dim=1)


def softmax_cross_entropy(target: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    r"""Cross-entropy of distributions, one of which is given by its logits.

    .. math:: -\sum_i p_i \Bigl(x_i - \log \sum_j e^{x_j}\Bigr)

    (Farebrother et al., arXiv:2403.03950, equation 3.) Unlike :func:`cross_entropy`, its gradient does not vanish where
    the probability of a likely value rounds to 0.

    :param target: p, ``[..., N]``, without gradient.
    :param logits: x, ``[..., N]``; leading axes broadcast.
    :return: ``[...]``.

    >>> softmax_cross_entropy(torch.tensor([0.5, 0.5]), torch.tensor([0.0, 200.0])).item()
    100.0
    """
    return -(target * torch.log_softmax(logits, dim=-1)).sum(dim=-1)


def quantile_huber(
    quantile_BN: torch.Tensor, target_BM: torch.Tensor, level_N: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    r"""Quantile regression with Huber's function.

    .. math::
        \sum_{i=1}^N \frac1M \sum_{j=1}^M \bigl|\tau_i - \mathbb 1[u_{ij} < 0]\bigr|\, h(u_{ij}), \qquad
        u_{ij} = y_j - \theta_i

    (Dabney et al., arXiv:1710.10044, equations 9 and 10 and algorithm 1, with a kappa of 1.)

    :param quantile_BN: :math:`\theta`, ``[B, N]``.
    :param target_BM: samples y, ``[B, M]``, without gradient.
    :param level_N: :math:`\tau`, ``[N]``, or ``[B, N]`` where each row has its own.
    :return: the losses, ``[B]``; and the same sums of h alone, whose scale does not depend on the levels, ``[B]``,
        without gradient.

    >>> theta, y = torch.tensor([[0.0, 1.0]]), torch.tensor([[0.5, 3.0]])
    >>> loss, error = quantile_huber(theta, y, torch.tensor([0.25, 0.75]))  # h: 0.125, 2.5; 0.125, 1.5
    >>> loss.item(), error.item()
    (0.90625, 2.125)
    """
    level_BN = level_N.detach().expand_as(quantile_BN)
    if torch.compiler.is_compiling():  # a graph fuses the loops
        above_BN, below_BN = _huber_sums(quantile_BN, target_BM)
    else:
        above_BN, below_BN = _HuberSums.apply(quantile_BN, target_BM.detach())
    number = target_BM.shape[1]
    loss_B = (level_BN * above_BN + (1 - level_BN) * below_BN).sum(dim=1) / number
    return loss_B, (above_BN + below_BN).detach().sum(dim=1) / number


def _huber_sums(quantile_BN: torch.Tensor, target_BM: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sums over targets of Huber's function of the errors above 0 and of those below, each ``[B, N]``."""
    error_BNM = target_BM[:, None, :] - quantile_BN[:, :, None]
    above_BNM, below_BNM = error_BNM.clamp(0, 1), error_BNM.clamp(-1, 0)
    above_BN = (above_BNM * (error_BNM - 0.5 * above_BNM)).sum(dim=2)
    return above_BN, (below_BNM * (error_BNM - 0.5 * below_BNM)).sum(dim=2)


class _HuberSums(torch.autograd.Function):
    """:func:`_huber_sums` and its derivative, in blocks of rows that fit into the processor's cache.

    All pairs of a row at once would be written to memory and read again a dozen times, forwards and backwards.
    """

    @staticmethod
    def forward(ctx: Any, quantile_BN: torch.Tensor, target_BM: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = max(_BLOCK // (quantile_BN.shape[1] * target_BM.shape[1]), 1)
        parts = []
        for start in range(0, len(quantile_BN), rows):
            error = target_BM[start : start + rows, None, :] - quantile_BN[start : start + rows, :, None]
            sums_and_slopes = []
            for low, high in ((0, 1), (-1, 0)):
                clipped = error.clamp(low, high)
                slope = clipped.sum(dim=2)
                sums_and_slopes += [torch.sub(error, clipped, alpha=0.5).mul_(clipped).sum(dim=2), slope]
            parts.append(sums_and_slopes)
        columns = parts[0] if len(parts) == 1 else [torch.cat(column) for column in zip(*parts, strict=True)]
        above_BN, slope_above_BN, below_BN, slope_below_BN = columns
        ctx.save_for_backward(slope_above_BN, slope_below_BN)
        return above_BN, below_BN

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        (above_BN, below_BN), (slope_above_BN, slope_below_BN) = gradients, ctx.saved_tensors
        return -(above_BN * slope_above_BN + below_BN * slope_below_BN), None


def fraction_gradient(inner_BM: torch.Tensor, middle_BN: torch.Tensor) -> torch.Tensor:
    r"""Gradient of the distance between a quantile function and its steps, by the levels at which it steps.

    .. math:: \frac{\partial W_1}{\partial \tau_i} = 2 F^{-1}(\tau_i) - F^{-1}(\hat\tau_i) - F^{-1}(\hat\tau_{i-1})

    (Yang et al., arXiv:1911.02140, proposition 1.) Where quantiles do not rise with their levels, each of the two
    differences has the sign that it would have if they did, as in the code that others have for it: there it is
    compared with the quantile before, and after.

    :param inner_BM: quantiles at the levels between 0 and 1, ``[B, N - 1]``.
    :param middle_BN: quantiles at the middles of the N intervals, ``[B, N]``.
    :return: ``[B, N - 1]``.

    >>> fraction_gradient(torch.tensor([[2.0]]), torch.tensor([[1.0, 5.0]])).item()
    -2.0
    """
    left, right = inner_BM - middle_BN[:, :-1], inner_BM - middle_BN[:, 1:]
    before = torch.cat([middle_BN[:, :1], inner_BM[:, :-1]], dim=1)
    after = torch.cat([inner_BM[:, 1:], middle_BN[:, -1:]], dim=1)
    return torch.where(inner_BM > before, left, -left) + torch.where(inner_BM < after, right, -right)
