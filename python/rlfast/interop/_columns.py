"""Storage for the transitions of environments that step together, with the names and shapes of Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlfast._core import Replay, SchemaMismatch, discounted, randint, step_rows
from rlfast.data.batch.batch import Batch

Index: TypeAlias = NDArray[np.int64]
Obs: TypeAlias = NDArray[Any] | Mapping[str, NDArray[Any]]
"""An observation: one array, or a dict of arrays."""

_FLOAT = np.dtype(np.float32)
NUMBERS = ("rewards", "dones", "timeouts")
_ENDS = [("dones",), ("timeouts",)]
_AT_END = ["obs_next", "dones", "timeouts"]
_MOST = 2**32 - 1


@dataclass(frozen=True)
class Leaf:
    """The dtype and shape of one array of a transition.

    :param dtype: the dtype of the column.
    :param shape: the shape of one environment's row.
    :param reshape: whether rows of another shape with as many entries are accepted, as for discrete spaces.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    reshape: bool = False

    def rows(self, value: object, envs: int) -> NDArray[Any]:
        """Converts a value to ``[envs, *shape]``, with the casts and the broadcasting of an assignment in NumPy."""
        shape = (envs, *self.shape)
        array = np.asarray(value)
        if self.reshape:
            array = array.reshape(shape)
        if array.dtype == self.dtype and array.shape == shape:
            return np.ascontiguousarray(array)
        result = np.empty(shape, self.dtype)
        result[...] = array
        return result


ObsLeaves: TypeAlias = Leaf | Mapping[str, Leaf]


def _columns(root: str, leaves: ObsLeaves) -> list[tuple[tuple[str, ...], np.dtype[Any], tuple[int, ...]]]:
    if isinstance(leaves, Leaf):
        return [((root,), leaves.dtype, leaves.shape)]
    return [((root, key), leaf.dtype, leaf.shape) for key, leaf in leaves.items()]


def _rows(leaves: ObsLeaves, value: Obs, envs: int) -> Any:
    if isinstance(leaves, Leaf):
        return leaves.rows(value, envs)
    return {key: leaf.rows(value[key], envs) for key, leaf in leaves.items()}


class Columns:
    """A ring buffer for each environment; all have the same write position.

    The engine stores an observation once, also where it is the next observation of the row before; see *Nothing is
    stored twice* in the design notes. ``dones`` and ``timeouts`` are ordinary columns, which users may write to, so the
    ends of episodes are read from these columns.

    :param steps: the capacity for each environment, in rows.
    :param envs: the number of environments.
    :param obs: the array of an observation, or its arrays by name.
    :param act: the array of an action.
    :param alpha: the priority exponent; None for no priorities.
    :param seed: the seed of draws by priority.
    :ivar cursor: the step that is written next.
    :raises MemoryError: there is not enough memory; the message has the bytes that are needed.
    """

    def __init__(
        self, steps: int, envs: int, obs: ObsLeaves, act: Leaf, *, alpha: float | None = None, seed: int = 0
    ) -> None:
        self.steps, self.envs, self.obs, self.act, self.alpha = steps, envs, obs, act, alpha
        self.cursor = 0
        self.engine = self._engine(seed)

    def _engine(self, seed: int) -> Replay:
        engine = Replay([self.steps] * self.envs, batch=Batch, alpha=self.alpha, seed=seed)
        numbers = [((name,), _FLOAT, ()) for name in NUMBERS]
        engine.define(
            [*_columns("obs", self.obs), *_columns("actions", self.act), *_columns("obs_next", self.obs), *numbers]
        )
        return engine

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["engine"]
        return state | {"snapshot": self.engine.dump()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        snapshot = state.pop("snapshot")
        self.__dict__.update(state)
        self.engine = self._engine(0)  # the snapshot has the state of the random generator
        self.engine.restore(snapshot)

    # -- writing -----------------------------------------------------------------------------------------------------
    def add(
        self, obs: Obs, obs_next: Obs, actions: ArrayLike, rewards: ArrayLike, dones: ArrayLike, timeouts: ArrayLike
    ) -> bool:
        """Adds one row for each environment.

        :param obs: observations ``[envs, ...]``, or a dict of them.
        :param obs_next: next observations.
        :param actions: actions ``[envs, ...]``.
        :param rewards: rewards ``[envs]``.
        :param dones: whether episodes ended, ``[envs]``.
        :param timeouts: whether they ended by truncation, ``[envs]``.
        :return: whether each observation equals the next observation of the row before.
        :raises ValueError: a shape does not fit; nothing is written then.
        :raises KeyError: an observation lacks one of its arrays; nothing is written then.
        """
        try:
            continues = self.engine.record(obs, obs_next, actions, rewards, dones, timeouts)
        except SchemaMismatch:  # not exactly the dtypes and shapes of the columns
            numbers = np.empty((3, self.envs), _FLOAT)
            numbers[0], numbers[1], numbers[2] = rewards, dones, timeouts
            obs, obs_next = _rows(self.obs, obs, self.envs), _rows(self.obs, obs_next, self.envs)
            continues = self.engine.record(obs, obs_next, self.act.rows(actions, self.envs), *numbers)
        self.cursor = (self.cursor + 1) % self.steps
        return continues

    def reset(self) -> None:
        """Deletes all rows."""
        self.engine.reset()
        self.cursor = 0

    # -- reading -----------------------------------------------------------------------------------------------------
    def draw(self, count: int, filled: int, *, skips_newest: bool = False) -> Index:
        """Draws steps uniformly and with replacement, with the same draws from ``np.random`` as the host.

        :param count: how many.
        :param filled: the number of steps that are stored.
        :param skips_newest: whether the host never draws the step at the cursor, which it loses to save memory.
        :return: the steps.
        :raises ValueError: there is nothing to draw.
        """
        if filled == 0:
            raise ValueError("there is nothing to sample: no transition has been added yet")
        if skips_newest and filled == self.steps > 1:
            return (draw(filled - 1, count) + (1 + self.cursor)) % filled
        return draw(filled, count)

    def any_env(self, steps: Index) -> Index:
        """Returns the row of a randomly drawn environment for each step."""
        return self.rows(steps, None if self.envs == 1 else draw(self.envs, len(steps)))

    def rows(self, steps: Index, envs: Index | None) -> Index:
        """Converts steps and environments to the row indices of the engine.

        :param steps: the steps; negative ones count from the end.
        :param envs: the environment of each step; None if there is only one environment.
        :return: the row indices.
        :raises IndexError: a step does not exist.
        """
        return step_rows(steps, self.steps, envs)

    def take(self, rows: Index, keys: Sequence[str] | None = None) -> dict[str, Any]:
        """Copies rows.

        Actions are ``[B, dim]``, rewards and ``dones`` ``[B, 1]``. ``dones`` are 0 at timeouts.

        :param rows: the row indices, ``[B]``.
        :param keys: the columns; None for all. ``dones`` must be requested together with ``timeouts``.
        :return: new arrays by name; dicts of arrays for ``obs`` and ``obs_next`` if observations are dicts.
        :raises IndexError: a row does not exist.
        """
        fields = self.engine.transitions(rows, keys)
        if not isinstance(self.obs, Leaf):
            for key in ("obs", "obs_next"):
                if key in fields:
                    fields[key] = fields[key].__dict__
        return fields

    def nstep(
        self,
        rows: Index,
        n_steps: int,
        gamma: float,
        normalize: Callable[[NDArray[np.float32]], NDArray[np.float32]] | None = None,
    ) -> tuple[Obs, NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """Computes n-step transitions.

        A transition ends after ``n_steps`` steps, at the end of the episode, or at the newest step.

        :param rows: the rows at which the transitions begin, ``[B]``.
        :param n_steps: the largest number of steps.
        :param gamma: the discount factor.
        :param normalize: applied to the rewards before they are summed; None for nothing.
        :return: of the last row of each transition, ``obs_next``; the discounted sum of rewards; ``dones`` of the last
            row (0 at timeouts); and the discount of the next value. All but the first are ``[B, 1]``.
        """
        rewards, last, before = self.engine.follow(rows, n_steps, ("rewards",), _ENDS)
        if normalize is not None:
            rewards = normalize(rewards)
        returns, discounts = discounted(rewards, before, *_powers(n_steps, gamma))
        ends = self.take(last, _AT_END)
        return ends["obs_next"], returns, ends["dones"], discounts

    def column(self, *path: str) -> NDArray[Any]:
        """Returns a whole column ``[steps, envs, *shape]``.

        Rewards, flags and actions are views of the storage, which may be written to. Observations are read-only.

        :param path: the name of the column, and for dict observations the key.
        """
        flat = self.engine.view(path)
        return flat.reshape(self.envs, self.steps, *flat.shape[1:]).swapaxes(0, 1)

    def observation(self, root: str) -> Obs:
        """Returns the column or the dict of columns of ``obs`` or ``obs_next``."""
        if isinstance(self.obs, Leaf):
            return self.column(root)
        return {key: self.column(root, key) for key in self.obs}


def draw(bound: int, count: int) -> Index:
    """Draws as ``np.random.randint(0, bound, count)`` does, with equal results, but quicker."""
    if 0 < bound <= _MOST:
        return randint(np.random.mtrand.get_bit_generator(), bound, count)
    return np.random.randint(0, bound, size=count)


@cache
def _powers(n_steps: int, gamma: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Returns the weights of ``n_steps`` rewards, and the discount after each, in float32 as the host computes them."""
    counts = np.arange(n_steps)
    return gamma ** counts.astype(np.float32), gamma ** (counts + 1).astype(np.float32)
