"""Rows for random programs: observations of many kinds that follow each other, shift, or do neither."""

from dataclasses import dataclass

import numpy as np

from oracle.replay import Fields, Path

Kind = dict[Path, tuple[str, tuple[int, ...]]]

OBSERVATIONS: dict[str, Kind] = {
    "vector": {("obs",): ("f4", (3,))},
    "scalar": {("obs",): ("i8", ())},
    "flags": {("obs",): ("?", (2,))},
    "half": {("obs",): ("f2", (5,))},
    "complex": {("obs",): ("c8", (2,))},
    "wide": {("obs",): ("f4", (70,))},
    "double": {("obs",): ("f8", (17,))},
    "empty": {("obs",): ("f4", (2, 0))},
    "image": {("obs",): ("u1", (4, 3, 2))},
    "wide image": {("obs",): ("u1", (4, 12, 11))},
    "picture": {("obs",): ("u1", (33, 32))},
    "two pictures": {("obs", "left"): ("f4", (17, 16)), ("obs", "right"): ("u1", (33, 32)), ("obs", "id"): ("i8", ())},
    "last image": {("obs",): ("u1", (34, 32, 4))},
    "last colours": {("obs",): ("u1", (19, 19, 6))},
    "two frames": {("obs",): ("f4", (2, 3))},
    "nested": {("obs", "a"): ("f8", (2,)), ("obs", "b", "c"): ("i4", ()), ("obs", "b", "d"): ("?", (3,))},
    "cameras": {("obs", "camera"): ("u1", (3, 4, 4)), ("obs", "depth"): ("f4", (2, 3)), ("obs", "state"): ("f4", (2,))},
    "two cameras": {
        ("obs", "last"): ("f2", (17, 31, 2)),
        ("obs", "camera"): ("u1", (3, 16, 17)),
        ("obs", "id"): ("i8", ()),
    },
    "goal": {
        ("obs", "observation"): ("f4", (3,)),
        ("obs", "achieved_goal"): ("f4", (2,)),
        ("obs", "desired_goal"): ("f4", (2,)),
    },
}
OBJECT_OBSERVATIONS: dict[str, Kind] = {
    "label": {("obs",): ("O", ())},
    "labelled": {("obs", "state"): ("f4", (3,)), ("obs", "label"): ("O", ()), ("obs", "two", "labels"): ("O", (2,))},
}
ACTIONS: dict[str, Kind] = {
    "discrete": {("act",): ("i8", ())},
    "continuous": {("act",): ("f4", (6,))},
    "nested": {("act", "move"): ("i8", (2,)), ("act", "aim"): ("f4", (1,))},
}
LATE: Kind = {
    ("info", "score"): ("i8", ()),
    ("policy", "hidden", "cell"): ("f4", (2,)),
    ("logp",): ("f8", ()),
    ("info", "time", "left"): ("f4", (1,)),
    ("info", "label"): ("O", ()),
}

LABELS = ("won", "lost", None)
FOLLOW = ("follow", "follow", "follow", "fresh", "near", "repeat", "mixed")
ADVANCE = ("shift", "shift", "fresh", "same", "near shift", "mixed")
ENDS = ("", "", "", "", "terminated", "truncated", "both")


@dataclass(frozen=True)
class Step:
    """One transition of one ring: how its observation comes about, how its next one does, and whether it ends."""

    ring: int
    seed: int
    obs: str = "follow"
    obs_next: str = "shift"
    end: str = ""


def value(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Draws mostly one of few values, so that rows are often equal, and sometimes any bits, NaN payloads included."""
    if np.dtype(dtype).kind == "O":
        return (
            np.array(LABELS, object)[rng.integers(0, 3, shape)] if shape else np.array(LABELS[rng.integers(3)], object)
        )
    if np.dtype(dtype).kind != "b" and rng.random() < 0.15:
        return np.frombuffer(rng.bytes(int(np.prod(shape)) * np.dtype(dtype).itemsize), dtype).reshape(shape).copy()
    return np.asarray(rng.integers(0, 3, shape) * (rng.random() < 0.9)).astype(dtype)


def near(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """The array with one bit changed (objects: with other objects)."""
    if array.dtype.kind == "O":
        return value(rng, "O", array.shape)
    bits = bytearray(array.tobytes())
    if bits:
        bits[int(rng.integers(len(bits)))] ^= 1
    return np.frombuffer(bytes(bits), array.dtype).reshape(array.shape).copy()


def shift(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """Returns a stack without its oldest frame and with a new one."""
    if array.ndim < 1:
        return value(rng, array.dtype.str, array.shape)
    if array.ndim == 3 and len(array) > 16:  # along the last axis
        frame = 3 if array.shape[-1] % 3 == 0 else 1
        return np.concatenate([array[..., frame:], value(rng, array.dtype.str, array.shape)[..., :frame]], -1)
    return np.concatenate([array[1:], value(rng, array.dtype.str, array.shape)[:1]])


def observe(rng: np.random.Generator, how: str, kind: Kind, previous: Fields | None) -> Fields:
    """The observation of a row, given the ``obs_next`` of the row before it in its ring."""
    result = {}
    for path, (dtype, shape) in kind.items():
        fresh = value(rng, dtype, shape)
        choice = str(rng.choice(FOLLOW[:-1])) if how == "mixed" else how
        if choice == "repeat" and fresh.ndim:
            fresh[:] = fresh[:1]
        if previous is not None and choice in ("follow", "near"):
            fresh = previous[path] if choice == "follow" else near(rng, previous[path])
        result[path] = fresh
    return result


def advance(rng: np.random.Generator, how: str, obs: Fields) -> Fields:
    """The next observation, given this one; under the path of this one."""
    result = {}
    for path, array in obs.items():
        choice = str(rng.choice(ADVANCE[:-1])) if how == "mixed" else how
        match choice:
            case "same":
                result[path] = array
            case "shift":
                result[path] = shift(rng, array)
            case "near shift":
                result[path] = near(rng, shift(rng, array))
            case _:
                result[path] = value(rng, array.dtype.str, array.shape)
    return result


def transition(step: Step, obs: Kind, rest: Kind, agents: int, previous: Fields | None) -> tuple[Fields, Fields]:
    """A whole row, and what the next row's observation may follow."""
    rng = np.random.default_rng(step.seed)
    now = observe(rng, step.obs, obs, previous)
    later = advance(rng, step.obs_next, now)
    fields = now | {("obs_next", *path[1:]): array for path, array in later.items()}
    fields["rew",] = np.asarray(rng.integers(-4, 5, (agents,) if agents else ()) / 2.0)
    fields["terminated",] = np.asarray(step.end in ("terminated", "both"))
    fields["truncated",] = np.asarray(step.end in ("truncated", "both"))
    fields |= {path: value(rng, dtype, shape) for path, (dtype, shape) in rest.items()}
    return fields, later
