"""Prefetching of samples: a thread draws the next sample and moves it to the policy's device."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from rlfast.data import ReplayBuffer
from rlfast.data._leaves import Path
from rlfast.data.batch.batch import Batch, wrap_nested
from rlfast.data.schema import leaves_of, nest

Index: TypeAlias = NDArray[np.int64]

_ALIGNMENT = 64
"""Bytes. Every leaf begins at a multiple of it, which is aligned for a tensor of any dtype."""

_STAY = frozenset({"info", "policy", "last_index"})
"""Fields that stay on the host: updates use them to read the buffer, but do not compute with them."""

_NUMBERS = frozenset(np.dtype(code) for code in ("?", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8"))
"""The dtypes that both NumPy and torch have."""


class PrefetchedBuffer:
    """A replay buffer whose samples are tensors on a device; a thread draws the next sample during an update.

    The thread draws a sample, gathers its rows (in the engine, without holding the interpreter lock) and packs them
    into one block of memory, which is page-locked for CUDA. One asynchronous transfer moves the block to the device; on
    CUDA, that of a sample that is drawn ahead has a stream of its own, and takes place during the update.

    The samples are the same as without a thread: they are drawn in the same order, and no sample is drawn that is not
    used. Nothing is drawn beyond the end of a series, because the buffer may change then; with one update after each
    collect, nothing is drawn ahead. Nothing is drawn ahead either from a buffer with priorities, where each update
    changes the next draw, or from a class with its own ``sample_indices``, which may share a random generator.

    All attributes except ``sample`` are those of the buffer.

    :param buffer: the buffer to sample from. Nothing may be added to it during a series.
    :param device: the device of the tensors. ``info``, ``policy``, ``last_index`` and values without a dtype in torch
        stay arrays.
    """

    def __init__(self, buffer: ReplayBuffer, device: torch.device) -> None:
        self._buffer, self._device = buffer, device
        self._ahead = not hasattr(buffer, "update_weight") and _has_own_streams(buffer)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="prefetch")
        self._next: tuple[int | None, Future[tuple[_Moved, Index]]] | None = None
        self._left = 0
        stream: Any = torch.cuda.Stream
        self._stream: torch.cuda.Stream | None = stream(device) if device.type == "cuda" else None

    def series(self, length: int) -> PrefetchedBuffer:
        """Begins a series of samples, during which the buffer does not change.

        :param length: the number of samples, at least 1; a sample that was drawn ahead counts.
        :return: this object.
        """
        self._left = length
        return self

    @property
    def is_ahead(self) -> bool:
        """Whether a sample was drawn ahead and not returned yet."""
        return self._next is not None

    def end(self) -> None:
        """Waits for the thread, and drops a sample that was drawn ahead, which happens only after an error."""
        waiting, self._next = self._next, None
        if waiting is not None:
            wait([waiting[1]])

    def is_of(self, buffer: object, device: torch.device) -> bool:
        """Whether this object samples from ``buffer`` to ``device``."""
        return buffer is self._buffer and device == self._device

    def sample(self, batch_size: int | None) -> tuple[Batch, Index]:
        """Returns the next sample of the series; see :meth:`ReplayBuffer.sample`.

        :param batch_size: the number of rows; None for all rows of the buffer.
        :return: the batch, and the indices of its rows.
        :raises ValueError: a sample of another size was drawn ahead.
        """
        if self._next is None:
            moved, indices = self._draw(batch_size, None)
        else:
            size, ready = self._next
            if size != batch_size:
                raise ValueError(
                    f"a sample of {size} rows was drawn ahead, and one of {batch_size} is asked for: train without "
                    "prefetch where the samples between two collects differ in size"
                )
            moved, indices = ready.result()
        self._left -= 1
        more = self._ahead and self._left > 0
        self._next = (batch_size, self._thread.submit(self._draw, batch_size, self._stream)) if more else None
        return moved.batch(), indices

    def _draw(self, batch_size: int | None, stream: torch.cuda.Stream | None) -> tuple[_Moved, Index]:
        batch, indices = self._buffer.sample(batch_size)
        return _Block.of(batch, pinned=self._device.type == "cuda").to(self._device, stream), indices

    def __getattr__(self, name: str) -> Any:
        return getattr(self._buffer, name)

    def __len__(self) -> int:
        return len(self._buffer)

    def __getitem__(self, index: NDArray[Any]) -> Batch:
        return self._buffer[index]


def _has_own_streams(buffer: object) -> bool:
    """Whether the buffer draws from its own random generators, as the buffers of rlfast do."""
    draw = getattr(type(buffer), "sample_indices", None)
    return getattr(draw, "__module__", "").partition(".")[0] == "rlfast"


@dataclass(frozen=True, slots=True)
class _Block:
    """A batch with most of its leaves in one block of memory."""

    memory: torch.Tensor
    """Bytes ``[size]``."""
    packed: dict[Path, tuple[torch.dtype, tuple[int, ...], int]]
    """Dtype, shape and first byte of each leaf in the block."""
    rest: dict[Path, Any]
    """The leaves that are not in the block."""
    empty: set[Path]
    """The nested batches without leaves."""

    @classmethod
    def of(cls, batch: Batch, *, pinned: bool) -> _Block:
        leaves, empty = leaves_of(batch.__dict__)
        packed, size = {}, 0
        for path, leaf in leaves.items():
            if path[0] not in _STAY and isinstance(leaf, np.ndarray) and leaf.dtype in _NUMBERS:
                packed[path] = (torch.from_numpy(np.empty(0, leaf.dtype)).dtype, leaf.shape, size)
                size += -(-leaf.nbytes // _ALIGNMENT) * _ALIGNMENT
        memory = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
        host = memory.numpy()
        for path, (_, _, start) in packed.items():
            leaf = leaves[path]
            host[start : start + leaf.nbytes].view(leaf.dtype).reshape(leaf.shape)[...] = leaf
        return cls(memory, packed, {path: leaf for path, leaf in leaves.items() if path not in packed}, empty)

    def to(self, device: torch.device, stream: torch.cuda.Stream | None) -> _Moved:
        """Starts the transfer to a device.

        :param stream: the stream that the transfer takes place in; None for the current one.
        """
        if stream is None:
            return _Moved(self, self.memory.to(device, non_blocking=True), None)
        with torch.cuda.stream(stream):
            return _Moved(self, self.memory.to(device, non_blocking=True), stream.record_event())


@dataclass(frozen=True, slots=True)
class _Moved:
    """A batch on its way to a device."""

    block: _Block
    memory: torch.Tensor
    """The memory of the block, on the device."""
    end: torch.cuda.Event | None
    """The end of the transfer; None if it takes place in the current stream."""

    def batch(self) -> Batch:
        """Returns the batch, with the packed leaves as tensors on the device, for the current stream."""
        if self.end is not None:
            current = torch.cuda.current_stream(self.memory.device)
            current.wait_event(self.end)
            self.memory.record_stream(current)
        typed = {dtype: self.memory.view(dtype) for dtype, _, _ in self.block.packed.values()}
        moved = {path: _part(typed[place[0]], *place) for path, place in self.block.packed.items()}
        batch: Batch = wrap_nested(nest(self.block.rest | moved, self.block.empty))
        return batch


def _part(memory: torch.Tensor, dtype: torch.dtype, shape: tuple[int, ...], start: int) -> torch.Tensor:
    """Returns a leaf of the memory of a block, which is viewed as numbers of its dtype; by one call of torch."""
    strides = [1]
    for size in shape[:0:-1]:
        strides.append(strides[-1] * size)
    return memory.as_strided(shape, strides[::-1] if shape else (), start // dtype.itemsize)
