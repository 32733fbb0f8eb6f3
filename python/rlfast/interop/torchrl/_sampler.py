"""TorchRL's prioritized sampler on rlfast's sum tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torchrl.data import replay_buffers as host

from rlfast.data import SegmentTree
from rlfast.interop.torchrl._convert import array_of
from rlfast.interop.torchrl._storage import Storage


class _Leaves:
    """A sum tree that keeps track of its smallest leaf above 0.

    It keeps one row that has the smallest value. When that row gets a larger value, the minimum is recomputed when it
    is next needed.
    """

    def __init__(self, size: int) -> None:
        self.tree = SegmentTree(size)
        self._least, self._holder = np.inf, -1

    def set(self, rows: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        self.tree[rows] = values
        at = values.argmin()
        lowest = values[at]
        if lowest > self._least:
            if np.count_nonzero(rows == self._holder):
                self._holder = -1
        elif self._holder >= 0:
            # The minimum is unknown if the lowest value is 0, or was overwritten by a later value for the same row.
            known = lowest > 0.0 and self.tree[int(rows[at])] == lowest
            self._least, self._holder = lowest, int(rows[at]) if known else -1

    def least(self) -> float:
        if self._holder < 0:
            leaves = self.tree[np.arange(len(self.tree))]
            leaves[leaves == 0.0] = np.inf
            at = int(leaves.argmin())
            self._least, self._holder = leaves[at], at if leaves[at] < np.inf else -1
        return float(self._least)


class _Sums:
    """The sum tree with the methods that TorchRL calls."""

    def __init__(self, leaves: _Leaves) -> None:
        self.leaves = leaves

    def __getitem__(self, index: object) -> Any:
        found = self.leaves.tree[_rows(index)]
        return torch.from_numpy(found) if isinstance(found, np.ndarray) else found

    def __setitem__(self, index: object, value: object) -> None:
        rows = np.asarray(_rows(index), np.int64).reshape(-1)
        self.leaves.set(rows, np.broadcast_to(_values(value), rows.shape))

    def query(self, start: int, end: int) -> float:
        return self.leaves.tree.reduce(start, end)


class _Minima(_Sums):
    """The min tree with the methods that TorchRL calls: a view of the leaves of :class:`_Sums`, read-only.

    A leaf that was not set is infinite.
    """

    def __getitem__(self, index: object) -> Any:
        found = torch.as_tensor(super().__getitem__(index))
        return torch.where(found > 0.0, found, torch.inf)

    def __setitem__(self, index: object, value: object) -> None:
        pass

    def query(self, start: int, end: int) -> float:
        if (start, end) == (0, len(self.leaves.tree)):
            return self.leaves.least()
        return float(self[np.arange(start, end)].min())


def _rows(index: object) -> Any:
    return index.numpy() if isinstance(index, torch.Tensor) else index


def _values(value: object) -> NDArray[np.float64]:
    array = value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    return array.astype(np.float64, copy=False)


class PrioritizedSampler(host.PrioritizedSampler):
    r"""TorchRL's ``PrioritizedSampler`` on rlfast's sum tree of doubles.

    Row :math:`i` is drawn with probability :math:`p_i / \sum_k p_k`, where
    :math:`p_i = (|\delta_i| + \epsilon)^\alpha`, and has the weight
    :math:`(p_i / \min_k p_k)^{-\beta}`. Schaul et al. 2016, *Prioritized Experience Replay*,
    arXiv:1511.05952, equation 1 and section 3.4. Priorities are stored in float64, regardless of ``dtype``.

    :param max_capacity: the capacity of the storage.
    :param alpha: the priority exponent, at least 0.
    :param beta: the exponent of the importance weights, at least 0.
    :param eps: added to every priority.
    :param kwargs: further arguments of TorchRL's class: ``dtype`` of the weights, ``reduction``,
        ``max_priority_within_buffer``.
    :raises ValueError: ``alpha`` or ``beta`` is below 0, or the device is not the CPU.
    """

    def __init__(self, max_capacity: int, alpha: float, beta: float, eps: float = 1e-8, **kwargs: Any) -> None:
        device = kwargs.get("device")
        if device is not None and torch.device(device).type != "cpu":
            raise ValueError(f"the priorities of rlfast are on the CPU, got device={device}")
        super().__init__(max_capacity, alpha, beta, eps, **kwargs)

    def _init(self) -> None:
        self._leaves = _Leaves(self._max_capacity)
        self._sum_tree, self._min_tree = _Sums(self._leaves), _Minima(self._leaves)
        self._max_priority = None

    @property
    def _max_priority(self) -> tuple[Any, Any]:
        """The largest priority so far and its row, in the format of TorchRL."""
        return self.__dict__.get("_max_priority") or (None, None)

    @_max_priority.setter
    def _max_priority(self, value: tuple[Any, Any] | None) -> None:
        self.__dict__["_max_priority"] = value
        self._largest = -np.inf if value is None or value[0] is None else float(value[0])

    def _maybe_init_from_storage(self, storage: object) -> None:
        """Does nothing: the tree stays on the CPU, also for a storage on a GPU."""

    def sample(self, storage: host.Storage, batch_size: int) -> tuple[Any, dict[str, Any]]:
        """Draws rows by priority.

        :param storage: the storage.
        :param batch_size: how many.
        :return: the indices, int64 ``[B]`` (a tuple of them for a storage with several axes), and a dict of
            ``priority_weight`` ``[B]`` and, for rlfast's storage, ``index_generation`` ``[B]``.
        :raises RuntimeError: the storage is empty, or no row has a priority above 0.
        """
        index, info = self.draw(storage, batch_size)
        rows: Any = torch.from_numpy(index)
        if storage.ndim > 1:
            rows = torch.unravel_index(rows, storage.shape)
        return rows, info

    def draw(self, storage: host.Storage, batch_size: int) -> tuple[NDArray[np.int64], dict[str, torch.Tensor]]:
        """Draws rows as :meth:`sample` does, but returns flat indices in an array.

        :param storage: the storage.
        :param batch_size: how many.
        :return: the indices, int64 ``[B]``, and the dict that :meth:`sample` returns.
        :raises RuntimeError: the storage is empty, or no row has a priority above 0.
        """
        if len(storage) == 0:
            raise RuntimeError("cannot sample from an empty storage")
        tree = self._leaves.tree
        total = tree.reduce()
        if not total > 0.0:
            raise RuntimeError("no row has a priority above 0")
        index = tree.get_prefix_sum_idx(self._uniform(batch_size) * total)
        weight = (tree[index] / self._leaves.least()) ** -self._beta
        single = self.dtype is torch.float32
        weights = torch.from_numpy(weight.astype(np.float32)) if single else torch.from_numpy(weight).to(self.dtype)
        info = {"priority_weight": weights}
        if isinstance(storage, Storage):
            info["index_generation"] = torch.from_numpy(storage.generations(index))
        return index, info

    def _uniform(self, size: int) -> NDArray[np.float64]:
        if self._rng is None:
            return np.random.random_sample(size)
        return torch.rand(size, generator=self._rng, dtype=torch.float64).numpy()

    def update_priority(self, index: Any, priority: Any, *, storage: object = None) -> None:
        r"""Sets priorities.

        :param index: the indices of rows; negative ones are ignored.
        :param priority: :math:`|\delta|`, one for each row or one for all.
        :param storage: the storage; needed for indices of several axes.
        """
        plain = isinstance(index, torch.Tensor) and index.ndim == 1 and isinstance(priority, torch.Tensor)
        if not plain or priority.shape != index.shape or self._max_priority_within_buffer or not len(index):
            super().update_priority(index, priority, storage=storage)
            return
        rows, values = array_of(index), array_of(priority)
        if np.count_nonzero(rows < 0):
            rows, values = rows[rows >= 0], values[rows >= 0]
        if len(rows):
            self.set(rows, values)

    def set(self, rows: NDArray[np.int64], priorities: NDArray[Any]) -> None:
        r"""Sets the priorities of existing rows.

        :param rows: the indices, at least one.
        :param priorities: :math:`|\delta|`, one for each row.
        """
        values = priorities.astype(np.float64)
        largest = values.argmax()
        if values[largest] > self._largest:
            self._max_priority = (torch.as_tensor(values[largest]), torch.as_tensor(rows[largest]))
        self._leaves.set(rows, (values + self._eps) ** self._alpha)

    def state_dict(self) -> dict[str, Any]:
        """Returns the priorities and parameters."""
        names = ("_alpha", "_beta", "_eps", "_max_priority")
        leaves = self._leaves.tree[np.arange(self._max_capacity)]
        return {name: getattr(self, name) for name in names} | {"leaves": torch.from_numpy(leaves)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores the priorities and parameters.

        :param state_dict: the return value of :meth:`state_dict`.
        :raises ValueError: it is the state of a sampler of another size.
        """
        leaves = state_dict["leaves"].numpy()
        if len(leaves) != self._max_capacity:
            raise ValueError(f"the state is of a sampler of {len(leaves)} rows, this one has {self._max_capacity}")
        self._init()
        for name in ("_alpha", "_beta", "_eps", "_max_priority"):
            setattr(self, name, state_dict[name])
        self._leaves.set(np.arange(len(leaves)), leaves)
