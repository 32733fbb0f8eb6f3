"""Which rows are drawn."""

from dataclasses import dataclass

import numpy as np

from rlfast.utils.checks import check_number


@dataclass(frozen=True)
class Uniform:
    """Every live row with the same probability, with replacement."""


@dataclass(frozen=True)
class Prioritized:
    r"""Row :math:`i` with probability :math:`p_i^\alpha / \sum_k p_k^\alpha`, with replacement.

    A new row has the largest priority so far. Importance weights are :math:`(P(i) / \min_k P(k))^{-\beta}`.
    Schaul et al. 2016, *Prioritized Experience Replay*, arXiv:1511.05952, equation 1 and section 3.4.

    :param alpha: how much priorities count, > 0; 1 is proportional.
    :param beta: how much of the bias the weights take back, >= 0; 1 is all of it.
    :param weight_norm: divide the weights of a batch by the largest among them.
    :raises ValueError: alpha or beta out of range, or not finite.
    """

    alpha: float
    beta: float
    weight_norm: bool = True

    def __post_init__(self) -> None:
        for name in ("alpha", "beta"):
            value = getattr(self, name)
            if isinstance(value, np.ndarray) and value.ndim == 0:
                object.__setattr__(self, name, value.item())  # the part is frozen
            check_number(name, getattr(self, name))
        object.__setattr__(self, "weight_norm", bool(self.weight_norm))
        if not self.alpha > 0.0:
            raise ValueError(
                f"alpha must be > 0, got {self.alpha}; for uniform sampling take a buffer without priorities"
            )
        if not self.beta >= 0.0:
            raise ValueError(f"beta must be >= 0, got {self.beta}")
