"""A TorchRL storage on rlfast's engine."""

from __future__ import annotations

import json
import tempfile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDict, is_leaf_nontensor
from torchrl.data import replay_buffers as host

from rlfast.data import Batch, VectorReplayBuffer
from rlfast.data.schema import nest
from rlfast.interop.torchrl._convert import array_of, arrays_of, tensors_of

_AT_ONCE = 64
"""The number of rows written in one call. The engine reserves memory as if no two of them shared an observation."""
_CPU = torch.device("cpu")
_ENDS = ("done", "terminated", "truncated")


class Layout:
    """The mapping between the entries of TensorDicts and the columns of the engine, fixed by the first TensorDict."""

    def __init__(self, keys: list[tuple[str, ...]], reward: str | None) -> None:
        """Makes the mapping.

        :param keys: the keys of all leaves.
        :param reward: the dtype of the reward, if it and the flags are single numbers, as usual; else None.
        """
        self.keys, self.reward = keys, np.dtype(reward) if reward else None
        following = {key[1:] for key in keys if key[0] == "next"}
        root = {key for key in keys if key[0] != "next"}
        self.ends = [name for name in _ENDS if (name,) in following] if reward else []
        taken = {(name,) for name in (*self.ends, *(("reward",) if reward else ()))}
        self.observed = sorted(key for key in root & following if key[-1] not in (*_ENDS, "reward"))
        self.act = ("action",) in root
        self.other_root = sorted(root - set(self.observed) - {("action",), ("index",)})
        self.other_next = sorted(following - set(self.observed) - taken)

    @classmethod
    def of(cls, tensordict: TensorDict) -> Layout:
        """Makes the mapping for the entries of a TensorDict.

        :raises ValueError: the TensorDict has no entries.
        :raises TypeError: an entry is not a tensor.
        """
        leaves = set(tensordict.keys(include_nested=True, leaves_only=True))
        for key in tensordict.keys(include_nested=True, leaves_only=True, is_leaf=is_leaf_nontensor):
            if key not in leaves:
                raise TypeError(f"{key!r} is not a tensor and cannot be stored: exclude it, or use TorchRL's storage")
        keys = sorted((key,) if isinstance(key, str) else tuple(key) for key in leaves)
        if not keys:
            raise ValueError("there is nothing to store in a TensorDict without entries")
        reward = tensordict.get(("next", "reward"), None)
        flags = [tensordict[("next", name)] for name in _ENDS if ("next", name) in keys]
        shape = (*tensordict.batch_size, 1)
        usual = all(flag.shape == shape and flag.dtype == torch.bool for flag in flags)
        if reward is None or reward.shape != shape or not usual:
            return cls(keys, None)
        return cls(keys, str(reward.dtype).removeprefix("torch."))

    def rows(self, tensordict: TensorDict) -> Batch:
        """Converts a TensorDict to the fields of the engine's rows.

        :raises ValueError: ``done`` is not ``terminated`` or ``truncated``.
        """
        following = tensordict.get("next", None)
        shape = tuple(tensordict.batch_size)
        none = np.zeros(shape, np.bool_)
        fields: dict[str, Any] = {"act": tensordict["action"].numpy(force=True) if self.act else none}
        fields["rew"] = following["reward"][..., 0].numpy(force=True) if self.reward else np.zeros(shape)
        ends = {name: following[name][..., 0].numpy(force=True) for name in self.ends}
        fields["terminated"] = terminated = ends.get("terminated", ends.get("done", none))
        fields["truncated"] = ends.get("truncated", ends.get("done", terminated) & ~terminated)
        if "done" in ends and (ends["done"] != (terminated | fields["truncated"])).any():
            raise ValueError("done must be terminated or truncated in ('next', ...)")
        fields["obs"] = arrays_of(nest({key: tensordict[key] for key in self.observed})) if self.observed else none
        fields["obs_next"] = arrays_of(nest({key: following[key] for key in self.observed})) if self.observed else none
        others = {
            "root": arrays_of(nest({key: tensordict[key] for key in self.other_root})),
            "next": arrays_of(nest({key: following[key] for key in self.other_next})) if self.other_next else {},
        }
        fields["info"] = {name: group for name, group in others.items() if group}
        return Batch(fields)

    def tensordict(self, fields: dict[str, Any], /, **more: torch.Tensor) -> TensorDict:
        """Converts the fields of the engine's rows to a TensorDict.

        :param fields: the fields.
        :param more: further entries of the TensorDict.
        """
        shape = torch.Size(fields["rew"].shape)
        root: dict[str, Any] = tensors_of(fields["obs"]) if self.observed else {}
        if self.act:
            root["action"] = torch.from_numpy(fields["act"])
        if self.other_root:
            _merge(root, tensors_of(fields["info"]["root"]))
        if self.observed or self.reward or self.other_next:
            root["next"] = self._following(fields)
        root.update(more)
        return _trusted(root, shape)

    def _following(self, fields: dict[str, Any]) -> dict[str, Any]:
        following: dict[str, Any] = tensors_of(fields["obs_next"]) if self.observed else {}
        if self.reward:
            reward = fields["rew"].astype(self.reward, copy=False)
            following["reward"] = torch.from_numpy(reward[..., None])
        for name in self.ends:
            following[name] = torch.from_numpy(fields[name][..., None])
        if self.other_next:
            _merge(following, tensors_of(fields["info"]["next"]))
        return following


def _trusted(entries: dict[str, Any], shape: torch.Size) -> TensorDict:
    """Makes a TensorDict of entries with valid shapes, without the checks of its constructor."""
    for key, value in entries.items():
        if isinstance(value, dict):
            entries[key] = _trusted(value, shape)
    return TensorDict._new_unsafe(entries, batch_size=shape, device=_CPU)


def _merge(group: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(group.get(key), dict):
            _merge(group[key], value)
        else:
            group[key] = value


class Storage(host.LazyStackStorage):
    """A storage of TensorDicts in rlfast's engine, for round-robin writers (TorchRL's default).

    The entries that a TensorDict has both at its root and under ``"next"``, except rewards and flags, are the
    observation. An observation that the next row repeats is stored once, and Atari stacks are stored frame by frame,
    without loss of information. ``"index"`` is not stored, because it is the index of the row. If observations are
    stacks of 1 KiB or more, those of a sample and of its ``"next"`` are views of the same memory: copy one before
    changing it in place.

    :param max_size: the capacity in rows.
    :param storage: ``"ram"``, or a folder for memory-mapped files.
    """

    def __init__(self, max_size: int, *, storage: str = "ram") -> None:
        super().__init__(max_size)
        self.where = storage
        self._written = 0  # rows written, raised at restarts so that its remainder by max_size is the cursor
        self._forget()

    def _forget(self) -> None:
        self.buffer = VectorReplayBuffer(self.max_size, 1, seed=0, storage=self.where)
        self.layout: Layout | None = None
        self._turn()

    def _turn(self) -> None:
        """Begins a new generation after all rows were replaced, so that no earlier number is used again."""
        cursor = self.buffer.last_index[0] + 1 if len(self.buffer) else 0
        full = len(self.buffer) == self.max_size
        self._written = (-(-self._written // self.max_size) + full) * self.max_size + int(cursor) % self.max_size

    def generations(self, index: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns a number for each row, which changes when the row is overwritten and is never used again.

        :param index: the indices of existing rows, ``[B]``.
        :return: int64 ``[B]``.
        """
        turns, cursor = divmod(self._written, self.max_size)
        generations: NDArray[np.int64] = turns - (index >= cursor)
        return generations

    def set(self, cursor: Any, data: TensorDict | list[TensorDict], *, set_cursor: bool = True) -> None:
        """Appends rows.

        :param cursor: the indices of the rows, which must be the next ones in round-robin order.
        :param data: a TensorDict or a list of TensorDicts.
        :param set_cursor: must be True.
        :raises ValueError: the rows are not the next ones, or a row is more than one step.
        """
        single = isinstance(cursor, int) or (isinstance(cursor, torch.Tensor) and cursor.ndim == 0)
        if isinstance(data, list):
            data = torch.stack(data)
        if single and data.ndim == 0:
            data = data[None]
        if data.ndim != 1:
            raise ValueError(f"a row is one step, got rows of batch size {list(data.shape[1:])}: call reshape(-1)")
        if isinstance(cursor, slice):
            cursor = range(*cursor.indices(self.max_size))
        places = np.asarray([int(cursor)] if single else cursor, np.int64).reshape(-1)
        newest = self.buffer.last_index[0] if len(self.buffer) else -1
        if not np.array_equal(places, (newest + 1 + np.arange(len(data))) % self.max_size) or not set_cursor:
            raise ValueError(
                f"rows can only be appended, here at {(newest + 1) % self.max_size}, got {places.tolist()[:8]}: use a "
                "writer that appends in turn, and do not change stored rows"
            )
        layout = self.layout or Layout.of(data)
        rows = layout.rows(data)
        for start in range(0, len(data), _AT_ONCE):
            part = rows[start : start + _AT_ONCE]
            self.buffer.add(part, buffer_ids=np.zeros(len(part), np.int64))
        self.layout = layout
        self._written += len(data)
        self._set_last_cursor(cursor)
        super()._bump_mutation_revision()

    def get(self, index: object, /, **more: torch.Tensor) -> TensorDict:
        """Returns copies of rows.

        :param index: the indices of the rows, from the end if they are negative; or a slice or mask of all rows.
        :param more: further entries of the TensorDict.
        :raises RuntimeError: the storage is empty.
        :raises IndexError: a row does not exist.
        """
        if self.layout is None:
            raise RuntimeError("cannot get rows of an empty storage")
        if isinstance(index, tuple):
            index = index[0]
        if isinstance(index, torch.Tensor):
            index = array_of(index)
        size = len(self)
        rows = np.arange(size)[index] if isinstance(index, slice) else np.asarray(index)
        if rows.dtype == np.bool_:
            rows = np.arange(size)[rows]
        elif rows.size and not 0 <= rows.min() <= rows.max() < size:
            if not -size <= rows.min() <= rows.max() < size:
                raise IndexError(f"there are {size} rows, got the index {index}")
            rows = np.where(rows < 0, rows + size, rows)
        return self.layout.tensordict(self.buffer._core.take(rows), **more)

    def __len__(self) -> int:
        return len(self.buffer)

    @property
    def shape(self) -> torch.Size:
        """The number of rows, as a shape."""
        return torch.Size([len(self)])

    @property
    def _total_shape(self) -> torch.Size:
        """The number of rows of a full storage; prioritized samplers of slices read this and the next."""
        return torch.Size([self.max_size])

    @property
    def _len_along_dim0(self) -> int:
        return len(self)

    def contains(self, item: int | torch.Tensor) -> Any:
        """Whether rows with these indices exist."""
        if isinstance(item, torch.Tensor):
            return (item >= 0) & (item < len(self))
        return 0 <= item < len(self)

    def _empty(self) -> None:
        self.buffer.reset()
        self._turn()
        super()._bump_mutation_revision()

    def _bump_mutation_revision(self) -> None:
        """Refuses changes in place, which the host makes to a copy of the rows before it calls this."""
        raise NotImplementedError("stored rows cannot be changed: use TorchRL's storage for that")

    def state_dict(self) -> dict[str, Any]:
        """Returns a snapshot of the rows: the contents of the files that :meth:`dumps` writes."""
        with tempfile.TemporaryDirectory() as folder:
            self.dumps(folder)
            return {path.name: path.read_bytes() for path in Path(folder).iterdir()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores a snapshot.

        :param state_dict: the return value of :meth:`state_dict`.
        :raises ValueError: it is of a storage of another size.
        """
        with tempfile.TemporaryDirectory() as folder:
            for name, content in state_dict.items():
                Path(folder, name).write_bytes(content)
            self.loads(folder)

    def dumps(self, path: str | PathLike[str]) -> None:
        """Writes a snapshot of the rows into a folder.

        :param path: the folder, which is created.
        """
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        head = self.layout and {"keys": self.layout.keys, "reward": self.layout.reward and self.layout.reward.name}
        (folder / "layout.json").write_text(json.dumps(head))
        if self.layout:
            self.buffer.save(folder / "rows")

    def loads(self, path: str | PathLike[str]) -> None:
        """Restores the rows from a folder that :meth:`dumps` wrote.

        :param path: the folder.
        :raises ValueError: it is of a storage of another size.
        """
        folder = Path(path)
        head = json.loads((folder / "layout.json").read_text())
        if head is None:
            self._forget()
            return
        buffer = VectorReplayBuffer.load(folder / "rows", storage=self.where)
        if buffer.maxsize != self.max_size:
            raise ValueError(f"{path} holds a storage of {buffer.maxsize} rows, this one has {self.max_size}")
        self.buffer = buffer
        self._turn()
        self.layout = Layout([tuple(key) for key in head["keys"]], head["reward"])
        super()._bump_mutation_revision()
