"""Masks of legal actions, which observations may carry as ``obs.mask``."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.distributions import Distribution

from rlfast.data import Batch, to_numpy
from rlfast.data.masks import mask_of
from rlfast.env.spaces.random_actions import sizes_of
from rlfast.functional.distributions import Categorical, MultiCategorical
from rlfast.policy.components.memory.sequences import Sequences
from rlfast.utils.arguments.checks import ArgumentError
from rlfast.utils.warning import warn_user


def action_mask(obs: object) -> Any:
    """Return the mask of legal actions.

    :param obs: observations; a ``Batch`` may have ``mask``, ``[B, actions]`` with True for legal actions.
    :return: bool ``[B, actions]``, an array or a tensor like ``obs.mask``; None without a mask. Of sequences, the
        masks of the steps that are learned from.
    """
    if isinstance(obs, np.ndarray):
        return None
    return mask_of(obs.flat() if isinstance(obs, Sequences) else obs)


def check_legal(batch: Any, space: Any) -> None:
    """Check that no action of a batch is one that its own ``obs.mask`` calls illegal, whose log-probability would be
    minus infinity.

    :param batch: a batch with ``obs`` and ``act``, actions that are counted from 0. A mask without any legal action, or
        one of another size than that of the choices, allows all.
    :param space: action space of one environment.
    :raises ArgumentError: an action is illegal.
    """
    mask, sizes = action_mask(batch.obs), sizes_of(space)
    if mask is None or not sizes:
        return
    mask, act = to_numpy(mask), to_numpy(batch.act).astype(np.int64).reshape(-1, len(sizes))
    if mask.size != len(act) * sum(sizes):
        return
    mask = mask.reshape(len(act), -1)
    for part, own in zip(np.split(mask, np.cumsum(sizes)[:-1], axis=1), act.T, strict=True):
        known = (own >= 0) & (own < part.shape[1])
        legal = known & (part[np.arange(len(own)), np.where(known, own, 0)] | ~part.any(axis=1))
        if not legal.all():
            k = int(legal.argmin())
            raise ArgumentError(
                f"row {k} of the sample has the action {act[k].tolist()}, counted from 0, which its obs.mask "
                f"{mask[k].astype(int).tolist()} calls illegal: its log-probability is minus infinity. Record legal "
                "actions, or remove the mask or these rows from the data"
            )


def inner_obs(obs: object) -> Any:
    """Return observations without their mask, if they have one."""
    return obs.obs if isinstance(obs, Batch) and "obs" in obs else obs


def legal_values(q_BA: torch.Tensor, mask: NDArray[Any] | torch.Tensor | None) -> torch.Tensor:
    """Return action values with minus infinity for illegal actions.

    :param q_BA: action values.
    :param mask: ``[B, A]``, True for legal actions; None if all are.
    """
    if mask is None:
        return q_BA
    illegal = torch.logical_not(mask) if isinstance(mask, torch.Tensor) else torch.as_tensor(np.logical_not(mask))
    return q_BA.masked_fill(illegal.to(q_BA.device), -torch.inf)


def legal_distribution(dist: Distribution, mask: NDArray[Any] | torch.Tensor | None) -> Distribution:
    r"""Return a distribution over the legal actions.

    .. math:: \pi'(a) = \frac{m_a\, \pi(a)}{\sum_b m_b\, \pi(b)}

    :param dist: a ``Categorical`` of torch or of rlfast, or a :class:`rlfast.functional.MultiCategorical`. Another
        distribution is returned as it is, with a warning.
    :param mask: m, ``[B, A]``, True for legal actions, where A is the sum of the choices of a ``MultiCategorical``. A
        row without any, such as that of a terminal state, counts as one with all actions. None, or an array of another
        size, which is no mask of actions, changes nothing.
    :return: a distribution of the same kind.

    >>> dist = legal_distribution(Categorical(torch.zeros(1, 3)), torch.tensor([[True, False, True]]))
    >>> dist.probs.tolist(), dist.entropy().exp().tolist()
    ([[0.5, 0.0, 0.5]], [2.0...])
    """
    if mask is None:
        return dist
    if isinstance(dist, MultiCategorical):
        sizes = [choice.logits.shape[-1] for choice in dist.choices]
        logits = torch.cat([choice.logits for choice in dist.choices], -1)
        return MultiCategorical(legal_logits(logits, mask, sizes), sizes)
    if isinstance(dist, Categorical):
        return Categorical(legal_logits(dist.logits, mask))
    if isinstance(dist, torch.distributions.Categorical):
        return torch.distributions.Categorical(logits=legal_logits(dist.logits, mask), validate_args=False)
    warn_user(
        f"obs.mask is not applied to a {type(dist).__name__}, only to a Categorical or MultiCategorical, so illegal "
        "actions may be taken"
    )
    return dist


def legal_logits(
    logits: torch.Tensor, mask: NDArray[Any] | torch.Tensor | None, sizes: Sequence[int] | None = None
) -> torch.Tensor:
    """Return logits with minus infinity for illegal actions; see :func:`legal_distribution`.

    :param logits: ``[B, A]``.
    :param mask: ``[B, A]`` or of another shape with as many elements, True for legal actions; None if all are.
    :param sizes: the numbers of actions of several choices, whose sum is A; None for one choice.
    """
    if mask is None:
        return logits
    legal = torch.as_tensor(mask, dtype=torch.bool)
    if legal.numel() != logits.numel():
        return logits
    choices = legal.reshape(logits.shape).split_with_sizes([logits.shape[-1]] if sizes is None else [*sizes], -1)
    return legal_values(logits, torch.cat([choice | ~choice.any(-1, keepdim=True) for choice in choices], -1))
