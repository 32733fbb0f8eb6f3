"""A replay buffer by definition: it keeps every transition as an object and answers each question by looking.

Nothing here is clever on purpose. A row knows its ring, its slot, its place in time and its episode; it is alive while
its slot still holds it; neighbours are the rows one tick away in the same episode that are alive.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Path = tuple[str, ...]
Fields = dict[Path, NDArray]

PRIORITY_EPSILON = float(np.finfo(np.float32).eps)


@dataclass(eq=False)
class Row:
    """One transition. ``time`` counts the rows of its ring since the beginning and is never used twice."""

    ring: int
    slot: int
    time: int
    episode: int
    fields: Fields
    leaf: float = 0.0  # what the priority tree holds for it: priority ** alpha

    @property
    def terminated(self) -> bool:
        return bool(self.fields["terminated",])

    @property
    def done(self) -> bool:
        return self.terminated or bool(self.fields["truncated",])


@dataclass
class Ring:
    """A ring's slots, everything it was ever given, and the statistics of its running episode."""

    capacity: int
    offset: int
    slots: dict[int, Row] = field(default_factory=dict)
    history: list[Row] = field(default_factory=list)
    cursor: int = 0
    episode: int = 0
    episode_return: float | NDArray = 0.0
    episode_length: int = 0
    episode_start: int = 0

    def begin_episode(self) -> None:
        self.episode += 1
        self.episode_return, self.episode_length, self.episode_start = 0.0, 0, self.cursor


class Replay:
    """The slow model of ``rlfast._core.Replay``."""

    def __init__(
        self,
        capacities: Sequence[int],
        *,
        stack_num: int = 1,
        save_obs_next: bool = True,
        sample_avail: bool = False,
        alpha: float | None = None,
        beta: float = 1.0,
        weight_norm: bool = True,
    ) -> None:
        offsets = [sum(capacities[:ring]) for ring in range(len(capacities))]
        self.rings = [Ring(*pair) for pair in zip(capacities, offsets, strict=True)]
        self.stack_num, self.save_obs_next, self.sample_avail = stack_num, save_obs_next, sample_avail
        self.alpha, self.beta, self.weight_norm = alpha, beta, weight_norm
        self.columns: dict[Path, tuple[np.dtype, tuple[int, ...]]] = {}
        self.max_priority = 1.0
        self.stale_updates = 0

    # -- writing -----------------------------------------------------------------------------------------------------
    def add(self, ring_id: int, fields: Fields) -> tuple[int, float | NDArray, int, int]:
        """Gives ``(index, episode_return, episode_length, episode_start)``; return and length are 0 until the end."""
        ring = self.rings[ring_id]
        for path, value in fields.items():
            self.columns.setdefault(path, (value.dtype, value.shape))
        kept = self._kept({path: value.copy() for path, value in fields.items()})
        row = Row(ring_id, ring.cursor, len(ring.history), ring.episode, kept)
        if self.alpha is not None:
            row.leaf = self.max_priority**self.alpha
        ring.history.append(row)
        ring.slots[row.slot] = row
        ring.cursor = (ring.cursor + 1) % ring.capacity
        reward = fields["rew",]
        ring.episode_return = ring.episode_return + (reward if reward.ndim else float(reward))
        ring.episode_length += 1
        start = ring.offset + ring.episode_start
        if not row.done:
            return self.index(row), ring.episode_return * 0.0, 0, start
        result = self.index(row), ring.episode_return, ring.episode_length, start
        ring.begin_episode()
        return result

    def _kept(self, fields: Fields) -> Fields:
        """Returns the stored part of a row: without ``save_obs_next``, only ends of episodes have an ``obs_next``."""
        if self.save_obs_next or fields["terminated",] or fields["truncated",]:
            return fields
        return {path: value for path, value in fields.items() if path[0] != "obs_next"}

    def close_episode(self, ring_id: int) -> None:
        """Ends the running episode of a ring as truncated at its newest row."""
        for row in self.unfinished_rows():
            if row.ring == ring_id:
                row.fields["truncated",] = np.asarray(True)
                self.rings[ring_id].begin_episode()

    def install(self, storage: Sequence[Fields]) -> None:
        """Replaces the contents of all slots. The live rows and the statistics of running episodes stay."""
        for path, value in storage[0].items():
            self.columns.setdefault(path, (value.dtype, value.shape))
        for ring in self.rings:
            for row in sorted(ring.slots.values(), key=lambda row: row.time):
                fields = {path: value.copy() for path, value in storage[self.index(row)].items()}
                row.episode, row.fields = ring.episode, self._kept(fields)
                ring.episode += row.done

    def reset(self, ring_id: int | None = None, keep_statistics: bool = False) -> None:
        for ring in self.rings if ring_id is None else [self.rings[ring_id]]:
            ring.slots.clear()
            ring.cursor = 0
            if not keep_statistics:
                ring.begin_episode()

    # -- which rows --------------------------------------------------------------------------------------------------
    def index(self, row: Row) -> int:
        return self.rings[row.ring].offset + row.slot

    def at(self, index: int) -> Row:
        ring = next(ring for ring in self.rings if ring.offset <= index < ring.offset + ring.capacity)
        return ring.slots[index - ring.offset]

    def alive(self, row: Row) -> bool:
        return self.rings[row.ring].slots.get(row.slot) is row

    def live(self, ring_id: int | None = None) -> list[Row]:
        """Returns the live rows of each ring, oldest first."""
        rings = self.rings if ring_id is None else [self.rings[ring_id]]
        return [row for ring in rings for row in sorted(ring.slots.values(), key=lambda row: row.time)]

    def candidates(self, ring_id: int | None = None) -> list[Row]:
        """Returns the rows that may be drawn."""
        rows = self.live(ring_id)
        if self.sample_avail:
            rows = [row for row in rows if len(self.past(row)) >= self.stack_num]
        return rows

    def newest(self, ring_id: int) -> Row | None:
        rows = self.live(ring_id)
        return rows[-1] if rows else None

    def unfinished_rows(self) -> list[Row]:
        newest = [self.newest(ring_id) for ring_id in range(len(self.rings))]
        return [row for row in newest if row is not None and not row.done]

    # -- neighbours --------------------------------------------------------------------------------------------------
    def _neighbour(self, row: Row, step: int) -> Row:
        time, history = row.time + step, self.rings[row.ring].history
        if not 0 <= time < len(history):
            return row
        other = history[time]
        return other if self.alive(other) and other.episode == row.episode else row

    def prev(self, row: Row) -> Row:
        return self._neighbour(row, -1)

    def next(self, row: Row) -> Row:
        return self._neighbour(row, +1)

    def _chain(self, row: Row, step: int) -> list[Row]:
        chain = [row]
        while (other := self._neighbour(chain[-1], step)) is not chain[-1]:
            chain.append(other)
        return chain

    def past(self, row: Row) -> list[Row]:
        """The live rows of the episode up to and with ``row``, oldest first."""
        return self._chain(row, -1)[::-1]

    def future(self, row: Row) -> list[Row]:
        """``row`` and the live rows of the episode after it."""
        return self._chain(row, +1)

    def stack(self, row: Row, depth: int) -> list[Row]:
        """The last ``depth`` rows of the episode up to ``row``; its oldest live row fills the front."""
        past = self.past(row)
        return [past[0]] * (depth - len(past)) + past[-depth:] if depth else []

    # -- contents ----------------------------------------------------------------------------------------------------
    def value(self, row: Row, path: Path) -> NDArray:
        """A leaf of a row; zero (None among objects) where the key came later or was not given."""
        given = row.fields.get(path)
        if given is not None:
            return given
        dtype, shape = self.columns[path]
        return np.full(shape, None if dtype.kind == "O" else 0, dtype)

    def _next_frames(self, row: Row, depth: int) -> list[tuple[Row, str]]:
        """Where the ``depth`` frames of ``obs_next`` at ``row`` are kept, oldest first: the row and the key in it."""
        if not self.save_obs_next and not any(path[0] == "obs_next" for path in row.fields):
            return [(other, "obs") for other in self.stack(self.next(row), depth)]
        if not self.save_obs_next:  # the end of an episode keeps what it led to
            return [*((other, "obs") for other in self.stack(row, depth)[1:]), (row, "obs_next")]
        past = self.past(row)  # before its oldest row acting saw that row's obs, again and again
        return [(past[0], "obs")] * (depth - len(past)) + [(other, "obs_next") for other in past[-depth:]]

    def take(self, rows: Sequence[Row], depth: int | None = None) -> Fields:
        """Every leaf of the rows, flat; ``obs``, ``obs_next``, ``info`` and ``policy`` are stacks when depth > 1."""
        depth = self.stack_num if depth is None else depth
        paths = [path for path in self.columns if self.save_obs_next or path[0] != "obs_next"]
        if not self.save_obs_next:
            paths += [("obs_next", *path[1:]) for path in self.columns if path[0] == "obs"]
        stacks = [self.stack(row, depth) for row in rows]
        next_frames = [self._next_frames(row, depth) for row in rows]
        batch: Fields = {("done",): np.array([row.done for row in rows], bool)}
        for path in paths:
            key, *rest = path
            dtype, shape = self.columns[path] if path in self.columns else self.columns["obs", *rest]
            if key == "obs_next":
                values = [self.value(other, (name, *rest)) for frames in next_frames for other, name in frames]
            elif key in ("obs", "info", "policy"):
                values = [self.value(other, path) for stack in stacks for other in stack]
            else:
                values = [self.value(row, path) for row in rows]
            if depth > 1 and key in ("obs", "obs_next", "info", "policy"):
                shape = (depth, *shape)
            batch[path] = (np.stack(values) if values else np.zeros(0, dtype)).reshape(len(rows), *shape)
        return batch

    # -- units -------------------------------------------------------------------------------------------------------
    def nstep(self, row: Row, n_step: int, gamma: float) -> tuple[float | NDArray, float, Row]:
        """``(reward_sum, discount, last)`` over the rows that exist, at most ``n_step``."""
        rows = self.future(row)[:n_step]
        reward_sum = sum(gamma**k * np.float64(other.fields["rew",]) for k, other in enumerate(rows))
        return reward_sum, 0.0 if rows[-1].terminated else gamma ** len(rows), rows[-1]

    def unroll(self, row: Row, length: int) -> tuple[list[Row], int]:
        rows = self.future(row)[:length]
        return rows + [rows[-1]] * (length - len(rows)), len(rows)

    def window(self, row: Row, before: int, length: int) -> tuple[list[Row], list[bool]]:
        past, future = self.past(row)[:-1][-before:] if before else [], self.future(row)[:length]
        real = past + future
        front, back = before - len(past), length - len(future)
        rows = [real[0]] * front + real + [real[-1]] * back
        return rows, [False] * front + [True] * len(real) + [False] * back

    def goals(self, row: Row, horizon: int) -> list[Row]:
        """The rows whose achieved goal a relabelled ``row`` may take."""
        return self.future(row)[:horizon]

    # -- priorities --------------------------------------------------------------------------------------------------
    def update_priority(self, rows: Sequence[Row], priorities: Iterable[float]) -> int:
        """Gives how many were refused because their row is gone. The last of a duplicated row wins."""
        assert self.alpha is not None
        refused = 0
        for row, priority in zip(rows, priorities, strict=True):
            if not self.alive(row):
                refused += 1
                continue
            row.leaf = (priority + PRIORITY_EPSILON) ** self.alpha
            self.max_priority = max(self.max_priority, priority + PRIORITY_EPSILON)
        self.stale_updates += refused
        return refused

    def weights(self, rows: Sequence[Row]) -> NDArray[np.float64]:
        """``(leaf / smallest)^-beta``: the smallest of the buffer, or of the rows under ``weight_norm``."""
        leaves = np.array([row.leaf for row in rows])
        smallest = min(row.leaf for row in (rows if self.weight_norm else self.live()))
        return (leaves / smallest) ** -self.beta
