"""Transitions of environments that step together, in the engine, under the names and shapes that SB3 gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlfast._core import Replay, SchemaMismatch, discounted, randint, step_rows
from rlfast.data.batch.batch import Batch

Index: TypeAlias = NDArray[np.int64]
Obs: TypeAlias = Any
"""What an observation is made of: one array, or a dict of arrays."""

_FLOAT = np.dtype(np.float32)
NUMBERS = ("rewards", "dones", "timeouts")
_ENDS = [("dones",), ("timeouts",)]
_AT_END = ["obs_next", "dones", "timeouts"]
_MOST = 2**32 - 1


@dataclass(frozen=True)
class Leaf:
    """One array of a transition.

    :param dtype: of its column.
    :param shape: of one environment's row.
    :param reshape: rows may come in any shape of as many entries, as those of discrete spaces do.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    reshape: bool = False

    def rows(self, value: Any, envs: int) -> NDArray[Any]:
        """The value as ``[envs, *shape]``, cast and broadcast as NumPy's assignment to such an array does it."""
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


def _rows(leaves: ObsLeaves, value: Any, envs: int) -> Any:
    if isinstance(leaves, Leaf):
        return leaves.rows(value, envs)
    return {key: leaf.rows(value[key], envs) for key, leaf in leaves.items()}


class Columns:
    """A ring for each environment; all move on together.

    The engine keeps an observation once, whether or not it is also the next observation of the row before; see *Nothing
    is stored twice* in the design notes. ``done`` and ``timeout`` are columns like any other, which may be written to,
    so that each row says by itself where an episode ends.

    :param steps: rows of each environment at most.
    :param envs: environments.
    :param obs: the observation's array, or its arrays by name.
    :param act: the action's array.
    :param alpha: priority exponent; None for none.
    :param seed: of the draws by priority.
    :ivar cursor: the step to be written next.
    :raises MemoryError: with the bytes that would be needed.
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
        self.engine = self._engine(0)  # the snapshot brings its own random stream
        self.engine.restore(snapshot)

    # -- writing -----------------------------------------------------------------------------------------------------
    def add(self, obs: Obs, obs_next: Obs, actions: Any, rewards: Any, dones: Any, timeouts: Any) -> bool:
        """One row for each environment.

        :return: whether each environment's observation is the next one of the row before.
        :raises ValueError: a shape that does not fit; nothing is written then.
        :raises KeyError: an observation without one of its arrays; nothing is written then.
        """
        try:
            went_on = self.engine.record(obs, obs_next, actions, rewards, dones, timeouts)
        except SchemaMismatch:  # not exactly what the columns hold
            numbers = np.empty((3, self.envs), _FLOAT)
            numbers[0], numbers[1], numbers[2] = rewards, dones, timeouts
            obs, obs_next = _rows(self.obs, obs, self.envs), _rows(self.obs, obs_next, self.envs)
            went_on = self.engine.record(obs, obs_next, self.act.rows(actions, self.envs), *numbers)
        self.cursor = (self.cursor + 1) % self.steps
        return went_on

    def reset(self) -> None:
        """Forgets all rows."""
        self.engine.reset()
        self.cursor = 0

    # -- reading -----------------------------------------------------------------------------------------------------
    def rows(self, steps: Index, envs: Index | None) -> Index:
        """The engine's rows of steps of environments; no environments are given where there is one alone.

        :param steps: steps below 0 count from the end.
        :raises IndexError: a step that is not there.
        """
        return step_rows(steps, self.steps, envs)

    def take(self, rows: Index, keys: Sequence[str] | None = None) -> dict[str, Any]:
        """Fresh arrays of rows; a dict of arrays for ``obs`` and ``obs_next`` where observations are dicts.

        Actions are ``[B, dim]``, rewards and ``dones`` ``[B, 1]``. ``dones`` need ``timeouts`` beside them, at which
        they are 0.

        :param keys: which; None for all.
        :raises IndexError: a row that is not there.
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
        """Of the last row that each of ``rows`` reaches in ``n_steps`` steps of its episode: its ``obs_next``, the
        discounted sum of rewards until then, its ``dones`` (0 at a timeout), and the discount of what comes after; but
        for the first ``[B, 1]``.

        Flags end an episode, and so does the newest step, which has no future yet.

        :param normalize: what is done to rewards before they are summed.
        """
        rewards, last, before = self.engine.follow(rows, n_steps, ("rewards",), _ENDS)
        if normalize is not None:
            rewards = normalize(rewards)
        returns, discounts = discounted(rewards, before, *_powers(n_steps, gamma))
        ends = self.take(last, _AT_END)
        return ends["obs_next"], returns, ends["dones"], discounts

    def column(self, *path: str) -> NDArray[Any]:
        """A whole column, ``[steps, envs, *shape]``: the storage itself, or a copy where that is another one.

        Numbers and actions may be written to; observations are read-only.
        """
        flat = self.engine.view(path)
        return flat.reshape(self.envs, self.steps, *flat.shape[1:]).swapaxes(0, 1)

    def observation(self, root: str) -> Obs:
        """The columns of ``obs`` or ``obs_next``, in the structure of an observation."""
        if isinstance(self.obs, Leaf):
            return self.column(root)
        return {key: self.column(root, key) for key in self.obs}


def draw(bound: int, count: int) -> Index:
    """``np.random.randint(0, bound, count)``: the same draws from the same stream, at less cost."""
    if 0 < bound <= _MOST:
        return randint(np.random.mtrand.get_bit_generator(), bound, count)
    return np.random.randint(0, bound, size=count)


@cache
def _powers(n_steps: int, gamma: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The weights of ``n_steps`` rewards, and the discount after each. Powers as the host takes them, in float32."""
    counts = np.arange(n_steps)
    return gamma ** counts.astype(np.float32), gamma ** (counts + 1).astype(np.float32)
