"""The protocol between the parent and its workers: constants, the layout of the shared memory, and records in it."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from rlfast.env.process.layout import Array, Node

# The kinds of requests, which are also the phases that a worker reports.
STEP, RESET, REPLACE, METHOD = 1, 2, 3, 4
"""``REPLACE`` requests a reset in the place of a step, of an environment that has been rebuilt."""
PHASES = {STEP: "step", RESET: "reset", REPLACE: "reset", METHOD: "a method"}

# Flags of a result.
EXTRA = 1  # the result has a record, with data that has no place in the arrays
FAILED = 2  # the record holds an exception
ONLY_RESET = 4  # NEXT_STEP: the environment was only reset, so the result is not a transition
AGAIN = 8  # SAME_STEP: an episode ended and the environment was reset

MESSAGE, STOP = -1, -2  # in the place of an environment's number: read the channel, end the worker

EXTRA_BYTES = 2048
"""The size of an environment's record in the shared memory; larger records go through a file."""
_FILE_BYTES = 1 << 36  # the distance between the environments' records in that file, which is sparse
_ALIGN = 64


Place: TypeAlias = tuple[int, np.dtype[Any], tuple[int, ...]]
"""The offset, dtype and shape of an array."""


@dataclass(frozen=True)
class Plan:
    """The parameters that determine the layout of the shared memory, in every process in the same way."""

    obs: Node
    action: Node
    starts: list[int]
    """Worker ``w`` owns the environments from ``starts[w]`` to ``starts[w + 1] - 1``."""
    mode: AutoresetMode
    strict: bool
    """Whether an observation that does not fit the layout is an error; if not, it is sent pickled."""

    @property
    def envs(self) -> int:
        """The number of environments."""
        return self.starts[-1]


class Places:
    """The offsets of all arrays in the shared memory: actions, final observations, records and observations.

    :param plan: the parameters of the layout.
    """

    def __init__(self, plan: Plan) -> None:
        self.obs, self.action = plan.obs, plan.action
        self.size = 0
        rows = plan.envs
        self._actions = self._rows(self.action, rows)
        self._finals = self._rows(self.obs, rows) if plan.mode is AutoresetMode.SAME_STEP else []
        self._records = self._place((rows, EXTRA_BYTES), np.dtype(np.uint8)), self._place((rows,), np.dtype(np.int64))
        self._obs = self._rows(self.obs, rows)

    def _rows(self, node: Node, rows: int) -> list[Place | None]:
        return [
            self._place((rows, *leaf.shape), leaf.dtype) if isinstance(leaf, Array) else None for leaf in node.leaves()
        ]

    def _place(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Place:
        offset = self.size
        self.size = -(-(offset + int(np.prod(shape)) * dtype.itemsize) // _ALIGN) * _ALIGN
        return offset, dtype, shape

    def views(self, slab: object) -> Views:
        """Makes the arrays over the memory of a slab."""
        return Views(self, slab)


class Views:
    """NumPy arrays over the shared memory."""

    def __init__(self, places: Places, slab: Any) -> None:
        self._places, self._slab = places, slab
        self.actions = self._arrays(places._actions)  # noqa: SLF001
        self.finals = self._arrays(places._finals)  # noqa: SLF001
        self.obs = self._arrays(places._obs)  # noqa: SLF001
        records, self.sizes = (slab.view(*place) for place in places._records)  # noqa: SLF001
        self.records = memoryview(records.reshape(-1))

    def _arrays(self, places: Sequence[Place | None]) -> list[NDArray[Any] | None]:
        return [place and self._slab.view(*place) for place in places]


class Records:
    """Records of results, with data that has no place in the arrays: infos, exceptions and values without a layout.

    :param views: the arrays over the shared memory.
    :param files: a function that returns, for an environment, the number of its worker's first environment and the file
        for records that are too large for the shared memory.
    """

    def __init__(self, views: Views, files: Callable[[int], tuple[int, int]]) -> None:
        self._views, self._files = views, files

    def write(self, env: int, data: bytes) -> None:
        """Writes the record of environment ``env``."""
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
        """Reads and unpickles the record of environment ``env``.

        :raises EOFError: the file is shorter than the record.
        """
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
    """Opens a temporary file that has no name in the file system, and returns its descriptor."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("rlfast-records")
    file, path = tempfile.mkstemp()
    Path(path).unlink()
    return file
