"""Action distributions that are quicker than those of torch.

Each is a ``torch.distributions.Distribution``. None checks its arguments, because that takes longer than the arithmetic
and synchronizes with the device. ``dist[index]`` is the distribution of the rows at an index.

The methods are those of ``torch.distributions.Distribution``. ``sample`` and ``rsample`` also take a CPU ``generator``.

Letters in shapes: B batch, D action dimensions, A actions.
"""

import math
from collections.abc import Sequence
from typing import Any

from rlfast.utils.runtime.extras import needed_by

with needed_by("rlfast.functional.distributions"):
    import torch
    from torch.distributions import Distribution
    from torch.distributions.kl import register_kl
    from torch.nn.functional import softplus


_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)
_LARGEST = 1 - 2.0**-24  # the largest float32 below 1
_MOST_AXES = 64  # as in NumPy; torch takes hours over a hundred thousand of length 1
Size = torch.Size | Sequence[int]


def _joined(sample_shape: Size, shape: torch.Size) -> tuple[int, ...]:
    if len(sample_shape) + len(shape) > _MOST_AXES:
        raise ValueError(
            f"samples have at most {_MOST_AXES} axes, got {len(sample_shape)} before the {len(shape)} of a row"
        )
    return (*sample_shape, *shape)


def _picked(rows: torch.Tensor, index: Any) -> torch.Tensor:
    # Torch reads a range to its end before it looks for the first row.
    if isinstance(index, range) and any(not -len(rows) <= row < len(rows) for row in (*index[:1], *index[-1:])):
        raise IndexError(f"{index} is out of range: there are {len(rows)} rows")
    level = [index] if isinstance(index, list | tuple) else []
    for _ in range(_MOST_AXES + 1):
        if not level:
            return rows[index]
        level = [*{id(entry): entry for one in level for entry in one if isinstance(entry, list | tuple)}.values()]
    raise IndexError(f"an index of lists may be at most {_MOST_AXES} levels deep")  # torch dies of deeper ones


def tanh_log_det(pre: torch.Tensor) -> torch.Tensor:
    r"""Logarithm of the derivative of tanh, finite for every finite input.

    .. math:: \log\bigl(1 - \tanh^2 u\bigr) = 2 \bigl(\log 2 - u - \mathrm{softplus}(-2u)\bigr)

    (The correction of Haarnoja et al., arXiv:1812.05905, equation 26. If it were computed from the action, it would be
    infinite where ``tanh(u)`` rounds to 1.)

    :param pre: u, of any shape.
    :return: a tensor of the same shape.

    >>> tanh_log_det(torch.tensor([0.0, 50.0])).tolist()
    [0.0, -98.61...]
    """
    return 2.0 * (math.log(2.0) - pre - softplus(-2.0 * pre))


class DiagonalNormal(Distribution):
    """A normal distribution with independent dimensions; a quicker ``Independent(Normal(loc, scale), 1)``.

    :param loc: means, ``[B, D]``.
    :param scale: standard deviations, above 0, ``[B, D]``.

    >>> DiagonalNormal(torch.zeros(1, 2), torch.ones(1, 2)).log_prob(torch.zeros(1, 2)).tolist()  # -log(2 pi)
    [-1.837...]
    """

    has_rsample = True

    def __init__(self, loc: torch.Tensor, scale: torch.Tensor) -> None:
        self.loc = loc
        self.scale = scale
        super().__init__(loc.shape[:-1], loc.shape[-1:], validate_args=False)

    def __getitem__(self, index: object) -> "DiagonalNormal":
        return DiagonalNormal(_picked(self.loc, index), _picked(self.scale, index))

    @property
    def mean(self) -> torch.Tensor:
        return self.loc

    @property
    def mode(self) -> torch.Tensor:
        return self.loc

    @property
    def stddev(self) -> torch.Tensor:
        return self.scale

    @property
    def variance(self) -> torch.Tensor:
        return self.scale.square()

    def rsample(self, sample_shape: Size = (), *, generator: torch.Generator | None = None) -> torch.Tensor:
        """Return draws, ``[*sample_shape, B, D]``, through which gradients flow.

        :param sample_shape: the shape of the draws for each row. Default: one draw, ``()``.
        :param generator: the random stream; None for torch's.
        """
        shape = _joined(sample_shape, self.loc.shape)
        if generator is not None:  # a CPU generator, also where the means are on another device
            return self.loc + self.scale * torch.randn(shape, dtype=self.loc.dtype, generator=generator).to(self.loc)
        return self.loc + self.scale * torch.randn(shape, dtype=self.loc.dtype, device=self.loc.device)

    @torch.no_grad()
    def sample(self, sample_shape: Size = (), *, generator: torch.Generator | None = None) -> torch.Tensor:
        """Return draws, without gradients.

        :param sample_shape: the shape of the draws for each row. Default: one draw, ``()``.
        :param generator: the random stream; None for torch's.
        """
        return self.rsample(sample_shape, generator=generator)

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        """Return the log-probability of each row, ``[B]``.

        :param value: the actions.
        """
        z = (value - self.loc) / self.scale
        return (-0.5 * z.square() - self.scale.log() - _HALF_LOG_TAU).sum(-1)

    def entropy(self) -> torch.Tensor:
        return (0.5 + _HALF_LOG_TAU + self.scale.log()).sum(-1)


class SquashedNormal(Distribution):
    r"""The hyperbolic tangent of a :class:`DiagonalNormal`: actions within (-1, 1).

    .. math::
        a = \tanh u, \qquad
        \log \pi(a) = \log \mathcal N(u; \mu, \sigma) - \sum_d \log\bigl(1 - \tanh^2 u_d\bigr)

    (Haarnoja et al., arXiv:1812.05905, appendix C.)

    :param loc: means before squashing, ``[B, D]``.
    :param scale: standard deviations before squashing, above 0, ``[B, D]``.
    """

    has_rsample = True

    def __init__(self, loc: torch.Tensor, scale: torch.Tensor) -> None:
        self.base = DiagonalNormal(loc, scale)
        super().__init__(loc.shape[:-1], loc.shape[-1:], validate_args=False)

    def __getitem__(self, index: object) -> "SquashedNormal":
        return SquashedNormal(_picked(self.base.loc, index), _picked(self.base.scale, index))

    @property
    def mode(self) -> torch.Tensor:
        """The squashed mean. Because of the squashing, the density is not exactly largest there."""
        return self.base.loc.tanh()

    def rsample(self, sample_shape: Size = (), *, generator: torch.Generator | None = None) -> torch.Tensor:
        """Return draws, ``[*sample_shape, B, D]``, through which gradients flow.

        :param sample_shape: the shape of the draws for each row. Default: one draw, ``()``.
        :param generator: the random stream; None for torch's.
        """
        return self.base.rsample(sample_shape, generator=generator).tanh()

    @torch.no_grad()
    def sample(self, sample_shape: Size = (), *, generator: torch.Generator | None = None) -> torch.Tensor:
        """Return draws, without gradients.

        :param sample_shape: the shape of the draws for each row. Default: one draw, ``()``.
        :param generator: the random stream; None for torch's.
        """
        return self.rsample(sample_shape, generator=generator)

    def with_log_prob(self, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        r"""Compute actions from standard normal noise, and their exact log-probabilities.

        :param noise: :math:`\epsilon` in :math:`u = \mu + \sigma\epsilon`, ``[B, D]``; 0 gives the mode.
        :return: actions ``[B, D]`` and log-probabilities ``[B]``.

        >>> dist = SquashedNormal(torch.tensor([[50.0]]), torch.ones(1, 1))
        >>> act, log_prob = dist.with_log_prob(torch.zeros(1, 1))
        >>> act.tolist(), log_prob.tolist()
        ([[1.0]], [97.69...])
        """
        pre = self.base.loc + self.base.scale * noise
        log_prob = (-0.5 * noise.square() - self.base.scale.log() - _HALF_LOG_TAU - tanh_log_det(pre)).sum(-1)
        return pre.tanh(), log_prob

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        """Return the log-probabilities of actions; actions of -1 and 1 are moved inside by the smallest step.

        :param value: actions ``[B, D]``, in [-1, 1].
        :return: ``[B]``.
        """
        pre = value.clamp(-_LARGEST, _LARGEST).atanh()
        return self.base.log_prob(pre) - tanh_log_det(pre).sum(-1)


class Categorical(Distribution):
    """A distribution over A discrete actions; a quicker ``torch.distributions.Categorical(logits=logits)``.

    :param logits: unnormalized log-probabilities, ``[B, A]``; minus infinity for illegal actions.

    >>> Categorical(torch.zeros(1, 4)).entropy().exp().tolist()
    [4.0...]
    """

    def __init__(self, logits: torch.Tensor) -> None:
        self.logits = logits.log_softmax(-1)
        super().__init__(logits.shape[:-1], validate_args=False)

    def __getitem__(self, index: object) -> "Categorical":
        return Categorical(_picked(self.logits, index))

    @property
    def probs(self) -> torch.Tensor:
        return self.logits.exp()

    @property
    def mode(self) -> torch.Tensor:
        return self.logits.argmax(-1)

    def sample(self, sample_shape: Size = (), *, generator: torch.Generator | None = None) -> torch.Tensor:
        """Return draws, without gradients.

        :param sample_shape: the shape of the draws for each row. Default: one draw, ``()``.
        :param generator: the random stream; None for torch's.
        """
        probs = self.probs.expand(_joined(sample_shape, self.logits.shape))
        if generator is None:
            clocks = torch.empty_like(probs).exponential_()
        else:  # a CPU generator, also where the logits are on another device
            clocks = torch.empty(probs.shape, dtype=probs.dtype).exponential_(generator=generator).to(probs.device)
        return (probs / clocks).argmax(-1)  # the first of A exponential clocks to ring is a sample

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        """Return the log-probability of each row, ``[B]``.

        :param value: the actions.
        """
        more_axes = value.dim() >= self.logits.dim()  # those of sample((n,))
        logits = self.logits.expand(*value.shape, -1) if more_axes else self.logits
        return logits.gather(-1, value.long()[..., None]).squeeze(-1)

    def entropy(self) -> torch.Tensor:
        p_log_p = self.probs * self.logits.clamp(min=torch.finfo(self.logits.dtype).min)
        return -p_log_p.sum(-1)


class MultiCategorical(Distribution):
    """Independent categorical distributions, for a ``MultiDiscrete`` action space.

    :param logits: the unnormalized log-probabilities of all choices, concatenated, ``[B, sum(nvec)]``.
    :param nvec: the number of actions of each choice, such as ``action_space.nvec``.
    :raises ValueError: the last size of ``logits`` is not the sum of ``nvec``.

    >>> dist = MultiCategorical(torch.log(torch.tensor([[0.5, 0.5, 0.2, 0.3, 0.5]])), [2, 3])
    >>> dist.log_prob(torch.tensor([[1, 2]])).exp().tolist(), dist.mode.tolist()
    ([0.25], [[0, 2]])
    """

    def __init__(self, logits: torch.Tensor, nvec: Any) -> None:
        sizes = [int(n) for n in nvec]
        if logits.shape[-1] != sum(sizes):
            raise ValueError(f"the choices {sizes} need {sum(sizes)} logits, got {logits.shape[-1]}")
        self.choices = [Categorical(part) for part in logits.split_with_sizes(sizes, -1)]
        super().__init__(logits.shape[:-1], torch.Size([len(sizes)]), validate_args=False)

    def __getitem__(self, index: object) -> "MultiCategorical":
        logits = torch.cat([_picked(choice.logits, index) for choice in self.choices], -1)
        return MultiCategorical(logits, [choice.logits.shape[-1] for choice in self.choices])

    @property
    def mode(self) -> torch.Tensor:
        return torch.stack([choice.mode for choice in self.choices], -1)

    def sample(self, sample_shape: Size = (), *, generator: torch.Generator | None = None) -> torch.Tensor:
        """Return draws, without gradients.

        :param sample_shape: the shape of the draws for each row. Default: one draw, ``()``.
        :param generator: the random stream; None for torch's.
        """
        return torch.stack([choice.sample(sample_shape, generator=generator) for choice in self.choices], -1)

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        """Return the log-probability of each row, ``[B]``.

        :param value: the actions.
        """
        parts = [choice.log_prob(act) for choice, act in zip(self.choices, value.unbind(-1), strict=True)]
        return torch.stack(parts).sum(0)

    def entropy(self) -> torch.Tensor:
        return torch.stack([choice.entropy() for choice in self.choices]).sum(0)


def _kl_normal(p: DiagonalNormal, q: DiagonalNormal) -> torch.Tensor:
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return (0.5 * (ratio.square() + shift.square() - 1) - ratio.log()).sum(-1)


def _kl_squashed(p: SquashedNormal, q: SquashedNormal) -> torch.Tensor:
    return _kl_normal(p.base, q.base)  # squashing both keeps it


def _kl_categorical(p: Categorical, q: Categorical) -> torch.Tensor:
    smallest = torch.finfo(p.logits.dtype).min  # for actions that are illegal in both
    return (p.probs * (p.logits.clamp(min=smallest) - q.logits.clamp(min=smallest))).sum(-1)


def _kl_multi(p: MultiCategorical, q: MultiCategorical) -> torch.Tensor:
    pairs = zip(p.choices, q.choices, strict=True)
    return torch.stack([_kl_categorical(one, other) for one, other in pairs]).sum(0)


for _kind, _divergence in (
    (DiagonalNormal, _kl_normal),
    (SquashedNormal, _kl_squashed),
    (Categorical, _kl_categorical),
    (MultiCategorical, _kl_multi),
):
    register_kl(_kind, _kind)(_divergence)  # type: ignore[no-untyped-call]
