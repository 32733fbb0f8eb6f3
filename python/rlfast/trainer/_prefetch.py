"""Samples that are ready, and where the policy is, when it asks for them."""

from __future__ import annotations

import math
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from rlfast.data.batch.batch import Batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rlfast.data import ReplayBuffer

    Index: TypeAlias = NDArray[np.int64]
    Path: TypeAlias = tuple[str, ...]

_ALIGNMENT = 64
"""Bytes; every leaf begins at a multiple, so that a tensor of any dtype can."""

_STAY = frozenset({"info", "policy", "last_index"})
"""Fields that the host needs, to look around in the buffer, and the device does not."""

_NUMBERS = frozenset(np.dtype(code) for code in ("?", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8"))
"""What both NumPy and torch have."""


class PrefetchedBuffer:
    """A replay buffer whose samples hold tensors on a device, the next one being drawn while this one is learned from.

    One thread draws, gathers (in the engine, detached from the interpreter) and packs a sample into one block of
    memory, page-locked for CUDA; the block crosses to the device in one transfer that nobody waits for. The rows are
    those that would be drawn without a thread, since its draws are made in the same order and none is made that is not
    asked for: nothing is drawn ahead of the last of a series, after which the buffer may change. So where each collect
    is followed by one update, there is nothing to draw ahead. Nor is there from a buffer with priorities, where what is
    learned decides what is drawn, or from one whose ``sample_indices`` is the user's own, which may draw from a
    generator that others draw from.

    Everything but ``sample`` is the buffer's own.

    :param buffer: to sample from. Nothing may be added to it during a series.
    :param device: where the tensors go. ``info``, ``policy``, ``last_index`` and what torch has no dtype for stay
        arrays.
    """

    def __init__(self, buffer: ReplayBuffer, device: torch.device) -> None:
        self._buffer, self._device = buffer, device
        self._ahead = not hasattr(buffer, "update_weight") and _draws_by_itself(buffer)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="prefetch")
        self._next: tuple[int | None, Future[tuple[_Block, Index]]] | None = None
        self._left = 0

    def series(self, length: int) -> PrefetchedBuffer:
        """Say that as many samples follow before the buffer changes, the one that was drawn ahead among them.

        :param length: at least 1.
        """
        self._left = length
        return self

    @property
    def is_ahead(self) -> bool:
        """Whether a sample was drawn that nobody has asked for yet."""
        return self._next is not None

    def end(self) -> None:
        """Wait until nothing is being drawn. A sample that nobody has asked for is dropped: something went wrong."""
        waiting, self._next = self._next, None
        if waiting is not None:
            wait([waiting[1]])

    def is_of(self, buffer: Any, device: torch.device) -> bool:
        """Whether these are samples of ``buffer``, on ``device``."""
        return buffer is self._buffer and device == self._device

    def sample(self, batch_size: int | None) -> tuple[Batch, Index]:
        """Give the next sample of the series; see :meth:`ReplayBuffer.sample`.

        :raises ValueError: it is of another size than the one before it in the series.
        """
        if self._next is None:
            block, indices = self._draw(batch_size)
        else:
            size, ready = self._next
            if size != batch_size:
                raise ValueError(
                    f"a sample of {size} rows was drawn ahead, and one of {batch_size} is asked for: train without "
                    "prefetch where the samples between two collects differ in size"
                )
            block, indices = ready.result()
        self._left -= 1
        more = self._ahead and self._left > 0
        self._next = (batch_size, self._thread.submit(self._draw, batch_size)) if more else None
        return block.on(self._device), indices

    def _draw(self, batch_size: int | None) -> tuple[_Block, Index]:
        batch, indices = self._buffer.sample(batch_size)
        return _Block.of(batch, pinned=self._device.type == "cuda"), indices

    def __getattr__(self, name: str) -> Any:
        return getattr(self._buffer, name)

    def __len__(self) -> int:
        return len(self._buffer)

    def __getitem__(self, index: Any) -> Batch:
        return self._buffer[index]


def _draws_by_itself(buffer: Any) -> bool:
    """Whether it draws from streams of its own, as ours do."""
    draw = getattr(type(buffer), "sample_indices", None)
    return getattr(draw, "__module__", "").partition(".")[0] == "rlfast"


@dataclass(frozen=True, slots=True)
class _Block:
    """A batch with most of its leaves in one piece of memory."""

    memory: torch.Tensor
    """Bytes ``[size]``."""
    packed: dict[Path, tuple[torch.dtype, tuple[int, ...], int]]
    """Dtype, shape and first byte of each leaf in it."""
    rest: dict[Path, Any]
    """The other leaves."""

    @classmethod
    def of(cls, batch: Batch, *, pinned: bool) -> _Block:
        leaves = dict(_leaves(batch))
        packed, size = {}, 0
        for path, leaf in leaves.items():
            if path[0] not in _STAY and isinstance(leaf, np.ndarray) and leaf.dtype in _NUMBERS:
                packed[path] = (torch.from_numpy(np.empty(0, leaf.dtype)).dtype, leaf.shape, size)
                size += -(-leaf.nbytes // _ALIGNMENT) * _ALIGNMENT
        memory = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
        for path, place in packed.items():
            _view(memory, *place).numpy()[...] = leaves[path]
        return cls(memory, packed, {path: leaf for path, leaf in leaves.items() if path not in packed})

    def on(self, device: torch.device) -> Batch:
        """The batch, with the packed leaves as tensors on ``device``."""
        memory = self.memory.to(device, non_blocking=True)
        batch = Batch()
        for path, leaf in self.rest.items():
            _insert(batch, path, leaf)
        for path, place in self.packed.items():
            _insert(batch, path, _view(memory, *place))
        return batch


def _view(memory: torch.Tensor, dtype: torch.dtype, shape: tuple[int, ...], start: int) -> torch.Tensor:
    return memory[start : start + math.prod(shape) * dtype.itemsize].view(dtype).view(shape)


def _leaves(batch: Batch, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """All that is not a batch, and batches with nothing in them."""
    for key, value in batch.items():
        if isinstance(value, Batch) and len(value.keys()):
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value


def _insert(batch: Batch, path: Path, leaf: Any) -> None:
    for key in path[:-1]:
        if key not in batch:
            batch[key] = Batch()
        batch = batch[key]
    batch[path[-1]] = leaf
