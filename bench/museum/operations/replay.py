"""What a replay buffer keeps.

Adapters: ``replay(capacity, example, **options)`` returns an object with ``add(row)``, ``sample(n)``, ``size()`` and,
if it can be saved, ``save(path)`` and ``load(path)``. ``sample`` returns arrays: ``obs``, ``act``, ``rew``,
``terminal`` (no bootstrapping from ``obs_next``) and ``obs_next``; ``example`` is a row with the shapes and dtypes.
The option ``compact`` asks for the variant that stores no observation twice, with ``time_limits`` if rows are
truncated, and ``stack`` for stacks of that many frames, oldest first. ``her(capacity, example, reward,
episode_length)`` returns the same for rows with goals, and ``sequences(capacity, length)`` with ``sample(n)`` of
lists of rows. ``hostile_file(folder, payload)`` writes a file with an object in it, and returns a function that loads
it with the library's defaults.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bench.museum.adapters import DoesNotApply
from bench.museum.operations.rows import Row, episodes, needs, number, scalar

__all__ = [
    "batch_of_every_size",
    "dtype_kept",
    "floats_kept",
    "frames_kept",
    "hindsight",
    "inputs_reused",
    "loading_runs_code",
    "lost_at_the_seam",
    "ring_order",
    "sample_of_an_empty_buffer",
    "sample_overwritten",
    "sample_written_to",
    "saved_and_continued",
    "sequences_of_one_episode",
    "stacks",
    "stored",
]


def filled(library: Any, capacity: int, rows: list[Row], **options: Any) -> Any:
    if options.get("compact"):
        options["time_limits"] = any(row.truncated for row in rows)
    buffer = needs(library, "replay")(capacity, rows[0], **options)
    for row in rows:
        buffer.add(row)
    return buffer


def until_terminal(count: int) -> list[Row]:
    """One whole episode."""
    return episodes("." * (count - 1) + "T")


def table(batch: dict[str, Any], field: str) -> dict[int, Any]:
    """The values of a field, by the number of the row, which is its action."""
    acts = np.asarray(batch["act"]).reshape(len(batch["act"]), -1)[:, 0]
    found: dict[int, Any] = {}
    for act, value in zip(acts, np.asarray(batch[field]), strict=True):
        found.setdefault(int(act), value.tolist())
    return dict(sorted(found.items()))


def numbers(values: dict[int, Any]) -> dict[int, Any]:
    return {key: scalar(value) for key, value in values.items()}


def stored(
    library: Any,
    *,
    capacity: int,
    ends: str,
    field: str,
    final: float | None = None,
    compact: bool = False,
    as_dict: bool = False,
) -> Any:
    """A field of every row."""
    rows = episodes(ends, final=final)
    if as_dict:
        rows = [
            row._replace(
                obs={"frame": row.obs, "goal": 10 * row.obs},
                obs_next={"frame": row.obs_next, "goal": 10 * row.obs_next},
            )
            for row in rows
        ]
    buffer = filled(library, capacity, rows, **({"compact": True} if compact else {}))
    batch = buffer.sample(64 * capacity)
    if as_dict:
        batch = {**batch, field: batch[field]["goal"]}
    return numbers(table(batch, field))


def stacks(
    library: Any, *, capacity: int, ends: str, stack: int, field: str = "obs", first: int = 0, rows: int | None = None
) -> Any:
    """The stack of each row, as the numbers of its frames."""
    buffer = filled(library, capacity, episodes(ends, first=first), stack=stack)
    found = list(table(buffer.sample(64 * capacity), field).items())
    return {key: " ".join(str(round(scalar(frame))) for frame in frames) for key, frames in found[:rows]}


def copies(batch: dict[str, Any]) -> dict[str, Any]:
    return {key: np.array(value) for key, value in batch.items() if not isinstance(value, dict)}


def sample_overwritten(library: Any, *, capacity: int) -> Any:
    """The fields of a sample that change when the ring is overwritten."""
    buffer = filled(library, capacity, episodes("." * capacity))
    batch = buffer.sample(4 * capacity)
    before = copies(batch)
    for row in episodes("." * (2 * capacity), first=100):
        buffer.add(row)
    after = copies(batch)
    return {"changed": [key for key in before if not np.array_equal(before[key], after[key])]}


def sample_written_to(library: Any, *, capacity: int) -> Any:
    """The buffer's observations after a sample was written to."""
    buffer = filled(library, capacity, until_terminal(capacity))
    for value in buffer.sample(4 * capacity).values():
        array = np.asarray(value)
        if array.flags.writeable:
            array[...] = 77
    return numbers(table(buffer.sample(64 * capacity), "obs"))


def inputs_reused(library: Any, *, capacity: int) -> Any:
    """What the buffer holds if an environment writes all observations into one array."""
    obs, obs_next = number(0), number(0)
    buffer = needs(library, "replay")(capacity, episodes(".")[0])
    for row in episodes("." * capacity):
        obs[...], obs_next[...] = row.obs, row.obs_next
        buffer.add(row._replace(obs=obs, obs_next=obs_next))
    obs[...] = obs_next[...] = 77
    batch = buffer.sample(64 * capacity)
    return {"obs": numbers(table(batch, "obs")), "obs_next": numbers(table(batch, "obs_next"))}


def dtype_kept(library: Any, *, field: str, dtype: str, values: list[Any]) -> Any:
    """The dtype and values of a column stored as ``dtype``."""
    rows = [
        row._replace(**{field: np.array(value, dtype)})
        for row, value in zip(until_terminal(len(values)), values, strict=True)
    ]
    if field == "obs":
        rows = [row._replace(obs_next=row.obs) for row in rows]
    if field == "rew":
        rows = [row._replace(rew=float(np.asarray(row.rew))) for row in rows]
    batch = filled(library, len(values), rows).sample(64 * len(values))
    column = np.asarray(batch[field])
    found = {tuple(np.asarray(value).reshape(-1).tolist()) for value in column}
    return {"dtype": str(column.dtype), "values": sorted(list(value) for value in found)}


def floats_kept(library: Any, *, dtype: str, bits: list[int]) -> Any:
    """The bits of stored floats, as returned."""
    unsigned = np.dtype(f"u{np.dtype(dtype).itemsize}")
    rows = []
    for row, pattern in zip(until_terminal(len(bits)), bits, strict=True):
        value = np.array([pattern], unsigned).view(dtype)
        rows.append(row._replace(obs=value, obs_next=value))
    batch = filled(library, len(bits), rows).sample(64 * len(bits))
    column = np.ascontiguousarray(batch["obs"])
    if column.dtype != np.dtype(dtype):
        return {"dtype": str(column.dtype)}
    return sorted({int(value) for value in column.reshape(-1).view(unsigned)})


def frames_kept(library: Any, *, capacity: int, count: int, kind: str, compact: bool = False) -> Any:
    """The rows whose frames are returned unchanged."""
    random = np.random.default_rng(0)
    frames = [
        random.integers(0, 256, (12, 12), np.uint8) if kind == "noise" else np.zeros((12, 12), np.uint8)
        for _ in range(count + 1)
    ]
    rows = [Row(frames[n], n, 0.0, False, False, frames[n + 1]) for n in range(count)]
    batch = filled(library, capacity, rows, **({"compact": True} if compact else {})).sample(64 * capacity)
    obs, obs_next = table(batch, "obs"), table(batch, "obs_next")
    return sorted(n for n in obs if obs[n] == frames[n].tolist() and obs_next[n] == frames[n + 1].tolist())


def ring_order(library: Any, *, capacity: int, count: int) -> Any:
    """The size of a ring after each row, and its rows at the end."""
    buffer = needs(library, "replay")(capacity, episodes(".")[0])
    sizes = []
    for row in episodes("." * count):
        buffer.add(row)
        sizes.append(int(buffer.size()))
    return {"sizes": sizes, "rows": list(table(buffer.sample(64 * capacity), "obs"))}


def lost_at_the_seam(library: Any, *, capacity: int, count: int) -> Any:
    """The next observation of each row of a compact ring that has wrapped around."""
    batch = filled(library, capacity, episodes("." * count), compact=True).sample(64 * capacity)
    return numbers(table(batch, "obs_next"))


def batch_of_every_size(library: Any, *, sizes: list[int], capacity: int) -> Any:
    """Whether a batch of each size is complete and its fields belong together."""
    buffer = filled(library, capacity, until_terminal(capacity))
    whole = []
    for size in sizes:
        batch = buffer.sample(size)
        obs, act = (np.asarray(batch[key], np.float64).reshape(size, -1)[:, 0] for key in ("obs", "act"))
        whole.append(bool(len(obs) == size and np.array_equal(obs, act)))
    return whole


def sample_of_an_empty_buffer(library: Any, *, capacity: int) -> Any:
    """The number of rows sampled from an empty buffer."""
    batch = needs(library, "replay")(capacity, episodes(".")[0]).sample(4)
    return {"rows": len(np.asarray(batch["obs"]))}


def saved_and_continued(
    library: Any, *, capacity: int, before: int, after: int, priorities: list[float] | None = None
) -> Any:
    """A ring that is saved after ``before`` rows, loaded, and gets ``after`` more."""
    if priorities is not None:
        buffer = needs(library, "prioritized")(capacity, 1.0, 1.0)
    else:
        buffer = needs(library, "replay")(capacity, episodes(".")[0])
    if not hasattr(buffer, "save"):
        raise DoesNotApply("buffers are not saved")
    for row in episodes("." * before):
        buffer.add(row)
    if priorities is not None:
        buffer.update(buffer.slots(range(before)), np.array(priorities))
    with tempfile.TemporaryDirectory() as folder:
        buffer.save(Path(folder, "buffer"))
        buffer = buffer.load(Path(folder, "buffer"))
        for row in episodes("." * after, first=before):
            buffer.add(row)
        if priorities is None:
            batch = buffer.sample(64 * capacity)
            return {"size": int(buffer.size()), "rows": list(table(batch, "obs"))}
        drawn = np.concatenate([buffer.sample(1000)["act"].reshape(-1) for _ in range(20)])
        return {int(row): round(float((drawn == row).mean()), 2) for row in np.unique(drawn)}


class Payload:
    """What a hostile pickle holds."""

    def __init__(self, target: str) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.mkdir, (self.target,)


def loading_runs_code(library: Any) -> Any:
    """Whether loading a buffer file in the library's own format runs code from it."""
    hostile = needs(library, "hostile_file")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "it ran")
        load = hostile(Path(folder), Payload(str(target)))
        try:
            load()
        except Exception:
            if not target.exists():
                raise
        return {"ran": target.exists()}


# -- hindsight and sequences ------------------------------------------------------------------------------------------


def goal_row(episode: int, time: int, last: bool) -> Row:
    """A row whose goals name its episode and time, so that a new goal tells where it comes from."""

    def observation(at: int) -> dict[str, np.ndarray]:
        return {
            "observation": np.array([at], np.float32),
            "achieved_goal": np.array([episode, at], np.float32),
            "desired_goal": np.array([-1.0, -1.0], np.float32),
        }

    return Row(observation(time), time, -1.0, False, last, observation(time + 1))


def goal_reward(achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
    """0 where the goal is met, else -1."""
    return np.where((np.asarray(achieved) == np.asarray(desired)).all(axis=-1), 0.0, -1.0).astype(np.float32)


def faults_of_goals(batch: dict[str, Any], reached_goals: set[tuple[int, int]]) -> set[str]:
    """What is wrong with a sample of rows with new goals."""
    found: set[str] = set()
    columns = (
        batch["obs"]["achieved_goal"],
        batch["obs"]["desired_goal"],
        batch["obs_next"]["achieved_goal"],
        batch["rew"],
    )
    for own, goal, reached, reward in zip(*(np.asarray(column) for column in columns), strict=True):
        if (goal == -1).all():
            continue
        found.add("some goals are new")
        if goal[0] != own[0]:
            found.add("a goal of another episode")
        elif goal[1] < own[1]:
            found.add("a goal of the past")
        if (round(float(goal[0])), round(float(goal[1]))) not in reached_goals:
            found.add("a goal that was never reached")
        if float(np.reshape(reward, ())) != (0.0 if (goal == reached).all() else -1.0):
            found.add("a reward of another goal")
    return found


def hindsight(library: Any, *, capacity: int, lengths: list[int], last_is_running: bool = False) -> Any:
    """Faults of hindsight goals; ``some goals are new`` is not a fault."""
    buffer = needs(library, "her")(capacity, goal_row(0, 0, False), goal_reward, max(lengths))
    reached: set[tuple[int, int]] = set()
    for episode, length in enumerate(lengths, start=1):
        for time in range(length):
            ends = time == length - 1 and not (last_is_running and episode == len(lengths))
            buffer.add(goal_row(episode, time, ends))
            reached |= {(episode, time), (episode, time + 1)}
    return sorted(faults_of_goals(buffer.sample(2000), reached))


def sequences_of_one_episode(library: Any, *, capacity: int, lengths: list[int], length: int) -> Any:
    """Faults of sequences of ``length`` rows."""
    buffer = needs(library, "sequences")(capacity, length)
    for episode, count in enumerate(lengths, start=1):
        for time in range(count):
            obs, after = np.array([episode, time], np.float32), np.array([episode, time + 1], np.float32)
            buffer.add(Row(obs, 0, 0.0, False, time == count - 1, after))
    wrong: set[str] = set()
    for rows in buffer.sample(300):
        shown = np.asarray(rows)
        if len({row[0] for row in shown.tolist()}) > 1:
            wrong.add("rows of two episodes")
        elif (np.diff(shown[:, 1]) != 1).any():
            wrong.add("rows that do not follow each other")
        if not len(shown):
            wrong.add("an empty sequence")
    return sorted(wrong)
