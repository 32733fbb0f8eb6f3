"""A scale of rewards by the returns that follow them."""

import math

import numpy as np

from rlfast.data import ReplayBuffer
from rlfast.policy.components.returns import Index
from rlfast.utils.statistics import RunningMeanStd

_ROWS = 16
_LONGEST = 1_000


class ReturnScale:
    r"""What rewards are divided by, so that returns fit into an interval (Lee et al., arXiv:2502.15280, section 4.2).

    .. math:: \max\Bigl(\sqrt{\mathrm{Var}[G] + \epsilon},\; \frac{\max |G|}{G_{\max}}\Bigr)

    The paper adds up rewards while it collects. Here G are the discounted returns that follow some of the sampled rows,
    which any buffer has, and an offline one, too: they end with the episode, after three times the horizon
    :math:`1 / (1 - \gamma)`, or at the newest row. A buffer keeps rewards as they are, and each sample is scaled by
    what is known by then.

    :param largest: :math:`G_{\max}`, the end of the interval.
    :param gamma: the discount.
    """

    def __init__(self, largest: float, gamma: float) -> None:
        self.largest, self.gamma = largest, gamma
        self.steps = _LONGEST if gamma == 1 else min(math.ceil(3 / (1 - gamma)), _LONGEST)
        self.returns, self.greatest = RunningMeanStd(), 0.0

    def update(self, buffer: ReplayBuffer, indices: Index) -> None:
        """Add the returns that follow the first of some rows.

        :param buffer: the buffer.
        :param indices: rows that were drawn from it, ``[B]``.
        """
        returns, _, _ = buffer.nstep(indices[:_ROWS], self.steps, self.gamma)
        self.returns.update(returns.ravel())
        self.greatest = max(self.greatest, float(np.abs(returns).max()))

    @property
    def divisor(self) -> float:
        """What rewards are divided by."""
        return max(math.sqrt(float(self.returns.var) + 1e-8), self.greatest / self.largest)
