"""The native half of rlfast. Everything here is an engine part; the public names live in the Python packages."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, final, overload

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Lease",
    "NativeEnvs",
    "OutOfRange",
    "Replay",
    "SchemaMismatch",
    "SegmentTree",
    "Settling",
    "Slab",
    "WorkerEndpoint",
    "__version__",
    "bootstrapped",
    "carried",
    "carry",
    "discounted",
    "end_with",
    "episodic_returns",
    "estimate",
    "explore",
    "get_num_threads",
    "integers_of_each",
    "native_envs",
    "randint",
    "set_num_threads",
    "shift",
    "step_rows",
    "uniform_below",
]

__version__: str

_Path: TypeAlias = tuple[str, ...]
"""Where a leaf stands in a nested batch: ``("obs", "agent", "position")``."""
_Column: TypeAlias = tuple[_Path, np.dtype[Any], tuple[int, ...]]
"""A leaf's path, dtype and shape of one row."""
_Index: TypeAlias = NDArray[np.int64]

class SchemaMismatch(Exception):
    """What was given is not exactly what the columns hold. Raised before anything is changed; the Python layer
    then converts the rows, adds late columns, or raises the error meant for people."""

@final
class Replay:
    """The replay engine: typed columns over one or more rings.

    Rows are addressed by global index: ring ``r`` owns ``offsets[r] .. offsets[r] + capacities[r]``.
    """

    def __new__(
        cls,
        capacities: Sequence[int],
        *,
        batch: type[Any],
        save_obs_next: bool = True,
        stack_num: int = 1,
        sample_avail: bool = False,
        alpha: float | None = None,
        beta: float = 1.0,
        weight_norm: bool = True,
        seed: int = 0,
        storage: str | None = None,
    ) -> Replay:
        """:param batch: the class of nested values, besides dict, in and out: results are instances made around a dict,
        without calling ``__init__``. :param alpha: priority exponent, None for uniform sampling. :param storage: folder
        for file-backed columns."""

    # -- structure ---------------------------------------------------------------------------------------------------
    @property
    def capacities(self) -> list[int]: ...
    @property
    def offsets(self) -> list[int]: ...
    @property
    def total(self) -> int:
        """Sum of the capacities."""
    stack_num: int
    sample_avail: bool
    beta: float
    weight_norm: bool
    def define(self, columns: Sequence[_Column], foreign: Sequence[_Path] = ...) -> None:
        """First call: lays out the rows. Later calls add zero-filled columns. ``foreign`` paths are object leaves that
        the caller keeps; they are skipped in ``add`` and absent from results. MemoryError (with the bytes) when it
        cannot fit."""
    @property
    def links_next(self) -> bool:
        """Whether a row whose ``obs_next`` is None or missing gets the next row's ``obs``."""
    @property
    def finals(self) -> list[tuple[str, ...]]:
        """Without ``save_obs_next``: what ``add`` and ``load`` take for the rows that end an episode."""
    def columns(self) -> list[_Column]: ...
    def nbytes(self) -> int:
        """Bytes of the rows that are held in memory or on disk (not reserved address space)."""
    def __len__(self) -> int: ...
    def sizes(self) -> _Index:
        """Rows held by each ring."""
    def cursors(self) -> _Index:
        """Next slot to be written in each ring, ring-local."""
    # -- writing -----------------------------------------------------------------------------------------------------
    def add(
        self, fields: Mapping[str, Any], rings: _Index | None = None
    ) -> tuple[_Index, NDArray[np.float64], _Index, _Index]:
        """One row (``rings=None``: ring 0, unbatched leaves) or one row for each entry of ``rings``.

        Returns ``(index, episode_return, episode_length, episode_start)``, all of length 1 or ``len(rings)``; return
        and length are 0 where the episode goes on, and the return is ``[rows, agents]`` for vector rewards. ``done``,
        and ``obs_next`` under ``save_obs_next=False``, are ignored; a ring may be named several times, but one of
        capacity 0 never."""
    def append(self, *, obs: Any, act: Any, rew: Any, terminated: Any, truncated: Any, obs_next: Any = None) -> int:
        """One row of ring 0 by keywords, the quickest way in; gives its index."""
    def record(self, obs: Any, obs_next: Any, actions: Any, rewards: Any, dones: Any, timeouts: Any) -> bool:
        """One row for each ring, in the six columns of these names, defined in the order ``obs``, ``actions``,
        ``obs_next``, ``rewards``, ``dones``, ``timeouts``; the last three are one float32 each.

        Actions may have any shape of as many entries; numbers may be of other dtypes, one for all rows, or a list.
        Returns whether in each ring ``obs`` was the ``obs_next`` of the row before."""
    def on_mismatch(self, careful: Callable[[dict[str, Any]], int], always: bool = False) -> None:
        """What ``append`` calls, and whose answer it gives, for a row that is not exactly what the columns hold, in the
        place of raising SchemaMismatch; with ``always``, for every row."""
    def close_episode(self, ring: int) -> None:
        """Ends the running episode of a ring as truncated at its newest row."""
    def reset(self, ring: int | None = None, keep_statistics: bool = False) -> None: ...
    def load(
        self,
        fields: Mapping[str, Any],
        sizes: Sequence[int],
        cursors: Sequence[int],
        known: Sequence[bool] | None = None,
    ) -> None:
        """Replaces all rows by full-length columns (``total`` rows each, in storage order), of which ``sizes[r]`` rows
        before ``cursors[r]`` are live. ``define`` must have laid out the columns. Without ``save_obs_next``, ``known``
        says of which rows that end an episode ``obs_next`` is to be kept: default all."""
    def keeps_next(self, index: _Index) -> NDArray[np.bool_]:
        """Without ``save_obs_next``: whether each row ends an episode and it is kept what it led to."""
    def running(self, ring: int) -> tuple[NDArray[np.float64] | float, int, int]:
        """Return so far, length so far and start (global index) of the ring's running episode."""
    def set_running(self, ring: int, episode_return: NDArray[np.float64] | float, length: int, start: int) -> None: ...
    # -- reading -----------------------------------------------------------------------------------------------------
    def take(
        self,
        index: _Index,
        keys: Sequence[str] | None = None,
        stack_num: int | None = None,
        out: Mapping[str, NDArray[Any]] | None = None,
    ) -> dict[str, Any]:
        """Fresh arrays of the rows at ``index`` (any shape; the result's leading axes), nested as they came in.

        ``keys``: top-level names; None means every column, ``done``, ``obs_next``, and empty ``info`` and ``policy``
        when there are none. ``stack_num`` applies to obs, obs_next, info and policy. IndexError for rows outside the
        storage."""
    def transitions(self, index: _Index, keys: Sequence[str] | None = None) -> dict[str, Any]:
        """``take`` of what ``record`` writes, ``index`` of one axis: ``rewards`` are ``[B, 1]``, and so are ``dones``
        where ``timeouts`` are asked for, which are left out: ``dones * (1 - timeouts)``."""
    def sample(self, batch_size: int, out: Mapping[str, NDArray[Any]] | None = None) -> tuple[Any, _Index]:
        """``draw`` and ``take`` in one, as an instance of the batch class; with ``weight`` when prioritized."""
    def draw(self, batch_size: int, ring: int | None = None) -> _Index:
        """Anchors with replacement: uniform over live rows (of one ring), or by priority; only rows with a full stack
        under ``sample_avail``. ValueError when there is none. The array remembers the generations of its slots."""
    def view(self, path: _Path) -> NDArray[Any]:
        """The whole column, unfilled rows zero. A view of the storage where it is stored as such (read-only for obs and
        flags), else (obs_next, de-duplicated frames) a fresh array."""
    def set_column(self, path: _Path, values: NDArray[Any]) -> None:
        """Overwrites a whole stored column; obs, obs_next and flags go through ``load``."""
    # -- episodes ----------------------------------------------------------------------------------------------------
    def prev(self, index: _Index) -> _Index: ...
    def next(self, index: _Index) -> _Index: ...
    def unfinished(self) -> _Index:
        """Newest row of each ring whose episode is running."""
    def chronological(self, ring: int | None = None) -> _Index:
        """All live rows, oldest first, ring by ring; with ``sample_avail`` only those with a full stack."""
    def episode_start(self, index: _Index) -> _Index:
        """Oldest live row of the episode of each row."""
    def episode_end(self, index: _Index) -> _Index:
        """Newest live row of the episode of each row."""
    def follow(
        self, index: _Index, length: int, value: _Path, ends: Sequence[_Path]
    ) -> tuple[NDArray[np.float32], _Index, _Index]:
        """``(values[B, length], last[B], before[B])`` for rows that say by leaves of their own where an episode ends:
        the float32 leaf ``value`` of each row and those after it in its ring, up to the first in which a float32 leaf
        of ``ends`` is not 0, or the newest, and zeros past that; the last of these rows; how many lie before it."""
    def unroll(self, index: _Index, length: int) -> tuple[_Index, _Index]:
        """``(rows[B, length], count[B])``: each row and those that follow it in its episode; past the end the last
        repeats."""
    def window(self, index: _Index, before: int, length: int) -> tuple[_Index, NDArray[np.bool_]]:
        """``(rows[B, before + length], mask)``: up to ``before`` rows of the episode ahead of each row, then ``length``
        from it. Rows outside the episode repeat the nearest one inside and are masked False."""
    def nstep(
        self, index: _Index, n_step: int, gamma: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], _Index]:
        """``(reward_sum, discount, last)``: sum of gamma^k r over the k <= n_step rows that exist inside the episode;
        gamma^k, or 0 if the last row is terminal; and the last row (it inherits what ``index`` carries)."""
    def hindsight(self, index: _Index, future_k: float, horizon: int) -> tuple[NDArray[np.bool_], _Index]:
        """``(relabel, goal)``: whether each row is relabelled (probability 1 - 1/future_k) and the row, at or after it
        in its episode and less than ``horizon`` later, whose achieved goal is taken."""
    # -- priorities --------------------------------------------------------------------------------------------------
    @property
    def prioritized(self) -> bool: ...
    @property
    def tree(self) -> SegmentTree:
        """The sum tree of the prioritized sampler (shared, not a copy); AttributeError without one."""
    @property
    def stale_updates(self) -> int:
        """Priority updates refused because their slot had been overwritten."""
    @property
    def max_priority(self) -> float: ...
    @max_priority.setter
    def max_priority(self, value: float) -> None: ...
    def weights(self, index: _Index, normalize: bool | None = None) -> NDArray[np.float64]:
        """Importance weights, divided by the largest among them under ``normalize`` (None: ``weight_norm``)."""
    def update_priority(self, index: _Index, priority: NDArray[np.float64]) -> int:
        """Sets (|priority| + eps)^alpha; gives how many were refused as stale. ValueError on NaN, infinity or a
        negative value (naming its place) before anything is changed."""
    # -- what an index array carries -----------------------------------------------------------------------------------
    def stamp(self, index: _Index) -> _Index:
        """The same rows in an array that remembers the current generations."""
    # -- state -------------------------------------------------------------------------------------------------------
    def reseed(self, seed: int) -> None: ...
    def dump(self) -> bytes:
        """Everything, random streams included, as a checksummed snapshot."""
    def restore(self, snapshot: bytes) -> None:
        """The reverse; ValueError on anything that is not a whole snapshot of the same capacities, with nothing
        changed."""
    def save(self, path: str, extra: bytes | None = None) -> None:
        """The snapshot to a temporary file beside ``path``, synced, then renamed over it."""
    @staticmethod
    def read_header(path: str) -> tuple[list[int], bytes]:
        """Capacities and ``extra`` of a saved snapshot, checked."""
    def open(self, path: str) -> None:
        """Restores from a file written by ``save``."""

def get_num_threads() -> int:
    """How many threads share large work at the most."""

def set_num_threads(n: int) -> None:
    """Bounds them; there are never more than cores. ValueError below 1."""

def randint(bit_generator: Any, bound: int, count: int) -> _Index:
    """What ``np.random.randint(0, bound, count)`` would draw from its bit generator, whose stream moves as far."""

def integers_of_each(bit_generators: Sequence[Any], bound: int) -> _Index:
    """What ``generator.integers(bound)`` would draw from each of the bit generators, one after the other, whose streams
    move as far."""

def uniform_below(bit_generator: Any, sizes: _Index) -> _Index:
    """What ``(generator.random(len(sizes)) * sizes).astype(int)`` would draw, whose stream moves as far."""

def explore(bit_generator: Any, eps: float, actions: int, greedy: _Index) -> _Index:
    """Each of the ``greedy`` actions ``[B]``, or with probability ``eps`` one of ``0 .. actions`` instead, all alike: a
    fresh array. The stream moves by ``2 B`` numbers: whether to explore, for all, then where to, for all."""

def step_rows(steps: _Index, capacity: int, envs: _Index | None = None) -> _Index:
    """The rows of steps of environments that have rings of ``capacity`` rows each, one after the other; of the only
    environment without ``envs``. Steps below 0 count from the end; IndexError for those that are not there."""

def discounted(
    rewards: NDArray[np.float32],
    before: _Index,
    powers: NDArray[np.float32],
    discounts: NDArray[np.float32],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """``(sums[B, 1], discounts[B, 1])``: of ``rewards[B, n]`` the first ``before[B] + 1``, each times its power
    ``[n]``, added as NumPy adds them; and ``discounts[before]``."""

def carry(index: _Index, goals: _Index) -> _Index:
    """The same rows in an array that remembers, for each, the row its goal comes from (-1: its own goal)."""

def shift(index: _Index, by: int) -> _Index:
    """The rows ``by`` further on; the array remembers what ``index`` does."""

def carried(index: _Index) -> _Index | None:
    """The goals given to ``carry`` (also for slices of its result), or None."""

class OutOfRange(IndexError, ValueError, AssertionError):
    """A leaf or a mass outside a segment tree. An AssertionError as well, since that is what Tianshou raises."""

@final
class SegmentTree:
    """A sum tree over ``size`` leaves; every parent is summed anew from its children, so nothing drifts."""

    def __new__(cls, size: int) -> SegmentTree: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int, /) -> float: ...
    @overload
    def __getitem__(self, index: NDArray[np.integer[Any]] | Sequence[int], /) -> NDArray[np.float64]: ...
    def __setitem__(
        self, index: int | NDArray[np.integer[Any]] | Sequence[int], value: float | NDArray[Any] | Sequence[float], /
    ) -> None: ...
    def reduce(self, start: int = 0, end: int | None = None) -> float: ...
    @overload
    def get_prefix_sum_idx(self, value: float) -> int: ...
    @overload
    def get_prefix_sum_idx(self, value: NDArray[Any] | Sequence[float]) -> NDArray[np.int64]: ...
    def __reduce__(self) -> tuple[type[SegmentTree], tuple[int], NDArray[np.float64]]: ...
    def __setstate__(self, leaves: NDArray[np.float64], /) -> None: ...

# Arrays of one shape, time first; floats all float32 or all float64; flags bool. rlfast.functional says the rest.
def estimate(
    name: str,
    floats: tuple[NDArray[Any] | None, ...],
    flags: tuple[NDArray[np.bool_], NDArray[np.bool_] | None],
    numbers: tuple[float, ...],
    /,
) -> Any:
    """Runs ``gae``, ``discounted_returns``, ``nstep_returns`` or ``vtrace`` on floats, ``(terminated, truncated)`` and
    numbers in the order of the function's arguments: an array, or for ``vtrace`` two."""

def episodic_returns(
    rewards: NDArray[Any],
    values: NDArray[Any] | None,
    next_values: NDArray[Any] | None,
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    places: NDArray[np.int64],
    unfinished: Sequence[int] | NDArray[np.int64],
    gamma: float,
    gae_lambda: float,
    /,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def bootstrapped(
    sums: NDArray[np.float64], discounts: NDArray[np.float64], next_values: NDArray[Any], /
) -> NDArray[Any]:
    """``sums[B] + discounts[B] * next_values[B, M]`` in the dtype of the latter, float32 or float64, which are not read
    where the discount is 0."""

class Settling:
    """The base of ``rlfast.data.Batch``.

    ``__init__`` puts fields that are numbers, arrays of numbers or empty dicts into the instance's dict without running
    Python code; with anything else it calls the subclass's ``_init``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

def native_envs() -> list[tuple[str, int | None]]:
    """Ids of the native environments, and the steps after which each truncates its episodes."""

_Told: TypeAlias = NDArray[np.float64] | None
"""The entries of the infos side by side, ``(rows, numbers)``; None where there are none."""
_Events: TypeAlias = tuple[NDArray[np.int64], NDArray[Any] | None, _Told] | None
"""Rows in which an environment was reset; if that was in the step that ended its episode, with the final
observations and infos, one row each."""

@final
class NativeEnvs:
    """Environments in Rust that step together. IndexError for ids that do not exist or come twice, RuntimeError for a
    step outside an episode, ValueError for an illegal action; nothing has changed then."""

    def __new__(
        cls,
        id: str,
        num_envs: int,
        autoreset: str,
        max_episode_steps: int | None = None,
        arguments: dict[str, Any] | None = None,
    ) -> NativeEnvs:
        """:param autoreset: a value of Gymnasium's ``AutoresetMode``. :param max_episode_steps: None for that of the
        registry, -1 for no limit."""

    @property
    def observation_space(self) -> tuple[Any, ...]:
        """One environment's observations: ``("discrete", n, start)``, ``("multi_discrete", counts)``,
        ``("box", low, high, shape, dtype)`` or ``("tuple", spaces)``."""

    @property
    def action_space(self) -> tuple[Any, ...]:
        """One environment's actions, likewise."""

    @property
    def info_fields(self) -> list[tuple[str, str, list[int]]]:
        """Name, dtype and shape of each entry of one environment's info."""

    @property
    def reset_options(self) -> list[tuple[str, float]]:
        """Names and defaults of the numbers that a reset takes as options."""

    def reset(
        self, ids: NDArray[np.int64] | None, seeds: list[int | None], options: Sequence[float] | None = None
    ) -> tuple[NDArray[Any], _Told]:
        """Begins an episode in the environments ``ids`` (None: all): first observations, ``(rows, ...)``, and infos.
        ``options`` are values for all of ``reset_options``. ValueError if nothing can start so."""

    def step(
        self, actions: NDArray[Any], ids: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], _Told, _Events]:
        """Steps the environments ``ids`` (None: all): fresh arrays of observations, rewards, what terminated, what was
        truncated, infos, and what happened besides. SchemaMismatch for actions that are not exactly an array
        ``(rows, ...)`` of the environments' dtype."""

    def get_state(self, id: int) -> bytes:
        """All that decides what environment ``id`` will do."""

    def set_state(self, id: int, state: bytes) -> None:
        """Puts back what ``get_state`` gave. ValueError if no such environment can be in that state."""

@final
class Slab:
    """Shared memory in which a parent and its workers exchange what environments are asked and answer.

    An environment is idle, asked or answered. Its rows are the worker's while it is asked, the parent's otherwise.
    """

    def __new__(cls, starts: Sequence[int], data: int, *, banks: int = 1, pipes: bool = False, spins: int = 0) -> Slab:
        """:param starts: worker ``w`` owns the environments ``starts[w] .. starts[w + 1]``. :param data: bytes of rows,
        beside rewards and flags. :param banks: how many banks of observations there are; bank 0 is never lent.
        :param pipes: wake by pipes instead of futexes. :param spins: turns of a wait before it sleeps."""

    def files(self, worker: int) -> list[int]:
        """What another process needs for :meth:`WorkerEndpoint.attach`."""
    def view(self, offset: int, dtype: np.dtype[Any], shape: Sequence[int], lease: Lease | None = None) -> NDArray[Any]:
        """An array over the rows at ``offset``; with a lease, they stay lent as long as it or a view of it lives."""
    def notes(self) -> NDArray[np.uint8]:
        """The notes of all, as an array over them."""
    def gather(self, ids: _Index | None) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], int]:
        """Rewards, terminated, truncated in answers (None: of all), and the bits of their notes together."""
    def lend(self) -> Lease | None:
        """Lends a bank that nobody holds."""
    def ask(self, ids: _Index | None, kind: int, bank: int) -> None:
        """Asks environments (None: all) and wakes each of their workers once. RuntimeError, and none is asked, when one
        is not idle."""
    def mail(self, worker: int) -> None:
        """Tells a worker that a message is in its channel."""
    def stop(self, worker: int) -> None:
        """Tells a worker to close its environments."""
    def wait(self, needed: int, seconds: float) -> int:
        """Waits for answers, for a twentieth of a second at most; how many are there."""
    def answered(self) -> _Index:
        """Environments whose answers wait to be taken."""
    def asked(self) -> _Index:
        """Environments that owe an answer."""
    def take(self, ids: _Index | None) -> None:
        """Answers have been taken: their environments are idle."""
    def running(self, worker: int) -> tuple[int, int, float]:
        """Environment (-1: none), phase and seconds that a worker is at, or was when it died."""
    def abandon(self, worker: int) -> None:
        """Forgets what a worker that has ended was asked. Answers stay."""
    def endpoint(self, worker: int, *, spins: int = 0) -> WorkerEndpoint:
        """A worker's place, in this process."""

@final
class Lease:
    """The right to the rows of one bank; it ends with the last array over them."""

    @property
    def bank(self) -> int: ...

@final
class WorkerEndpoint:
    """A worker's place at a slab."""

    @staticmethod
    def attach(
        files: Sequence[int], starts: Sequence[int], data: int, worker: int, *, spins: int = 0
    ) -> WorkerEndpoint:
        """At the slab of another process. The files may be closed afterwards."""
    @property
    def slab(self) -> Slab: ...
    def next(self) -> tuple[int, int, int] | None:
        """Environment (-1: mail, -2: the end), kind and bank of what is to be done; None when there was nothing for a
        while."""
    def enter(self, env: int, phase: int) -> None:
        """What is at work from now on; -1: none."""
    def answer(self, env: int, reward: float, terminated: bool, truncated: bool, note: int) -> None:
        """Answers for an environment whose observation is written."""

def end_with(pid: int) -> None:
    """Ends this process, at once and whatever it is doing, when process ``pid`` has ended, or if it is gone already.
    ValueError for what cannot be the number of a process."""
