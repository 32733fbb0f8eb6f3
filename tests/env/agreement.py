"""Random spaces, environments that reuse what they return, and what every backend must make of them."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from rlfast.env.spaces.batching import ARRAY_SPACES
from rlfast.utils import tree

FLOATS = (np.float16, np.float32, np.float64)
INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16)
NAMED = ("Box", "Discrete", "MultiDiscrete", "MultiBinary", "Text", "Dict", "Tuple", "Sequence")


def shape_of(rng):
    return tuple(rng.integers(1, 4, size=rng.integers(1, 3)).tolist())


def box_of(rng):
    """A Box with bounds that sums and differences do not hold exactly, or of integers."""
    shape = shape_of(rng)
    if rng.random() < 0.4:
        dtype = INTEGERS[rng.integers(len(INTEGERS))]
        limits = np.iinfo(dtype)
        low = rng.integers(max(limits.min, -(2**40)), min(limits.max, 2**40), shape, dtype=np.int64)
        width = rng.integers(0, 2 ** rng.integers(1, 40), shape)
        return spaces.Box(low.astype(dtype), np.minimum(low + width, limits.max - 1).astype(dtype), dtype=dtype)
    dtype = FLOATS[rng.integers(len(FLOATS))]
    scale = 10.0 ** rng.uniform(-3, 4 if dtype is np.float16 else 30)
    low, high = np.sort(rng.normal(scale=scale, size=(2, *shape)), axis=0).astype(dtype)
    return spaces.Box(low, high, dtype=dtype)


def counted_of(rng):
    dtype = INTEGERS[rng.integers(len(INTEGERS))]
    start = rng.integers(0 if np.dtype(dtype).kind == "u" else -9, 10)
    if rng.random() < 0.5:
        return spaces.Discrete(int(rng.integers(1, 6)), start=int(start), dtype=dtype)
    nvec = rng.integers(1, 6, shape_of(rng))
    return spaces.MultiDiscrete(nvec, start=np.full(nvec.shape, start), dtype=dtype)


def space_of(rng, kinds=NAMED, depth=2):
    """A random space of one of the kinds."""
    kind = kinds[rng.integers(len(kinds))]
    if depth == 0 and kind in ("Dict", "Tuple", "Sequence"):
        kind = "Box"
    seed = int(rng.integers(2**31))
    if kind == "Text":
        return spaces.Text(int(rng.integers(1, 6)), seed=seed)
    if kind == "MultiBinary":
        return spaces.MultiBinary(shape_of(rng), seed=seed)
    if kind == "Dict":
        parts = {f"part {k}": space_of(rng, kinds, depth - 1) for k in range(rng.integers(1, 4))}
        return spaces.Dict(parts, seed=seed)
    if kind == "Tuple":
        return spaces.Tuple([space_of(rng, kinds, depth - 1) for _ in range(rng.integers(1, 4))], seed=seed)
    if kind == "Sequence":
        return spaces.Sequence(space_of(rng, kinds, depth - 1), seed=seed)
    space = box_of(rng) if kind == "Box" else counted_of(rng)
    space.seed(seed)
    return space


def is_element(space, value):
    """Whether the space contains the value, and arrays have its dtypes."""
    if isinstance(space, spaces.Dict):
        return value.keys() == space.keys() and all(is_element(part, value[key]) for key, part in space.items())
    if isinstance(space, spaces.Tuple):
        return len(value) == len(space) and all(map(is_element, space, value))
    right = not isinstance(space, ARRAY_SPACES) or value.dtype == space.dtype
    return right and space.contains(value)


def widened(space, value):
    """The value with its arrays in wider dtypes, as policies give them."""
    if isinstance(space, spaces.Dict):
        return {key: widened(part, value[key]) for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(map(widened, space, value))
    if not isinstance(space, ARRAY_SPACES):
        return value
    wide = np.asarray(value, np.float64 if np.asarray(value).dtype.kind == "f" else np.int64)
    if isinstance(space, spaces.Box) and wide.dtype.kind == "i" and np.abs(wide).max() < 2**50:
        wide = wide + 0.0
    return wide[()]


def batched(space, values):
    """Actions in one array for each leaf."""
    if isinstance(space, spaces.Dict):
        return {key: batched(part, [value[key] for value in values]) for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(batched(part, [value[k] for value in values]) for k, part in enumerate(space))
    return np.stack(values) if isinstance(space, ARRAY_SPACES) else tree.object_array(values)


def written(kept, value):
    """Writes ``value`` into the arrays, dicts and lists of ``kept``, as far as they fit."""
    if isinstance(kept, np.ndarray) and isinstance(value, np.ndarray) and kept.shape == value.shape:
        kept[...] = value
        return kept
    if isinstance(kept, dict) and isinstance(value, dict):
        new = {key: written(kept.get(key), part) for key, part in value.items()}
        kept.clear()
        kept.update(new)
        return kept
    if isinstance(kept, list) and isinstance(value, list):
        kept[:] = value
        return kept
    if isinstance(kept, tuple) and isinstance(value, tuple):
        return tuple(written(kept[k] if k < len(kept) else None, part) for k, part in enumerate(value))
    return value


def spoil(value):
    """Overwrites the arrays of a value."""
    for leaf in tree.leaves(value):
        if isinstance(leaf, np.ndarray) and leaf.dtype != object:
            leaf[...] = 0


class Scripted(gym.Env):
    """An environment that shows one observation after the other, and ends its episodes at random.

    :param script: the observations, in steps and resets.
    :param reuses: whether it returns the same arrays, dicts and lists each time, and writes to actions given to it.
    """

    def __init__(self, observation_space, action_space, script, seed, reuses):
        self.observation_space, self.action_space = observation_space, action_space
        self.script, self.shown, self.time = script, 0, 0
        self.rng, self.reuses, self.kept = np.random.default_rng(seed), reuses, None
        self.strangers, self.steps = [], 0

    def answer(self, reward, terminated, truncated):
        time = self.time
        info = {
            "time": time,
            "list": [time] * (1 + time % 2),
            "array": np.full(2, time),
            "nested": {"of": [{"x": time}]},
        }
        answer = (tree.copied(self.script[self.shown]), reward, terminated, truncated, info)
        self.shown += 1
        if self.reuses:
            answer = self.kept = written(self.kept, answer)
        return answer

    def reset(self, seed=None, options=None):
        self.time = 0
        obs, *_, info = self.answer(np.zeros(()), False, False)
        return obs, info

    def step(self, action):
        self.time += 1
        self.steps += 1
        if action is not None and not is_element(self.action_space, action):
            self.strangers.append(repr(action))
        if self.reuses:
            spoil(action)
        over = self.rng.random() < 0.3
        ends = over and self.rng.random() < 0.5
        return self.answer(np.asarray(self.rng.normal()), ends, over and not ends)


def wanted_of(env, mode, steps):
    """What an environment must show: its first reset, each step as :func:`row_of` gives it, and later resets."""
    first, rows, resets = env.reset(), [], []
    over = False
    for _ in range(steps):
        if over and mode is AutoresetMode.NEXT_STEP:
            obs, info = env.reset()
            rows.append((obs, obs, 0.0, False, False, info, {}, False))
            over = False
            continue
        obs_next, rew, ends, cut, info = env.step(None)
        obs, final, over = obs_next, {}, ends or cut
        if over and mode is AutoresetMode.SAME_STEP:
            final = info
            obs, info = env.reset()
        elif over and mode is not AutoresetMode.NEXT_STEP:
            resets.append(env.reset())
        rows.append((obs, obs_next, float(rew), ends, cut, info, final, True))
    return first, rows, resets


def found_of(envs, mode, actions):
    """What each environment showed, in the form of :func:`wanted_of`, read when all steps are over."""
    obs, info = envs.reset_rows()
    steps, resets = [], []
    for given in actions:
        steps.append(envs.exchange(given))
        if mode in (None, AutoresetMode.DISABLED) and (ended := np.flatnonzero(steps[-1].done)).size:
            resets.append((ended.tolist(), *envs.reset_rows(ended)))
    own = [[] for _ in range(len(envs))]
    for ended, again, infos in resets:
        for i, one, other in zip(ended, tree.each(again), infos.dicts(), strict=True):
            own[i].append((one, other))
    firsts = list(zip(tree.each(obs), info.dicts(), strict=True))
    return [(firsts[i], [row_of(rows, i) for rows in steps], own[i]) for i in range(len(envs))]


def row_of(rows, k):
    """A row: ``(obs, obs_next, rew, terminated, truncated, info, final_info, valid)``."""
    final = {} if rows.final_info is None else rows.final_info.dicts()[k]
    valid = rows.valid is None or bool(rows.valid[k])
    obs, obs_next = tree.each(rows.obs)[k], tree.each(rows.obs_next)[k]
    flags = bool(rows.terminated[k]), bool(rows.truncated[k])
    return obs, obs_next, float(rows.rew[k]), *flags, rows.info.dicts()[k], final, valid


def same(one, other):
    """Whether nested values are equal, their arrays in dtypes, too."""
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, tuple | list):
        return isinstance(other, type(one)) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, str):
        return one == other
    one, other = np.asarray(one), np.asarray(other)
    return one.dtype == other.dtype and np.array_equal(one, other)
