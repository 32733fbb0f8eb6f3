"""Prioritized experience replay."""

from __future__ import annotations

from typing import Any

from rlfast.data.buffer.base import ReplayBuffer
from rlfast.data.buffer.options.samplers import Prioritized


class PrioritizedReplayBuffer(ReplayBuffer):
    """A replay buffer that draws rows by priority: Schaul et al. 2016, *Prioritized Experience Replay*,
    arXiv:1511.05952.

    :param size: rows at most.
    :param alpha: how much priorities count, > 0.
    :param beta: how much of the bias the weights take back, >= 0; see :meth:`set_beta`.
    :param weight_norm: divide ``batch.weight`` by its largest entry.
    :param kwargs: see :class:`ReplayBuffer`.
    :raises AssertionError: alpha or beta out of range.

    >>> from rlfast.data import Batch, PrioritizedReplayBuffer
    >>> buf = PrioritizedReplayBuffer(10, alpha=0.6, beta=0.4, seed=0)
    >>> for i in range(3):
    ...     row = buf.add(Batch(obs=i, act=0, rew=0.0, terminated=False, truncated=False, obs_next=i + 1))
    >>> batch, indices = buf.sample(32)
    >>> buf.update_weight(indices, abs(batch.obs - 1.0))
    """

    _sampler_kind = Prioritized

    def __init__(self, size: int, alpha: float, beta: float, weight_norm: bool = True, **kwargs: Any) -> None:
        super().__init__(size, sampler=prioritized(alpha, beta, weight_norm), **kwargs)

    def _options(self) -> dict[str, Any]:
        options = super()._options()  # with the parts of the sampler spelt out
        sampler = options.pop("sampler")
        return options | {"alpha": sampler.alpha, "beta": sampler.beta, "weight_norm": sampler.weight_norm}


def prioritized(alpha: float, beta: float, weight_norm: bool) -> Prioritized:
    """Returns the sampler; wrong exponents are an AssertionError, as other wrong arguments of buffers are."""
    try:
        return Prioritized(alpha, beta, weight_norm)
    except ValueError as error:
        raise AssertionError(str(error)) from None
