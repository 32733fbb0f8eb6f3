"""The native module of rlfast. Its names are private; the public ones are in the Python packages."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, TypeAlias, TypeVar, final, overload

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

__all__ = [
    "AreaResize",
    "BatchBase",
    "ExportedPolicy",
    "FrameRing",
    "FrameStacks",
    "IndexOwner",
    "Lease",
    "NativeEnvs",
    "Network",
    "OutOfRange",
    "Replay",
    "RingMemory",
    "RingReader",
    "RingWriter",
    "SchemaMismatch",
    "SegmentTree",
    "Slab",
    "Unchanged",
    "UnpluggedShards",
    "WorkerEndpoint",
    "__version__",
    "answer_columns",
    "bootstrapped",
    "carried",
    "carry",
    "collect",
    "discounted",
    "end_with",
    "episodic_returns",
    "estimate",
    "explore",
    "frame_numbers",
    "get_num_threads",
    "grey",
    "integers_of_each",
    "multiplies",
    "multiply",
    "native_envs",
    "nested_batch",
    "own_answer",
    "plain_copy",
    "plain_rows",
    "randint",
    "set_num_threads",
    "shift",
    "step_rows",
    "uniform_below",
    "with_stacks",
]

__version__: str

_T = TypeVar("_T")
_Path: TypeAlias = tuple[str, ...]
"""The path of a leaf in a nested batch, such as ``("obs", "agent", "position")``."""
_Column: TypeAlias = tuple[_Path, np.dtype[Any], tuple[int, ...]]
"""A leaf's path, dtype and shape of one row."""
_Index: TypeAlias = NDArray[np.int64]

class SchemaMismatch(Exception):
    """Rows do not have exactly the structure, dtypes and shapes of the columns. Raised before anything is changed. The
    Python layer then converts the rows, adds columns, or raises an error for users."""

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
        storage: str = "ram",
    ) -> Replay:
        """:param batch: the class of nested values in results, and besides dict in rows; instances are made around a
        dict
        without calling ``__init__``. :param alpha: exponent of priorities; None for uniform sampling. :param storage:
        "ram", "lz4", "zstd", or a folder for columns in files."""

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
    def define(
        self,
        columns: Sequence[_Column],
        objects: Sequence[tuple[_Path, NDArray[np.object_]]] = ...,
        version: int | None = None,
        retired: Sequence[_Path] = ...,
        values: Sequence[tuple[_Path, bytes]] = ...,
    ) -> bool:
        """The first call lays out the rows; later calls add columns of zeros. ``objects`` are columns of objects, each
        an array of ``total`` rows that ``add`` and ``load`` write, and that results do not have. ``retired`` are paths
        whose columns, with all below them, give way to the new ones. ``values`` are the bytes of all rows of some new
        columns, instead of zeros. Returns False, without a change, if the columns do not have this ``version`` any
        more. Raises a MemoryError with the bytes if the columns do not fit."""
    @property
    def version(self) -> int:
        """How often the columns were changed."""
    def objects(self) -> list[tuple[tuple[str, ...], NDArray[np.object_]]]:
        """The columns of objects."""
    def hold(self, call: Callable[[], _T]) -> _T:
        """Returns ``call()``, during which no other thread changes rows or columns: those that want to wait. Calls of
        one thread may nest. Whatever the call raises, and wherever it is interrupted, others may change rows after
        it."""
    @property
    def links_next(self) -> bool:
        """Whether a row whose ``obs_next`` is None or missing gets the next row's ``obs``."""
    @property
    def finals(self) -> list[tuple[str, ...]]:
        """Without ``save_obs_next``, the paths of ``obs_next`` leaves that are stored for rows that end an episode."""
    def columns(self) -> list[_Column]: ...
    def nbytes(self) -> int:
        """Bytes used by the rows in memory or on disk, without reserved address space."""
    def __len__(self) -> int: ...
    def sizes(self) -> _Index:
        """Number of live rows of each ring."""
    def cursors(self) -> _Index:
        """Slot of the next row of each ring, counted from the start of the ring."""
    # -- writing -----------------------------------------------------------------------------------------------------
    def add(
        self, batch: Any, rings: Any = None, emptied: int | None = None
    ) -> tuple[_Index, NDArray[np.float64], _Index, _Index]:
        """Adds a row without an axis of rows to the ring ``rings`` (default 0), or one row along the first axis to each
        of ``rings``, of which negative ones count from the end. Returns ``(index, episode_return, episode_length,
        episode_start)``, of length 1 or ``len(rings)``. Return and length are 0 unless the row ends its episode, and
        the return is ``[rows, agents]`` for vector rewards. ``done`` is ignored, and ``obs_next`` with
        ``save_obs_next=False``. A ring with slots may occur several times. ``emptied`` is a ring that is reset in the
        same moment. Rows that do not have the form of the columns are converted; see ``convert_by``."""
    def append(self, *, obs: Any, act: Any, rew: Any, terminated: Any, truncated: Any, obs_next: Any = None) -> int:
        """Adds one row to ring 0 by keywords, which is the fastest way; returns its index."""
    def record(self, obs: Any, obs_next: Any, actions: Any, rewards: Any, dones: Any, timeouts: Any) -> bool:
        """Adds one row to each ring, with six columns defined in the order ``obs``, ``actions``, ``obs_next``,
        ``rewards``, ``dones``, ``timeouts``; the last three are one float32 each. Actions may have any shape of the
        same number of elements. The numbers may have other dtypes, be one number for all rows, or a list. Returns
        whether in each ring ``obs`` equals the ``obs_next`` of the row before."""
    def convert_by(
        self,
        convert: Callable[[Mapping[str, Any], int | None], tuple[int, dict[str, Any], Sequence[NDArray[np.object_]]]],
        always: bool = False,
    ) -> None:
        """Sets the function that converts rows for ``add`` and ``append``, instead of raising SchemaMismatch: those
        that do not have exactly the names, dtypes and shapes of the columns, or ``always`` all. It is called with the
        rows as they were given, and their number (None: a single row without an axis of rows), and returns the version
        of the columns that it converted them for, the numbers, and the rows of all columns of objects. Other threads
        see the numbers and the objects of a row, or neither."""
    def close_episode(self, ring: int) -> None:
        """Ends the running episode of a ring as truncated at its newest row."""
    def reset(self, ring: int | None = None, keep_statistics: bool = False) -> None: ...
    def load(
        self,
        fields: Mapping[str, Any],
        sizes: Sequence[int],
        cursors: Sequence[int],
        known: Sequence[bool] | None = None,
        objects: Sequence[NDArray[np.object_]] | None = None,
        keep: bool = False,
        cleared: dict[Any, Any] | None = None,
    ) -> None:
        """Replaces all rows by full-length columns (``total`` rows each, in storage order), in which the ``sizes[r]``
        rows
        before ``cursors[r]`` are live. ``define`` must have laid out the columns. Without ``save_obs_next``, ``known``
        flags the ends of episodes whose ``obs_next`` is stored: default all. ``objects`` are the columns of objects.
        With
        ``keep``, running episodes keep their statistics, and rows that stay live their priorities. ``cleared`` is a
        dict that is emptied in the same moment."""
    def has_obs_next(self, index: _Index) -> NDArray[np.bool_]:
        """Without ``save_obs_next``, whether each row ends an episode and has a stored ``obs_next``."""
    def running(self, ring: int) -> tuple[NDArray[np.float64] | float, int, int]:
        """Return and length so far, and first row (global index), of the ring's running episode."""
    def set_running(self, ring: int, episode_return: NDArray[np.float64] | float, length: int, start: int) -> None: ...
    # -- reading -----------------------------------------------------------------------------------------------------
    def take(
        self,
        index: _Index,
        keys: Sequence[str] | None = None,
        stack_num: int | None = None,
        out: Mapping[str, NDArray[Any]] | None = None,
        is_plain: bool = False,
    ) -> dict[str, Any]:
        """Returns new arrays of the rows at ``index``, whose shape they have as leading axes, nested as rows were.
        ``keys`` are top-level names; None means every column, ``done``, ``obs_next``, and empty ``info`` and ``policy``
        if there are none. ``stack_num`` applies to obs, obs_next, info and policy. Raises an IndexError for rows
        outside the storage, and with ``is_plain`` a SchemaMismatch if there are columns of objects, as ``sample``
        does."""
    def transitions(self, index: _Index, keys: Sequence[str] | None = None) -> dict[str, Any]:
        """Returns ``take`` of columns that ``record`` writes, for an ``index`` of one axis. ``rewards`` are ``[B, 1]``.
        If
        ``keys`` has ``timeouts``, ``dones`` are ``dones * (1 - timeouts)``, ``[B, 1]``, and ``timeouts`` are left
        out."""
    def sample(self, batch_size: int, out: Mapping[str, NDArray[Any]] | None = None) -> tuple[Any, _Index]:
        """``draw`` and ``take`` together: a batch, with ``weight`` if rows are drawn by priority, and its indices."""
    def draw(self, batch_size: int, ring: int | None = None) -> _Index:
        """Draws rows with replacement, uniformly over live rows (of one ring) or by priority; with ``sample_avail``,
        only
        rows with a whole stack. Raises a ValueError if there is none. The array records the generations of its rows."""
    def view(self, path: _Path) -> NDArray[Any]:
        """Returns a whole column, in which slots without a row are zero: a view of the storage if the column is stored
        in
        one piece (read-only for obs and flags), otherwise (obs_next, frames) a new array."""
    # -- episodes ----------------------------------------------------------------------------------------------------
    def prev(self, index: _Index) -> _Index: ...
    def next(self, index: _Index) -> _Index: ...
    def unfinished(self) -> _Index:
        """Newest row of each ring whose newest episode is running."""
    def chronological(self, ring: int | None = None, all: bool = False) -> _Index:
        """All live rows, ring by ring, oldest first; with ``sample_avail``, and unless ``all`` are wanted, only those
        with a whole stack."""
    def goals(self, index: _Index) -> _Index | None:
        """The goals that the index array records (see ``carry``), -1 for rows that were overwritten since they were
        drawn; None if it records none."""
    def episode_start(self, index: _Index) -> _Index:
        """Oldest live row of the episode of each row."""
    def episode_end(self, index: _Index) -> _Index:
        """Newest live row of the episode of each row."""
    def follow(
        self, index: _Index, length: int, value: _Path, ends: Sequence[_Path]
    ) -> tuple[NDArray[np.float32], _Index, _Index]:
        """Returns ``(values[B, length], last[B], before[B])`` for rows in which the float32 leaves ``ends`` mark the
        ends
        of episodes: the float32 leaf ``value`` of each row and of the rows after it in its ring, up to the first row in
        which one of ``ends`` is not 0, or the newest row, and then zeros; the last of these rows; and the number of
        rows
        before it."""
    def unroll(self, index: _Index, length: int) -> tuple[_Index, _Index]:
        """Returns ``(rows[B, length], count[B])``: each row and the rows after it in its episode, where the last one
        repeats
        past the end; and the number of rows without repetitions."""
    def window(self, index: _Index, before: int, length: int) -> tuple[_Index, NDArray[np.bool_]]:
        """Returns ``(rows[B, before + length], mask)``: ``before`` rows before each row and ``length`` rows from it on.
        A row
        outside the episode is replaced by the nearest one inside, and its mask is False."""
    def nstep(
        self, index: _Index, n_step: int, gamma: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], _Index]:
        """Returns ``(reward_sum, discount, last)``: the discounted sum of rewards of the k <= n_step rows that the
        episode
        has; gamma^k, or 0 if the last row is terminal; and the last row, with the goals that ``index`` records."""
    def hindsight(self, index: _Index, future_k: float, horizon: int) -> tuple[NDArray[np.bool_], _Index]:
        """Returns ``(relabel, goal)``: whether each row is relabelled, with probability 1 - 1/future_k, and the row
        whose
        achieved goal is its new goal: the row itself or one less than ``horizon`` steps later in its episode."""
    # -- priorities --------------------------------------------------------------------------------------------------
    @property
    def prioritized(self) -> bool: ...
    @property
    def tree(self) -> SegmentTree:
        """The sum tree of the priorities, not a copy. Raises an AttributeError if rows are drawn uniformly."""
    @property
    def stale_updates(self) -> int:
        """Number of priority updates that were ignored because their row had been overwritten."""
    @property
    def max_priority(self) -> float: ...
    @max_priority.setter
    def max_priority(self, value: float) -> None: ...
    def weights(self, index: _Index, normalize: bool | None = None) -> NDArray[np.float64]:
        """Returns importance weights, divided by the largest among them if ``normalize`` (None: ``weight_norm``)."""
    def update_priority(self, index: _Index, priority: NDArray[np.float64]) -> int:
        """Sets the leaves to (|priority| + eps)^alpha, and returns how many updates were ignored because their row had
        been
        overwritten. Raises a ValueError for NaN, infinity or a negative value, with its position, before any change."""
    # -- state -------------------------------------------------------------------------------------------------------
    def reseed(self, seed: int) -> None: ...
    def dump(self) -> bytes:
        """Returns a snapshot with checksums of the whole state, with random streams."""
    def restore(self, snapshot: bytes) -> None:
        """Restores a snapshot of ``dump``. Raises a ValueError for anything but a whole snapshot of the same
        capacities;
        nothing is changed then."""
    def save(self, path: str, extra: bytes | None = None) -> None:
        """Writes the snapshot to a temporary file beside ``path``, syncs it, and renames it to ``path``."""
    @staticmethod
    def read_header(path: str) -> tuple[list[int], bytes]:
        """Returns the capacities and ``extra`` of a saved snapshot, after checking their checksums."""
    def flush(self, extra: bytes) -> None:
        """Keeps all rows in the folder of the storage."""
    @staticmethod
    def newest_base(folder: str) -> str | None:
        """Returns the path of the newest snapshot that ``flush`` wrote to a folder."""
    def reopen(self, folder: str) -> int:
        """Replaces the rows by those that ``flush`` kept in a folder; returns how many later ones are gone."""
    def open(self, path: str) -> None:
        """Restores from a file written by ``save``."""

def grey(rgb: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
    """Write the luminance of an image ``[H, W, 3]`` to ``[H, W]``; equal to OpenCV's ``COLOR_RGB2GRAY``."""

@final
class AreaResize:
    """Resizes grey images to a smaller size, as OpenCV's ``INTER_AREA`` does; halves are rounded to even numbers.

    :param source: height and width of the images.
    :param target: height and width of the results.
    """

    def __new__(cls, source: tuple[int, int], target: tuple[int, int]) -> AreaResize: ...
    def __call__(
        self, frame: NDArray[np.uint8], out: NDArray[np.uint8], other: NDArray[np.uint8] | None = None
    ) -> None:
        """Resize ``frame``, or the greater of ``frame`` and ``other`` at each pixel, into ``out``."""

@final
class FrameStacks:
    """The owner of the memory of an array that :class:`FrameRing` made, by which a buffer recognises the array."""

@final
class FrameRing:
    """The newest frames of some environments, each stored once.

    Arrays of stacks are read-only views. What they show never changes, and :meth:`Replay.add` recognises their frames
    by number: of a stack that it has seen, it does not read the bytes.

    :param num_envs: number of environments, 1 or more.
    :param stack: number of frames of a stack, 1 to 16. At first they are zeros.
    :param shape: shape of a frame.
    :param dtype: dtype of a frame.
    """

    def __new__(cls, num_envs: int, stack: int, shape: Sequence[int], dtype: np.dtype[Any]) -> FrameRing: ...
    def push(
        self, frames: NDArray[Any], ids: _Index | None = None, fresh: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """Adds a frame for each of the environments ``ids`` (None for all), ``[K, *shape]``, and returns their stacks,
        ``[K, stack, *shape]``. Where ``fresh`` is True, an episode begins: the frame fills the stack."""

    def stacks(self, ids: _Index | None = None) -> NDArray[Any]:
        """Returns the stacks of the environments ``ids`` (None for all)."""

    def restore(self, stacks: NDArray[Any], ids: _Index | None = None) -> None:
        """Replaces the stacks of the environments ``ids`` (None for all)."""

def with_stacks(whole: NDArray[Any], ids: _Index, part: NDArray[Any]) -> NDArray[Any] | None:
    """Returns ``whole`` with the stacks of ``part`` in the rows ``ids``, as a new array; None unless both are arrays of
    a :class:`FrameRing`, of equal stacks."""

def frame_numbers(stacks: NDArray[Any]) -> NDArray[np.uint64] | None:
    """Returns the numbers of the frames, ``[K, stack]``; None unless it is an array that a :class:`FrameRing` made."""

@final
class Unchanged:
    """Whether modules of PyTorch are as they were when this object was made.

    :param attributes: dicts whose length counts.
    :param values: dicts and keys, whose value must stay the same object.
    :param tensors: dicts and keys of tensors, whose memory must stay the same. (A tensor without memory of its own must
        stay the same object.)
    :param modules: modules whose mode counts.
    :param hooks: containers of hooks: whether all are empty counts.
    """

    def __new__(
        cls,
        attributes: Sequence[dict[str, Any]],
        values: Sequence[tuple[dict[str, Any], str]],
        tensors: Sequence[tuple[dict[str, Any], str]],
        modules: Sequence[object],
        hooks: Sequence[object],
    ) -> Unchanged: ...
    @property
    def has_hooks(self) -> bool:
        """Whether there is a hook."""

    def is_current(self) -> bool: ...

@final
class UnpluggedShards:
    """The rows of RL Unplugged's shards of Atari games, in an order in which equal images stand side by side.

    :param folder: folder for a scratch file of images.
    :param skip_broken: whether broken records are left out; if not, they are errors.
    """

    def __new__(cls, folder: str | PathLike[str], skip_broken: bool) -> UnpluggedShards: ...
    def __len__(self) -> int: ...
    @property
    def skipped(self) -> list[str]:
        """Why records were left out, a sentence for each."""

    def open(self, path: str | PathLike[str]) -> None:
        """Open a shard, whose rows :meth:`read` adds."""

    def read(self, count: int) -> tuple[int, bool]:
        """Read at most ``count`` records. Returns the bytes of the file that were read, and whether it goes on."""

    def values(self, start: int, stop: int) -> dict[str, NDArray[Any]]:
        """The features that are no images, ``record``, and ``continues``: whether the next row surely follows."""

    def observations(self, start: int, stop: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """``o_t`` and ``o_tp1`` of rows, each ``[rows, 4, height, width]``, oldest image first."""

def plain_copy(value: object) -> Any:
    """Returns a copy of a number, text or array, or of a dict or tuple of such, that shares no array or container with
    ``value``; None for what Python code copies."""

def own_answer(answer: object) -> tuple[Any, Any, bool, bool, dict[str, Any]] | None:
    """Returns a copy of an environment's answer, by :func:`plain_copy`; None unless it is a tuple as ``step`` returns,
    with a number as its reward."""

def plain_rows(values: object) -> Any:
    """Returns arrays with a row for each environment, in a dict if the values are dicts of arrays; None for values that
    Python code stacks."""

def answer_columns(
    answers: Sequence[tuple[Any, ...]],
) -> tuple[list[Any], list[dict[str, Any]], tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]] | None]:
    """Returns the observations and the infos of the answers of environments; and their rewards, and whether episodes
    were terminated and truncated, or None unless these are numbers and truth values."""

def nested_batch(value: object, batch: type[BatchBase]) -> Any:
    """Returns a batch of a class for a dict, and for the dicts in it; anything else as it is."""

def get_num_threads() -> int:
    """Returns the largest number of threads that share work."""

def set_num_threads(n: int) -> None:
    """Sets the largest number of threads that share work; the number of cores is a second bound. Raises a ValueError
    below 1."""

def multiplies(tensor: object) -> bool:
    """Whether :func:`multiply` takes this: a tensor or parameter of PyTorch's own class with one to three axes, whose
    elements are float32 in memory, and are what it shows. False for one with a negative bit, sparse, empty, or freed.
    """

def multiply(out: Tensor, a: Tensor, b: Tensor, bias: Tensor | None = None) -> bool:
    """Writes ``a @ b``, or ``a @ b + bias``, into ``out``, on one thread.

    :param out: ``[i, k]``, or ``[m, i, k]`` for m products.
    :param a: ``[i, j]``, or ``[m, i, j]``.
    :param b: ``[j, k]``, or ``[m, j, k]``.
    :param bias: ``[k]``, or None.
    :return: whether it was done; False if :func:`multiplies` is false for a factor or the bias.
    :raises SchemaMismatch: for other shapes, or another ``out``.
    """

def randint(bit_generator: Any, bound: int, count: int) -> _Index:
    """Draws the numbers of ``np.random.randint(0, bound, count)`` from NumPy's bit generator."""

def integers_of_each(bit_generators: Sequence[Any], bound: int) -> _Index:
    """Draws the number of ``generator.integers(bound)`` from each of the bit generators."""

def uniform_below(bit_generator: Any, sizes: _Index) -> _Index:
    """Draws the numbers of ``(generator.random(len(sizes)) * sizes).astype(int)`` from a bit generator."""

def explore(
    bit_generator: Any, eps: float, actions: int, greedy: _Index, legal: NDArray[np.bool_] | None = None
) -> _Index:
    """Returns the ``greedy`` actions ``[B]``, each replaced with probability ``eps`` by a uniform one of ``0 ..
    actions``, or of those that are True in its row of ``legal[B, actions]``: the first action, if none is.
    It draws ``2 B`` numbers: first, for all actions, whether to explore; then, for all actions, the action to
    explore."""

def step_rows(steps: _Index, capacity: int, envs: _Index | None = None) -> _Index:
    """Returns the rows of steps of environments, whose rings have ``capacity`` rows each. Without ``envs`` there is one
    environment. Negative steps count from the end. Raises an IndexError for steps that do not exist."""

def discounted(
    rewards: NDArray[np.float32], before: _Index, powers: NDArray[np.float32], discounts: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """``(sums[B, 1], discounts[B, 1])``: of ``rewards[B, n]`` the first ``before[B] + 1``, each times its power
    ``[n]``, added as NumPy adds them; and ``discounts[before]``."""

@final
class IndexOwner:
    """The owner of the memory of an index array, which knows what was drawn. It is made by sampling alone."""

def carry(index: _Index, goals: _Index) -> _Index:
    """Returns the same rows in an array that records the row of each row's new goal (-1: its own goal)."""

def shift(index: _Index, by: int) -> _Index:
    """Returns ``index + by``, with the generations and goals that ``index`` records."""

def carried(index: _Index) -> _Index | None:
    """Returns the goals that an array of ``carry``, or a part of it, records; None if it records none."""

class OutOfRange(IndexError, ValueError, AssertionError):
    """A leaf or a mass is outside a segment tree. It is also an AssertionError, as in Tianshou."""

@final
class SegmentTree:
    """A sum tree over ``size`` leaves. Parents are always sums of their children, so errors do not add up."""

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

class BatchBase:
    """The base of ``rlfast.data.Batch``.

    ``__init__`` puts fields that are numbers, arrays of numbers or empty dicts into the instance's dict without running
    Python code; with anything else it calls the subclass's ``_init``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

def native_envs() -> list[tuple[str, int | None]]:
    """Returns the ids of the native environments, and the steps after which each truncates its episodes."""

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
    def description(self) -> str:
        """Describes one environment in JSON: ``observation`` and ``action`` are spaces, ``["discrete", n, start]``,
        ``["multi_discrete", counts]``, ``["box", low, high, shape, dtype]`` or ``["tuple", spaces]``; ``infos`` has the
        name, dtype and shape of each entry of an info, and ``options`` the name and default of each number that a reset
        takes as an option."""

    def reset(
        self, ids: NDArray[np.int64] | None, seeds: list[int | None], options: Sequence[float] | None = None
    ) -> tuple[NDArray[Any], _Told]:
        """Begins an episode in the environments ``ids`` (None: all): first observations, ``(rows, ...)``, and infos.
        ``options`` are values for all ``options`` of the description. ValueError if nothing can start so."""

    def step(
        self, actions: NDArray[Any], ids: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], _Told, _Events]:
        """Steps the environments ``ids`` (None: all): fresh arrays of observations, rewards, what terminated, what was
        truncated, infos, and what happened besides. SchemaMismatch for actions that are not exactly an array
        ``(rows, ...)`` of the environments' dtype."""

    def get_state(self, id: int) -> bytes:
        """Returns the complete state of environment ``id``."""

    def set_state(self, id: int, state: bytes) -> None:
        """Restores a state of ``get_state``. Raises a ValueError if it is impossible for the environment."""

@final
class Network:
    """The program of a network, whose weights are read from arrays at every pass.

    Observations are an array ``[B, ...]`` of single or double floats, flags, uint8 or int64; SchemaMismatch for
    anything else, and for another number of elements."""

    def __new__(cls, inputs: int, nodes: Sequence[tuple[Any, ...]]) -> Network:
        """:param inputs: the elements of one observation. :param nodes: node ``k`` computes slot ``k + 1`` from earlier
        slots, where slot 0 is the observation: ``("linear", slot, weight, bias or None, relu)`` with float32 arrays,
        ``("linear_turned", ...)`` likewise with weights ``[inputs, outputs]``, ``("conv", slot, weight, bias or None,
        window, groups, relu)`` with weights ``[filters, channels / groups, height, width]``, ``("max_pool", slot,
        window)`` and ``("mean_pool", slot, window)`` of images ``[channels, height, width]``, where a window is the
        int64 array of channels, and height and width of the image, the kernel, strides, the padding on each side (which
        counts as 0, or as minus infinity where the greatest number is sought) and dilations; ``("constant", array)``,
        ``("add", slot, slot)`` and likewise ``subtract``, ``multiply``, ``divide``, ``maximum`` and ``minimum``,
        ``("sum", slot, size)`` of groups and likewise ``mean``, ``max`` and ``min``, ``("softmax", slot, size)`` of
        groups, ``("expectation", slot, array)`` with the values of such a group, ``("normalize", slot, size, epsilon,
        centered, weight or None, bias or None)`` of groups, ``("one_hot", slot, size)`` of numbers below
        the size, ``("pick", slot, places)`` and ``("join", slots)`` with int64 arrays, or ``(function, slot,
        *numbers)`` with a function among ``relu``, ``leaky_relu``, ``tanh``, ``sigmoid``, ``silu``, ``elu``, ``gelu``,
        ``gelu_tanh``, ``softplus``, ``exp``, ``log``, ``sqrt``, ``square``, ``abs``, ``reciprocal``, ``clamp``,
        ``scale`` and ``shift``. ValueError for weights that do not fit."""

    @property
    def outputs(self) -> int:
        """The elements of the last slot."""

    @property
    def widths(self) -> list[int]:
        """The elements of each slot."""

    def forward(self, obs: NDArray[Any], slots: Sequence[int]) -> list[NDArray[np.float32]]:
        """Returns the numbers of some slots, ``[B, width]`` each."""

    def choose(self, obs: NDArray[Any], clocks: NDArray[np.float32] | None = None) -> _Index | None:
        """Returns the actions with the greatest outputs, ``[B]``, or with ``clocks[B, outputs]`` those with the
        greatest ``exp(output) / clock``; None where another rounding of the outputs could change an action, or an
        output is not finite."""

    def step(
        self, obs: NDArray[Any], slot: int, clocks: NDArray[np.float32] | None = None
    ) -> tuple[_Index, NDArray[np.float32]] | None:
        """Returns the actions of ``choose``, and the numbers of a slot from the same pass, ``[B, width]``."""

    def choose_one(self, obs: NDArray[Any]) -> int | None:
        """Returns the action with the greatest output for one observation, or None likewise."""

@final
class ExportedPolicy:
    """A trained policy from a file of ``rlfast export``; see :func:`rlfast.load_policy`."""

    def __new__(cls, path: str | PathLike[str]) -> ExportedPolicy:
        """ValueError for a file that is no policy, or one of a newer version; OSError if it cannot be read."""

    def __call__(self, obs: Any, *, deterministic: bool | None = None) -> Any:
        """Returns actions for the environment: of an observation of its shape an int for a Discrete space, otherwise an
        array of the shape of the space, and ``[B, ...]`` of several, ``[B, ...]``. ``deterministic`` is whether they
        are the best ones; False draws them, and None does what the trained policy does. ValueError for another shape,
        for actions that are not finite, or for another number of observations than there are hidden states; TypeError
        for observations that are no numbers."""

    def reset(self, rows: object = None) -> None:
        """Begins episodes: clears hidden states, of which a call has one for each observation.

        :param rows: the rows whose episodes begin: their numbers, or a flag for each. Default: all, and the next call
            may have another number of observations. IndexError for a row without a hidden state, ValueError for
            another number of flags, TypeError for anything else."""

    def seed(self, seed: int) -> None:
        """Restarts the random numbers: those that the trained policy draws after its own ``seed``."""

    @property
    def metadata(self) -> dict[str, Any]:
        """The description of the policy in its file; ``about`` names its environment and spaces."""

def collect(
    envs: NativeEnvs,
    replay: Replay,
    network: Network | None,
    obs: NDArray[np.float32],
    ready: _Index,
    limit: tuple[str, Any],
    explore: tuple[float, int, Any] | None = None,
    draws: NDArray[np.float32] | None = None,
    real: tuple[int, int | None, bool, bool, bool, tuple[NDArray[np.float32], NDArray[np.float32]] | None]
    | None = None,
    uniform: tuple[int, Any] | None = None,
) -> tuple[
    NDArray[np.float32],
    _Index,
    Any,
    int,
    NDArray[np.int64],
    tuple[NDArray[np.float64], _Index, _Index],
    bool,
    tuple[int, float] | None,
]:
    """Lets ``network`` act in the environments ``ready``, adds the transitions, and resets environments whose episode
    ended if they are still ready and do not reset themselves; for at most a twentieth of a second.

    :param network: None with ``uniform``, which acts in its place.
    :param obs: the newest observations of all environments, ``[N, width]``; not changed.
    :param ready: the environments that are stepped, ascending.
    :param limit: ``("steps", vector steps)``, ``("episodes", n)`` or ``("quotas", episodes[N])``, see
        :mod:`rlfast.data.collect.limits`.
    :param explore: the probability and the number of random actions, and the bit generator that they are drawn from as
        :func:`explore` does.
    :param draws: clocks as for ``Network.choose``, ``[vector steps, ready, outputs]``, or for real actions standard
        normal numbers, ``[vector steps, ready, size]``.
    :param real: for real actions, the slots of means and of deviations (None for the means themselves), whether actions
        are the hyperbolic tangents, whether environments receive them clipped to [-1, 1], whether these are then
        stretched to the environments' bounds, and these bounds, least and greatest numbers, ``[size]`` each, within
        which the actions are kept; None for actions as they are.
    :param uniform: the number of actions, and what they are drawn from: a list with the bit generator of each
        environment, as :func:`integers_of_each` draws, or one for all, also those that are not ready, as
        :func:`uniform_below` draws.
    :return: the newest observations, the environments that are still ready, what is left of the limit, the number of
        vector steps, the number of transitions of each environment, the returns and lengths of episodes that ended with
        the environments whose episode ended and that were not reset, whether it ended as a choice was None, and the
        environment and the reward after which it ended as that reward was not finite.
    :raises SchemaMismatch: the columns are not exactly those of such transitions. Nothing was changed."""

@final
class RingMemory:
    """Replay rings in memory without a name, which other processes can map."""

    @staticmethod
    def create(
        columns: Sequence[_Column], rings: int, capacity: int, text: bytes, batch: type[BatchBase]
    ) -> RingMemory:
        """Returns new memory. ``text`` describes it to other processes; ``capacity`` is that of each ring.

        :raises ValueError: a column that every row has is missing, or a number is 0.
        :raises MemoryError: there is no room."""
    @staticmethod
    def attach(file: int) -> RingMemory:
        """Maps the memory of another process by a file descriptor, which may be closed afterwards.

        :raises ValueError: the file is no such memory, or one of another version."""
    def fileno(self) -> int:
        """Returns the descriptor of its file, which is open as long as this object lives."""
    @property
    def rings(self) -> int: ...
    @property
    def capacity(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def text(self) -> bytes: ...

@final
class RingWriter:
    """Appends rows to some rings, of which it is the only writer while it lives."""

    def __new__(
        cls, memory: RingMemory, columns: Sequence[_Column], rings: Sequence[int], batch: type[BatchBase]
    ) -> RingWriter:
        """:raises IndexError: there is no such ring. :raises ValueError: a running process writes one of them."""
    def add(
        self, fields: dict[str, Any], places: NDArray[Any] | Sequence[int] | None = None
    ) -> tuple[_Index, NDArray[np.float64], _Index, _Index]:
        """Appends a row to each ring, which its place among those of the writer names (None: all); see
        :meth:`Replay.add`.

        :raises SchemaMismatch: the rows are not exactly those of the columns. Nothing was changed.
        :raises IndexError: another writer's ring. :raises RuntimeError: in a forked child."""
    def close_episodes(self, places: NDArray[Any] | Sequence[int] | None = None) -> None:
        """Truncates running episodes at their newest rows."""
    def reset(self, keep_statistics: bool) -> None:
        """Removes all rows of its rings."""
    def release(self) -> None:
        """Lets other processes write the rings."""

@final
class RingReader:
    """Draws rows of all rings, with priorities of its own."""

    def __new__(
        cls,
        memory: RingMemory,
        columns: Sequence[_Column],
        *,
        batch: type[BatchBase],
        stack_num: int = 1,
        n_step: int | None = None,
        gamma: float = 1.0,
        alpha: float | None = None,
        beta: float = 1.0,
        weight_norm: bool = True,
        seed: int = 0,
    ) -> RingReader:
        """:param n_step: sum so many rewards, with the discount ``gamma``; None for the row itself. :param alpha: draw
        by priority; None for uniform draws. :raises ValueError: an option is out of range."""
    def sample(self, batch_size: int) -> tuple[Any, _Index]:
        """Draws rows and returns them in new arrays, and their indices, which remember what was drawn.

        :raises ValueError: there is no row, or rows are overwritten faster than they are copied."""
    def take(self, index: _Index) -> Any:
        """Returns rows in new arrays: those that an index remembers, or those that are there now.

        :raises IndexError: one is not there, or was overwritten."""
    def draw(self, batch_size: int) -> _Index:
        """Draws rows without reading them."""
    def live(self) -> _Index:
        """Returns the rows that are there, ring by ring, oldest first."""
    def update_priority(self, index: _Index, priority: NDArray[np.float64]) -> int:
        """Sets priorities, and returns how many were ignored because their row was overwritten."""
    def sizes(self) -> _Index:
        """Returns the number of rows of each ring."""
    @property
    def prioritized(self) -> bool: ...
    @property
    def beta(self) -> float: ...
    @beta.setter
    def beta(self, value: float) -> None: ...
    @property
    def stale_updates(self) -> int: ...

@final
class Slab:
    """Shared memory in which a parent and its workers exchange requests to environments and their answers.

    An environment is idle, pending or answered. Its rows are the worker's while it is pending, the parent's otherwise.
    """

    def __new__(cls, starts: Sequence[int], data: int, *, banks: int = 1, pipes: bool = False, spins: int = 0) -> Slab:
        """:param starts: worker ``w`` owns the environments ``starts[w] .. starts[w + 1]``. :param data: bytes of rows,
        beside rewards and flags. :param banks: how many banks of observations there are; bank 0 is never lent.
        :param pipes: wake by pipes instead of futexes. :param spins: turns of a wait before it sleeps."""

    def files(self, worker: int) -> list[int]:
        """Returns the files for :meth:`WorkerEndpoint.attach` in another process."""
    def view(self, offset: int, dtype: np.dtype[Any], shape: Sequence[int], lease: Lease | None = None) -> NDArray[Any]:
        """Returns an array over the rows at ``offset``. With a lease, they stay lent while the array or a view of it
        lives.
        """
    def notes(self) -> NDArray[np.uint8]:
        """Returns an array over the notes of all environments."""
    def gather(self, ids: _Index | None) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], int]:
        """Returns rewards, terminated and truncated of answers (None: all), and the union of their notes."""
    def lend(self) -> Lease | None:
        """Lends a free bank; None if there is none."""
    def ask(self, ids: _Index | None, kind: int, bank: int) -> None:
        """Sends requests to environments (None: all) and wakes each of their workers once. RuntimeError, and no request
        is sent, if one is not idle."""
    def notify(self, worker: int) -> None:
        """Makes a worker read its channel."""
    def stop(self, worker: int) -> None:
        """Makes a worker close its environments."""
    def wait(self, needed: int, seconds: float) -> int:
        """Waits for answers, at most a twentieth of a second, and returns their number."""
    def answered(self) -> _Index:
        """Returns the environments whose answers have not been taken."""
    def pending(self) -> _Index:
        """Returns the environments that have not answered a request."""
    def take(self, ids: _Index | None) -> None:
        """Marks answers as taken, so that their environments are idle."""
    def running(self, worker: int) -> tuple[int, int, float]:
        """Returns the present activity of a worker, or that when it died: environment (-1: none), phase and seconds."""
    def abandon(self, worker: int) -> None:
        """Drops the unanswered requests of a worker that has ended. Answers stay."""
    def endpoint(self, worker: int, *, spins: int = 0) -> WorkerEndpoint:
        """Returns the endpoint of a worker in this process."""

@final
class Lease:
    """The right to the rows of one bank; it ends with the last array over them."""

    @property
    def bank(self) -> int: ...

@final
class WorkerEndpoint:
    """A worker's side of a slab."""

    @staticmethod
    def attach(
        files: Sequence[int], starts: Sequence[int], data: int, worker: int, *, spins: int = 0
    ) -> WorkerEndpoint:
        """Returns the endpoint of a worker at the slab of another process. The files may be closed afterwards."""
    @property
    def slab(self) -> Slab: ...
    def next(self) -> tuple[int, int, int] | None:
        """Environment (-1: a message, -2: the end), kind and bank of the next task; None when there was none for a
        while."""
    def enter(self, env: int, phase: int) -> None:
        """Sets the activity of the worker: environment (-1: none) and phase."""
    def answer(self, env: int, reward: float, terminated: bool, truncated: bool, note: int) -> None:
        """Answers for an environment whose observation has been written."""

def end_with(pid: int) -> None:
    """Ends this process, at once and whatever it is doing, when process ``pid`` has ended, or if it is gone already.
    ValueError for what cannot be the number of a process."""
