"""Managers of buffers of equal size, one for each environment."""

from __future__ import annotations

from math import ceil
from typing import Any

from rlfast.data.buffer.base import ReplayBuffer
from rlfast.data.buffer.hindsight import HERReplayBuffer, RewardFn
from rlfast.data.buffer.manager import HERReplayBufferManager, PrioritizedReplayBufferManager, ReplayBufferManager
from rlfast.data.buffer.options.config import Config, ignore_unknown
from rlfast.data.buffer.options.relabelling import Hindsight
from rlfast.data.buffer.options.samplers import Prioritized
from rlfast.data.buffer.prioritized import PrioritizedReplayBuffer, prioritized
from rlfast.utils.arguments.checks import count_of
from rlfast.utils.runtime.seeding import draw_seed


def _build(
    manager: ReplayBufferManager,
    child: type[ReplayBuffer],
    total_size: int,
    buffer_num: int,
    *,
    seed: int | None = None,
    storage: str = "ram",
    **options: Any,
) -> None:
    """Initialises a manager with ``buffer_num`` rings of equal size."""
    total_size, buffer_num = (
        count_of("total_size", total_size, rounded=ceil),
        count_of("buffer_num", buffer_num, least=1),
    )
    unknown = options.keys() - Config.__dataclass_fields__.keys()
    ignore_unknown(manager, unknown)
    options = {name: value for name, value in options.items() if name not in unknown}
    capacities = [-(-total_size // buffer_num)] * buffer_num
    children = [object.__new__(child) for _ in capacities]
    manager._setup(capacities, Config(**options).normalized(), draw_seed(seed), storage, children)


class VectorReplayBuffer(ReplayBufferManager):
    """A manager of ``buffer_num`` buffers with ``ceil(total_size / buffer_num)`` rows each.

    :param total_size: the largest number of rows of all buffers together, rounded up to a multiple of ``buffer_num``.
    :param buffer_num: number of buffers, one for each environment.
    :param kwargs: see :class:`ReplayBuffer`.
    :raises AssertionError: if ``buffer_num`` is less than 1.

    >>> from rlfast.data import Batch, VectorReplayBuffer
    >>> buf = VectorReplayBuffer(total_size=10, buffer_num=2, seed=0)
    >>> zeros, flags = [0.0, 0.0], [False, False]
    >>> row = buf.add(Batch(obs=[1, 2], act=[0, 0], rew=zeros, terminated=flags, truncated=flags, obs_next=[3, 4]))
    >>> row[0]
    array([0, 5])
    >>> buf.buffers[1].obs
    array([2, 0, 0, 0, 0])
    """

    def __init__(self, total_size: int, buffer_num: int, **kwargs: Any) -> None:
        _build(self, ReplayBuffer, total_size, buffer_num, **kwargs)


class PrioritizedVectorReplayBuffer(PrioritizedReplayBufferManager):
    """A :class:`VectorReplayBuffer` that draws rows by priority.

    :param total_size: the largest number of rows of all buffers together, rounded up to a multiple of ``buffer_num``.
    :param buffer_num: number of buffers, one for each environment.
    :param alpha: see :class:`PrioritizedReplayBuffer`, also for ``beta`` and ``weight_norm``.
    :param kwargs: see :class:`ReplayBuffer`.
    """

    def __init__(
        self, total_size: int, buffer_num: int, *, alpha: float, beta: float, weight_norm: bool = True, **kwargs: Any
    ) -> None:
        sampler: Prioritized = prioritized(alpha, beta, weight_norm)
        _build(self, PrioritizedReplayBuffer, total_size, buffer_num, sampler=sampler, **kwargs)


class HERVectorReplayBuffer(HERReplayBufferManager):
    """A :class:`VectorReplayBuffer` with hindsight goals.

    :param total_size: the largest number of rows of all buffers together, rounded up to a multiple of ``buffer_num``.
    :param buffer_num: number of buffers, one for each environment.
    :param compute_reward_fn: see :class:`HERReplayBuffer`.
    :param horizon: see :class:`HERReplayBuffer`.
    :param future_k: see :class:`HERReplayBuffer`.
    :param kwargs: see :class:`ReplayBuffer`.
    """

    def __init__(
        self,
        total_size: int,
        buffer_num: int,
        *,
        compute_reward_fn: RewardFn,
        horizon: int,
        future_k: float = 8.0,
        **kwargs: Any,
    ) -> None:
        relabel = Hindsight(compute_reward_fn, horizon, future_k)
        _build(self, HERReplayBuffer, total_size, buffer_num, relabel=relabel, **kwargs)
