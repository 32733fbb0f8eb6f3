"""Two replay buffers to sample from as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlfast.data.batch.batch import Batch
from rlfast.data.buffer.base import ReplayBuffer
from rlfast.data.buffer.options.config import Config
from rlfast.data.buffer.store.store import Index
from rlfast.utils.arguments.checks import ArgumentError, check_number

_USUAL = (Config.sampler, Config.unit, Config.relabel)


class MixedReplayBuffer:
    """Two replay buffers to sample from: each batch has a fixed share of rows of given data, and the rest of what a run
    has collected, however many rows either has (symmetric sampling, arXiv:2302.02948, section 4.1).

    Rows are added to the two buffers themselves. In batches and index arrays, the collected rows come first; indices of
    the data begin at ``collected.maxsize``. A field that one of the buffers does not have is 0 in its rows.

    :param collected: the buffer of the run.
    :param data: the other one.
    :param data_share: the share of rows of the data in a batch, in [0, 1]; their number is rounded down. Default: 0.5.
    :raises ValueError: if the sampler, unit or relabelling of a buffer is not the default, or one stacks more frames.

    >>> collected, data = ReplayBuffer(10, seed=0), ReplayBuffer(100, seed=0)
    >>> row = {"obs": 0, "act": 0, "terminated": False, "truncated": False, "obs_next": 0}
    >>> _ = collected.append(rew=1.0, **row), data.append(rew=-1.0, **row), data.append(rew=-1.0, **row)
    >>> MixedReplayBuffer(collected, data).sample(6)[0].rew.tolist()
    [1.0, 1.0, 1.0, -1.0, -1.0, -1.0]
    """

    def __init__(self, collected: ReplayBuffer, data: ReplayBuffer, *, data_share: float = 0.5) -> None:
        check_number("data_share", data_share)
        if not 0 <= data_share <= 1:
            raise ArgumentError(f"data_share must be within 0 and 1, got {data_share}")
        for name, buffer in {"collected": collected, "data": data}.items():
            found = buffer._config
            if own := [one for one in (found.sampler, found.unit, found.relabel) if one not in _USUAL]:
                raise ValueError(
                    f"only transitions that are drawn uniformly can be mixed, but {name} is a {type(buffer).__name__} "
                    f"of {own[0]}: give another buffer"
                )
        if collected.stack_num != data.stack_num:
            raise ValueError(
                f"collected stacks {collected.stack_num} frames, but data {data.stack_num}: give both one stack_num"
            )
        self.collected, self.data, self.data_share = collected, data, data_share
        self.stack_num = data.stack_num

    def __len__(self) -> int:
        return len(self.collected) + len(self.data)

    def sample(self, batch_size: int | None) -> tuple[Batch, Index]:
        """Draws rows of both buffers and reads them.

        :param batch_size: number of rows; None or 0 for all rows of both.
        :return: the batch, and the indices of its rows.
        :raises ValueError: if a buffer has no row to draw, or rows have a stored hidden state.
        """
        (first, second), (rows, of_data) = zip(*self._drawn("sample", batch_size), strict=True)
        if any("hidden_state" in batch.get("policy", ()) for batch in (first, second)):
            raise ValueError("rows of one buffer have hidden states and others do not: recurrent policies cannot mix")
        return Batch.cat([first, second]), self._joined_indices(rows, of_data)

    def sample_indices(self, batch_size: int | None) -> Index:
        """Draws the indices of rows of both buffers.

        :param batch_size: see :meth:`sample`.
        """
        return self._joined_indices(*self._drawn("sample_indices", batch_size))

    def _drawn(self, method: str, batch_size: int | None) -> tuple[Any, Any]:
        """Calls a method of both buffers with the numbers of rows."""
        portions = (0, 0)  # all
        if batch_size:
            of_data = int(round(batch_size * self.data_share, 9))  # 0.29 of 100 is 28.999999999999996
            portions = (batch_size - of_data or -1, of_data or -1)  # -1 for none
        first, second = (
            getattr(buffer, method)(rows) for buffer, rows in zip((self.collected, self.data), portions, strict=True)
        )
        return first, second

    def _joined_indices(self, collected: Index, of_data: Index) -> Index:
        return np.concatenate([collected, np.asarray(of_data) + self.collected.maxsize])

    def _of_both(self, indices: Index, read: Callable[[ReplayBuffer, Index], Any]) -> tuple[Any, Any]:
        """Calls a function with each buffer and those of the indices that are its own.

        :raises ValueError: if an index of a collected row follows one of the data.
        """
        indices = np.asarray(indices)
        is_data = indices >= self.collected.maxsize
        if (is_data[:-1] & ~is_data[1:]).any():
            raise ValueError("indices of collected rows must come before those of the data, as sample returns them")
        collected, of_data = indices[~is_data], indices[is_data] - self.collected.maxsize
        return read(self.collected, collected), read(self.data, of_data)

    def __getitem__(self, indices: Index) -> Batch:
        """Returns rows as a batch of new arrays.

        :param indices: as :meth:`sample` returns them.
        """
        rows: Batch = Batch.cat([*self._of_both(indices, lambda buffer, rows: buffer[rows])])
        return rows

    def get(self, indices: Index, key: str, default_value: object = None, stack_num: int | None = None) -> Any:
        """Returns a field of rows.

        :param indices: as :meth:`sample` returns them.
        :param key: the name of the field.
        :param default_value: what a buffer without the field returns.
        :param stack_num: number of frames; None for that of the buffers.
        """
        first, second = self._of_both(indices, lambda buffer, rows: buffer.get(rows, key, default_value, stack_num))
        return Batch.cat([first, second]) if isinstance(first, Batch) else np.concatenate([first, second])

    def next(self, indices: Index) -> Index:
        """Returns the row after each row; see :meth:`rlfast.data.ReplayBuffer.next`.

        :param indices: as :meth:`sample` returns them.
        """
        return self._joined_indices(*self._of_both(indices, lambda buffer, rows: buffer.next(rows)))

    def prev(self, indices: Index) -> Index:
        """Returns the row before each row; see :meth:`rlfast.data.ReplayBuffer.prev`.

        :param indices: as :meth:`sample` returns them.
        """
        return self._joined_indices(*self._of_both(indices, lambda buffer, rows: buffer.prev(rows)))

    def nstep(
        self, indices: Index, n_step: int, gamma: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], Index]:
        """Returns the parts of n-step targets; see :meth:`rlfast.data.ReplayBuffer.nstep`.

        :param indices: as :meth:`sample` returns them.
        :param n_step: the largest number of rows to sum over, at least 1.
        :param gamma: discount factor.
        """
        both = self._of_both(indices, lambda buffer, rows: buffer.nstep(rows, n_step, gamma))
        sums, discounts, last = zip(*both, strict=True)
        return np.concatenate(sums), np.concatenate(discounts), self._joined_indices(*last)
