"""Short ways to write rows: an episode as a string, its observations as numbers."""

from collections.abc import Iterable

import numpy as np

from rlfast.data import Batch, PrioritizedReplayBuffer, PrioritizedVectorReplayBuffer, ReplayBuffer, VectorReplayBuffer


def transition(number=0, end="", *, rew=0.0, obs_next=None, act=0, **others):
    """One row: observation ``number``, then ``number + 1``; ``end`` is "T" for terminated and "t" for truncated."""
    return Batch(
        obs=np.asarray(number),
        act=act,
        rew=rew,
        terminated=end == "T",
        truncated=end == "t",
        obs_next=np.asarray(number + 1 if obs_next is None else obs_next),
        info={},
        **others,
    )


def fill(buffer: ReplayBuffer, ends: str, rew: Iterable[float] | None = None, first: int = 0) -> ReplayBuffer:
    """Adds one row for each character of ``ends`` (``.``: the episode goes on), numbered from ``first``."""
    rewards = [0.0] * len(ends) if rew is None else list(rew)
    for number, (end, reward) in enumerate(zip(ends, rewards, strict=True), start=first):
        buffer.add(transition(number, end, rew=reward))
    return buffer


def vector_step(numbers, ends, **others):
    """One step of several environments, for ``add(..., buffer_ids=...)``."""
    numbers = np.asarray(numbers)
    return Batch(
        obs=numbers,
        act=np.zeros(len(numbers), int),
        rew=np.asarray(others.pop("rew", np.zeros(len(numbers)))),
        terminated=np.array([end == "T" for end in ends]),
        truncated=np.array([end == "t" for end in ends]),
        obs_next=numbers + 1,
        info={},
        **others,
    )


KINDS = {
    "ring": lambda: ReplayBuffer(50, seed=4),
    "stacked": lambda: ReplayBuffer(50, stack_num=3, sample_avail=True, seed=4),
    "vector": lambda: VectorReplayBuffer(60, 3, seed=4),
    "prioritized": lambda: PrioritizedReplayBuffer(50, 0.6, 0.4, seed=4),
    "prioritized vector": lambda: PrioritizedVectorReplayBuffer(60, 3, alpha=0.6, beta=0.4, weight_norm=False, seed=4),
}


def partly_filled(make):
    buffer = make()
    for number in range(77):
        ring = number % getattr(buffer, "buffer_num", 1)
        buffer.add(vector_step([number], "T" if number % 9 == 4 else ".", rew=[number * 0.5]), buffer_ids=[ring])
    if hasattr(buffer, "update_weight"):
        _, index = buffer.sample(20)
        buffer.update_weight(index, np.arange(20.0))
    buffer.sample(5)
    return buffer
