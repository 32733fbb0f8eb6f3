"""Samplers: the distributions that rows are drawn from."""

from dataclasses import dataclass

import numpy as np

from rlfast.utils.arguments.checks import check_number


@dataclass(frozen=True)
class Uniform:
    """Draws every live row with the same probability, with replacement."""


@dataclass(frozen=True)
class Prioritized:
    r"""Draws row :math:`i` with probability :math:`p_i^\alpha / \sum_k p_k^\alpha`, with replacement.

    A new row has the largest priority so far. Importance weights are :math:`(P(i) / \min_k P(k))^{-\beta}`.
    Schaul et al. 2016, *Prioritized Experience Replay*, arXiv:1511.05952, equation 1 and section 3.4.

    :param alpha: exponent of priorities, greater than 0; 1 makes probabilities proportional to priorities.
    :param beta: exponent of importance weights, at least 0; 1 corrects the whole bias of prioritized sampling.
    :param weight_norm: whether the weights of a batch are divided by the largest among them.
    :raises ValueError: if ``alpha`` or ``beta`` is out of range, or not finite.
    """

    alpha: float
    beta: float
    weight_norm: bool = True

    def __post_init__(self) -> None:
        for name in ("alpha", "beta"):
            value = getattr(self, name)
            if isinstance(value, np.ndarray) and value.ndim == 0:
                object.__setattr__(self, name, value.item())  # the dataclass is frozen
            check_number(name, getattr(self, name))
        object.__setattr__(self, "weight_norm", bool(self.weight_norm))
        if not self.alpha > 0.0:
            raise ValueError(
                f"alpha must be > 0, got {self.alpha}; for uniform sampling take a buffer without priorities"
            )
        if not self.beta >= 0.0:
            raise ValueError(f"beta must be >= 0, got {self.beta}")
