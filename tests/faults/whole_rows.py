"""Buffers whose rows show by their values whether they are whole, for tests of interrupts and of threads."""

from collections.abc import Callable
from typing import Any

import numpy as np

from rlfast.data import (
    Batch,
    CachedReplayBuffer,
    HERReplayBuffer,
    HERVectorReplayBuffer,
    NStep,
    Prioritized,
    PrioritizedReplayBuffer,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    Sequence,
    VectorReplayBuffer,
)

EPISODE = 10
"""Row ``i`` ends its episode if ``i + 1`` is a multiple of it."""


class Named:
    """An object that knows its row."""

    def __init__(self, i: int) -> None:
        self.i = i

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and other.i == self.i

    def __hash__(self) -> int:
        return self.i


def reward(achieved: Any, desired: Any) -> Any:
    return -(np.abs(achieved - desired).sum(-1) > 0.5).astype(float)


def _obs(i: int, form: str) -> Any:
    if form == "objects":
        return {"place": np.float32(i), "named": Named(i)}
    if form == "goals":
        goals = {"achieved_goal": np.float32([i]), "desired_goal": np.float32([-5])}
        return {"observation": np.float32([i]), **goals}
    return np.full(64, i, np.uint8) if form == "pictures" else np.float32(i)


def row(i: int, form: str = "numbers", **info: Any) -> dict[str, Any]:
    """Row ``i``, whose ``act`` and ``rew`` are i; its info has the object ``Named(i)`` unless ``info`` is given."""
    fields = {"obs": _obs(i, form), "act": i, "rew": float(i), "obs_next": _obs(i + 1, form)}
    ends = {"terminated": i % EPISODE == EPISODE - 1, "truncated": False}
    return {**fields, **ends, "info": info or {"named": Named(i), "number": i}}


class Made:
    """A buffer and the next row of each of its rings; ring ``k`` counts from 100 * k, its episodes likewise."""

    def __init__(self, buffer: Any, form: str = "numbers", rings: int = 0, *, objects: bool = True) -> None:
        self.buffer, self.form, self.rings, self.objects = buffer, form, rings, objects
        self.next = 0

    def row(self) -> Any:
        self.next += 1
        info = {} if self.objects else {"number": self.next - 1}
        rows = [row(self.next - 1 + 100 * k, self.form, **info) for k in range(max(self.rings, 1))]
        if not self.objects:
            for k, one in enumerate(rows):
                one["info"]["number"] = self.next - 1 + 100 * k
        return Batch.stack([Batch(one) for one in rows]) if self.rings else Batch(rows[0])

    def add(self, number: int = 1) -> "Made":
        for _ in range(number):
            self.buffer.add(self.row())
        return self

    def look(self) -> None:
        """Checks all rows."""
        self.check(self.buffer[self.buffer.sample_indices(0)])

    def check(self, batch: Any) -> None:
        """Checks rows of a batch."""
        act = np.asarray(batch.act)
        assert (self._place(batch.obs) == act % 256 if self.form == "pictures" else self._place(batch.obs) == act).all()
        if self.objects:
            assert [named.i for named in batch.info.named.ravel()] == act.ravel().tolist()
        assert (np.asarray(batch.info.number) == act).all()
        assert (batch.terminated == (act % EPISODE == EPISODE - 1)).all()
        if self.form == "objects":
            assert [named.i for named in batch.obs.named.ravel()] == act.ravel().tolist()
            assert [named.i for named in batch.obs_next.named.ravel()] == self._place(batch.obs_next).ravel().tolist()
        following = self._place(batch.obs_next)
        if self.buffer._config.ignore_obs_next:  # the obs of the next row; the newest row of an episode shows itself
            assert (following[batch.terminated] == act[batch.terminated] + 1).all()
            assert (following >= act).all()
        else:
            assert (following == (act + 1) % 256).all() if self.form == "pictures" else (following == act + 1).all()

    @staticmethod
    def _place(obs: Any) -> Any:
        if isinstance(obs, Batch):
            return obs.place if "place" in obs else obs.observation[..., 0]
        return obs[..., 0] if obs.dtype == np.uint8 else obs


def _her(size: int, rings: int = 0, **options: Any) -> Any:
    options = {"compute_reward_fn": reward, "horizon": EPISODE, "future_k": 4.0, "seed": 0, **options}
    return HERVectorReplayBuffer(size, rings, **options) if rings else HERReplayBuffer(size, **options)


KINDS: dict[str, Callable[[], Made]] = {
    "ring": lambda: Made(ReplayBuffer(20, seed=0)),
    "numbers": lambda: Made(ReplayBuffer(20, seed=0), objects=False),
    "object obs": lambda: Made(ReplayBuffer(20, seed=0), "objects"),
    "ignore_obs_next": lambda: Made(ReplayBuffer(20, ignore_obs_next=True, seed=0), "objects"),
    "packed": lambda: Made(ReplayBuffer(20, storage="lz4", seed=0), "pictures"),
    "prioritized": lambda: Made(PrioritizedReplayBuffer(20, 0.6, 0.4, seed=0)),
    "vector": lambda: Made(VectorReplayBuffer(40, 2, seed=0), rings=2),
    "prioritized vector": lambda: Made(PrioritizedVectorReplayBuffer(40, 2, alpha=0.6, beta=0.4, seed=0), rings=2),
    "cached": lambda: Made(CachedReplayBuffer(ReplayBuffer(40, seed=0), 2, 20, seed=0), rings=2),
    "hindsight": lambda: Made(_her(20), "goals"),
    "hindsight vector": lambda: Made(_her(40, 2), "goals", 2),
}
UNITS: dict[str, Callable[[], Made]] = {
    "n-step": lambda: Made(ReplayBuffer(20, unit=NStep(3, 1.0), seed=0)),
    "sequence": lambda: Made(ReplayBuffer(20, unit=Sequence(4, 1), seed=0)),
    "prioritized sequence": lambda: Made(
        ReplayBuffer(20, unit=Sequence(4, 1), sampler=Prioritized(0.6, 0.4), seed=0), objects=False
    ),
    "stack": lambda: Made(ReplayBuffer(20, stack_num=3, sample_avail=True, seed=0)),
}
