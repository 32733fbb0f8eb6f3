"""What both sides of the shared memory agree upon."""

from __future__ import annotations

import os
import pickle
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AutoresetMode

from rlfast.env.process.layout import Array, Node

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

# What an environment is asked, or a worker says that it does.
STEP, RESET, REPLACE, METHOD = 1, 2, 3, 4
"""``REPLACE`` is a reset in the place of a step: it answers as if the episode had ended there."""
PHASES = {STEP: "step", RESET: "reset", REPLACE: "reset", METHOD: "a method"}

# Bits of an answer's note.
EXTRA = 1  # a record of what has no place in the arrays
FAILED = 2  # the record is of an exception
ONLY_RESET = 4  # NEXT_STEP: no transition
AGAIN = 8  # SAME_STEP: the episode ended and another has begun

MAIL, STOP = -1, -2  # in the place of an environment's number

EXTRA_BYTES = 2048
"""Space of an environment's record in the shared memory; larger ones go through a file."""
_FILE_BYTES = 1 << 36  # where the next environment's records begin in that file, which has holes
_ALIGN = 64


@dataclass(frozen=True)
class Plan:
    """Which rows lie where. Equal arguments give the same plan in every process."""

    obs: Node
    action: Node
    starts: list[int]
    """Worker ``w`` owns the environments ``starts[w] .. starts[w + 1]``."""
    mode: AutoresetMode
    banks: int
    """How many times observations are there."""
    strict: bool
    """Whether observations that do not fit their layout are errors; if not, they travel pickled."""

    @property
    def envs(self) -> int:
        """How many environments there are."""
        return self.starts[-1]


class Places:
    """The arrays of a plan: actions, final observations, records, and each bank of observations."""

    def __init__(self, plan: Plan) -> None:
        self.obs, self.action = plan.obs, plan.action
        self.size = 0
        rows = plan.envs
        self._actions = self._rows(self.action, rows)
        self._finals = self._rows(self.obs, rows) if plan.mode is AutoresetMode.SAME_STEP else []
        self._records = self._place((rows, EXTRA_BYTES), np.dtype(np.uint8)), self._place((rows,), np.dtype(np.int64))
        self._banks = [self._rows(self.obs, rows) for _ in range(plan.banks)]
        self.bank_bytes = sum(int(np.prod(shape)) * dtype.itemsize for _, dtype, shape in filter(None, self._banks[0]))

    def _rows(self, node: Node, rows: int) -> list[tuple[int, np.dtype[Any], tuple[int, ...]] | None]:
        return [
            self._place((rows, *leaf.shape), leaf.dtype) if isinstance(leaf, Array) else None for leaf in node.leaves()
        ]

    def _place(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, np.dtype[Any], tuple[int, ...]]:
        offset = self.size
        self.size = -(-(offset + int(np.prod(shape)) * dtype.itemsize) // _ALIGN) * _ALIGN
        return offset, dtype, shape

    def views(self, slab: Any) -> Views:
        """The arrays over a slab's memory."""
        return Views(self, slab)


class Views:
    """Arrays over shared memory."""

    def __init__(self, places: Places, slab: Any) -> None:
        self._places, self._slab = places, slab
        self.actions = self._arrays(places._actions)  # noqa: SLF001
        self.finals = self._arrays(places._finals)  # noqa: SLF001
        self.banks = [self._arrays(bank) for bank in places._banks]  # noqa: SLF001
        records, self.sizes = (slab.view(*place) for place in places._records)  # noqa: SLF001
        self.records = memoryview(records.reshape(-1))

    def _arrays(self, places: Any, lease: Any = None) -> list[NDArray[Any] | None]:
        return [place and self._slab.view(*place, lease) for place in places]

    def lent(self, lease: Any) -> list[NDArray[Any] | None]:
        """Arrays over a lent bank, which keep it lent."""
        return self._arrays(self._places._banks[lease.bank], lease)  # noqa: SLF001


class Records:
    """What answers say beyond numbers: infos, exceptions, values without a layout.

    :param views: of the slab.
    :param files: for a worker's first environment and the file of its larger records.
    """

    def __init__(self, views: Views, files: Callable[[int], tuple[int, int]]) -> None:
        self._views, self._files = views, files

    def write(self, env: int, data: bytes) -> None:
        """Leaves ``data`` for the other side."""
        if len(data) <= EXTRA_BYTES:
            start = env * EXTRA_BYTES
            self._views.records[start : start + len(data)] = data
        else:
            first, file = self._files(env)
            start, rest = (env - first) * _FILE_BYTES, memoryview(data)
            while rest:
                written = os.pwrite(file, rest, start)
                start, rest = start + written, rest[written:]
        self._views.sizes[env] = len(data)

    def read(self, env: int) -> Any:
        """What the other side left."""
        size = int(self._views.sizes[env])
        if size <= EXTRA_BYTES:
            start = env * EXTRA_BYTES
            return pickle.loads(self._views.records[start : start + size])  # noqa: S301
        first, file = self._files(env)
        start, data = (env - first) * _FILE_BYTES, bytearray()
        while len(data) < size:
            part = os.pread(file, size - len(data), start + len(data))
            if not part:
                raise EOFError(f"the record of environment {env} ends after {len(data)} of {size} bytes")
            data += part
        return pickle.loads(data)  # noqa: S301


def unnamed_file() -> int:
    """An open file that nothing in the file system names."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("rlfast-records")
    file, path = tempfile.mkstemp()
    Path(path).unlink()
    return file


def dumps(value: Any) -> bytes:
    """``value`` pickled, for the parent: it has the classes of its script. What pickle cannot do, by value."""
    try:
        return pickle.dumps(value, protocol=5)
    except Exception:
        return cloudpickled(value)


def cloudpickled(value: Any) -> bytes:
    """``value`` pickled, for a worker: what belongs to the script goes by value, as the worker has not run it."""
    import cloudpickle

    return bytes(cloudpickle.dumps(value, protocol=5))
