"""Losses of learning from fixed data and by imitation: pure functions of tensors, each with its equation and source.

Letters in shapes: B batch, A actions, N samples. No function synchronizes with the device.
"""

import math
from typing import Literal

from rlfast.utils.runtime.extras import needed_by

with needed_by("rlfast.functional.offline"):
    import torch
    from torch.nn import functional


def regularized_actor_loss(
    q_B: torch.Tensor, act: torch.Tensor, act_data: torch.Tensor, alpha: float = 2.5
) -> torch.Tensor:
    r"""The actor's loss of TD3+BC: value, scaled to the order of 1, and the distance from the actions of the data.

    .. math:: -\lambda \frac1B \sum Q(s, \mu(s)) + \frac1{BD} \sum \|\mu(s) - a\|^2, \qquad
        \lambda = \frac{\alpha}{\frac1B \sum |Q(s, \mu(s))|}

    (Fujimoto and Gu, arXiv:2106.06860, equations 3 and 5; no gradient flows into :math:`\lambda`.)

    :param q_B: values of the actor's actions, ``[B]``.
    :param act: the actor's actions, ``[B, ...]``.
    :param act_data: actions of the data, same shape, without gradient.
    :param alpha: :math:`\alpha`. Default: 2.5.
    :return: scalar.

    >>> q, ours, data = torch.tensor([1.0, -3.0]), torch.tensor([[0.5], [0.0]]), torch.tensor([[0.0], [0.0]])
    >>> regularized_actor_loss(q, ours, data, alpha=2.0).item()  # 1 * 1 + 0.25 / 2
    1.125
    """
    scale = alpha / q_B.detach().abs().mean()
    return -scale * q_B.mean() + functional.mse_loss(act, act_data)


def squared_distance(act: torch.Tensor, act_data: torch.Tensor) -> torch.Tensor:
    r"""Squared distance of actions: the penalty of ReBRAC (Tarasov et al., arXiv:2305.09836, section 3.2).

    .. math:: \|a - \hat a\|^2

    :param act: actions, ``[B, ...]``.
    :param act_data: other actions, same shape.
    :return: ``[B]``.

    >>> squared_distance(torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 0.0]])).tolist()
    [5.0]
    """
    return (act - act_data).square().flatten(1).sum(dim=1)


def expectile_loss(error: torch.Tensor, expectile: float = 0.7) -> torch.Tensor:
    r"""Loss whose minimum is an expectile, as the squared error's is the mean.

    .. math:: \frac1B \sum_i \bigl|\tau - \mathbb 1[u_i < 0]\bigr|\, u_i^2

    (Kostrikov, Nair and Levine, arXiv:2110.06169, equation 5.)

    :param error: u, targets minus estimates, ``[B]``.
    :param expectile: :math:`\tau`, in (0, 1). Default: 0.7.
    :return: scalar.

    >>> expectile_loss(torch.tensor([2.0, -1.0]), expectile=0.75).item()  # (0.75 * 4 + 0.25) / 2
    1.625
    """
    return (torch.where(error < 0, 1 - expectile, expectile) * error.square()).mean()


def exponential_weight(advantage: torch.Tensor, temperature: float = 3.0, largest: float = 100.0) -> torch.Tensor:
    r"""Weight of an action of the data in regression weighted by advantages.

    .. math:: \min\bigl(e^{\beta A}, w\bigr)

    (Kostrikov, Nair and Levine, arXiv:2110.06169, equation 7; with :math:`1/\beta` for :math:`\beta`, Wang et al.,
    arXiv:2006.15134, section 3.)

    :param advantage: A, without gradient.
    :param temperature: :math:`\beta`, the inverse temperature. Default: 3.
    :param largest: w. Default: 100.
    :return: in the shape of ``advantage``.

    >>> exponential_weight(torch.tensor([0.0, 100.0]), temperature=1.0, largest=20.0).tolist()
    [1.0, 20.0]
    """
    return (temperature * advantage).clamp(max=math.log(largest)).exp()


def conservative_gap(q_BN: torch.Tensor, q_data_B: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    r"""How far the values of all actions exceed those of the actions of the data.

    .. math:: \frac1B \sum T \log \sum_a \exp\frac{Q(s, a)}{T} - Q(s, \hat a)

    (Kumar et al., arXiv:2006.04779, equation 4.) Over continuous actions, the sum has samples, and their values are
    given less the logarithms of their densities (appendix F).

    :param q_BN: values of N actions, ``[B, N]``.
    :param q_data_B: values of the actions of the data, ``[B]``.
    :param temperature: T. Default: 1.
    :return: scalar.

    >>> conservative_gap(torch.tensor([[2.0, 2.0]]), torch.tensor([2.0])).exp().item()
    2.0
    """
    return (temperature * (q_BN / temperature).logsumexp(dim=1) - q_data_B).mean()


def softened_minimum(q1: torch.Tensor, q2: torch.Tensor, weight: float = 0.75) -> torch.Tensor:
    r"""Value by two critics that counts the smaller one more.

    .. math:: \lambda \min_j Q_j + (1 - \lambda) \max_j Q_j

    (Fujimoto, Meger and Precup, arXiv:1812.02900, equation 13.)

    :param q1: values by the first critic.
    :param q2: values by the second one, same shape.
    :param weight: :math:`\lambda`. Default: 0.75.
    :return: in that shape.

    >>> softened_minimum(torch.tensor([0.0]), torch.tensor([4.0])).tolist()
    [1.0]
    """
    return weight * torch.minimum(q1, q2) + (1 - weight) * torch.maximum(q1, q2)


def autoencoder_loss(
    reconstruction: torch.Tensor, act: torch.Tensor, mean: torch.Tensor, std: torch.Tensor
) -> torch.Tensor:
    r"""Loss of the variational autoencoder of BCQ.

    .. math:: \frac1{BD} \sum \|a - \tilde a\|^2
        + \frac12 \frac1{BL} \sum \Bigl( -\log\sigma + \frac{\sigma^2 + \mu^2 - 1}2 \Bigr)

    (Fujimoto, Meger and Precup, arXiv:1812.02900, equation 28, with the weight 1/2 and means of its code.)

    :param reconstruction: :math:`\tilde a`, ``[B, D]``.
    :param act: actions of the data, ``[B, D]``.
    :param mean: :math:`\mu`, ``[B, L]``.
    :param std: :math:`\sigma`, ``[B, L]``.
    :return: scalar.

    >>> one = torch.ones(1, 1)
    >>> autoencoder_loss(one * 3, one, mean=one, std=one).item()  # 4 + (0 + 1 / 2) / 2
    4.25
    """
    divergence = (-std.log() + (std.square() + mean.square() - 1) / 2).mean()
    return functional.mse_loss(reconstruction, act) + divergence / 2


def likely_actions(logits_BA: torch.Tensor, threshold: float = 0.3) -> torch.Tensor:
    r"""Actions that are not much less likely than the likeliest one.

    .. math:: \frac{G(a \mid s)}{\max_{\hat a} G(\hat a \mid s)} \ge \tau

    (Fujimoto et al., arXiv:1910.01708, equation 17.)

    :param logits_BA: unnormalized log-probabilities of G, ``[B, A]``; minus infinity for illegal actions.
    :param threshold: :math:`\tau`, in [0, 1); 0 for all legal actions. Default: 0.3.
    :return: bool ``[B, A]``.

    >>> likely_actions(torch.log(torch.tensor([[0.6, 0.3, 0.1]]))).tolist()
    [[True, True, False]]
    """
    ratio = logits_BA - logits_BA.amax(dim=1, keepdim=True)
    return ratio >= (math.log(threshold) if threshold > 0 else -torch.finfo(logits_BA.dtype).max)


def regression_weight(
    advantage: torch.Tensor, mode: Literal["exp", "binary", "all"] = "exp", *, beta: float = 1.0, largest: float = 20.0
) -> torch.Tensor:
    r"""Weight of an action of the data in critic regularized regression.

    .. math:: \mathbb 1[A > 0], \qquad \min\bigl(e^{A / \beta}, w\bigr), \qquad 1

    (Wang et al., arXiv:2006.15134, equations 3 and 4; 1 is imitation.)

    :param advantage: A, without gradient.
    :param mode: ``"exp"`` (default), ``"binary"`` or ``"all"``.
    :param beta: :math:`\beta`. Default: 1.
    :param largest: w. Default: 20.
    :return: in the shape of ``advantage``.

    >>> regression_weight(torch.tensor([-1.0, 0.5]), "binary").tolist()
    [0.0, 1.0]
    """
    if mode == "exp":
        return exponential_weight(advantage, 1 / beta, largest)
    return (advantage > 0).to(advantage.dtype) if mode == "binary" else torch.ones_like(advantage)


def discriminator_loss(logits_policy: torch.Tensor, logits_expert: torch.Tensor) -> torch.Tensor:
    r"""Loss of a classifier that distinguishes an expert's actions from those of a policy.

    .. math:: -\frac1B \sum_\pi \log \bigl(1 - D(s, a)\bigr) - \frac1B \sum_E \log D(s, a), \qquad
        D = \mathrm{sigmoid}(x)

    (Ho and Ermon, arXiv:1606.03476, equation 17 with the roles of D and 1 - D exchanged.)

    :param logits_policy: x of the policy's actions, of any shape.
    :param logits_expert: x of the expert's actions.
    :return: scalar.

    >>> discriminator_loss(torch.zeros(3), torch.zeros(3)).exp().item()
    4.0
    """
    return functional.softplus(logits_policy).mean() + functional.softplus(-logits_expert).mean()
