"""A TorchRL storage whose rows live in rlfast's engine."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDict
from torchrl.data import replay_buffers as host

from rlfast.data import Batch, VectorReplayBuffer
from rlfast.interop.torchrl._convert import array_of, arrays_of, tensors_of

_AT_ONCE = 64
"""Rows written in one call, for which the engine sets room aside as if no two of them shared an observation."""
_ENDS = ("done", "terminated", "truncated")


def _nested(keys: list[Any], source: Any) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key in keys:
        *groups, name = key
        inner = result
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[name] = source[key]
    return result


class Layout:
    """Which part of a row of the engine each entry of a TensorDict is; the first TensorDict decides."""

    def __init__(self, keys: list[tuple[str, ...]], reward: str | None) -> None:
        """:param keys: of all leaves. :param reward: the dtype of a reward of one number, or None."""
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
    def of(cls, tensordict: Any) -> Layout:
        """:raises ValueError: there is nothing to store."""
        leaves = tensordict.keys(include_nested=True, leaves_only=True)
        keys = sorted((key,) if isinstance(key, str) else tuple(key) for key in leaves)
        if not keys:
            raise ValueError("there is nothing to store in a TensorDict without entries")
        reward = tensordict.get(("next", "reward"), None)
        if reward is None or reward[..., 0].ndim != tensordict.ndim or reward.shape[-1] != 1:
            return cls(keys, None)
        return cls(keys, str(reward.dtype).removeprefix("torch."))

    def rows(self, tensordict: Any) -> Batch:
        """The fields of the engine's rows.

        :raises ValueError: ``done`` is not what ``terminated`` and ``truncated`` say.
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
        fields["obs"] = arrays_of(_nested(self.observed, tensordict)) if self.observed else none
        fields["obs_next"] = arrays_of(_nested(self.observed, following)) if self.observed else none
        others = {
            "root": arrays_of(_nested(self.other_root, tensordict)),
            "next": arrays_of(_nested(self.other_next, following)) if self.other_next else {},
        }
        fields["info"] = {name: group for name, group in others.items() if group}
        return Batch(fields)

    def tensordict(self, fields: dict[str, Any], /, **more: torch.Tensor) -> TensorDict:
        """The reverse, of rows that the engine gave.

        :param more: further entries.
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
    """A TensorDict of tensors that are known to fit, without TensorDict looking at each."""
    for key, value in entries.items():
        if isinstance(value, dict):
            entries[key] = _trusted(value, shape)
    return TensorDict._new_unsafe(entries, batch_size=shape)


def _merge(group: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(group.get(key), dict):
            _merge(group[key], value)
        else:
            group[key] = value


class Storage(host.LazyStackStorage):  # type: ignore[misc]
    """A storage of TensorDicts in rlfast's engine, for writers that go round (TorchRL's default).

    What a TensorDict has at its root and under ``"next"``, except rewards and ends, is an observation, and is kept once
    where the next row repeats it; Atari stacks are kept frame by frame. Nothing is lost by that. ``"index"`` is not
    stored: it is the row's own. Where observations are stacks of 1 KiB and more, those of a sample and of its
    ``"next"`` are two views of one block: copy before changing one in place.

    :param max_size: rows at most.
    :param storage: ``"ram"``, or a folder for memory-mapped files.

    :raises ValueError: a row that is not the next one in turn.
    """

    def __init__(self, max_size: int, *, storage: str = "ram") -> None:
        super().__init__(max_size)
        self.where = storage
        self._written = 0  # rows, and those that would have come before them had every turn begun at place 0
        self._forget()

    def _forget(self) -> None:
        self.buffer = VectorReplayBuffer(self.max_size, 1, seed=0, storage=self.where)
        self.layout: Layout | None = None
        self._turn()

    def _turn(self) -> None:
        """Other rows are there now: no generation of those before comes again."""
        cursor = self.buffer.last_index[0] + 1 if len(self.buffer) else 0
        full = len(self.buffer) == self.max_size
        self._written = (-(-self._written // self.max_size) + full) * self.max_size + int(cursor) % self.max_size

    def generations(self, index: NDArray[np.int64]) -> NDArray[np.int64]:
        """A number for what stands at each place, which never comes again once another row is there.

        :param index: ``[B]``; places that hold a row.
        """
        turns, cursor = divmod(self._written, self.max_size)
        generations: NDArray[np.int64] = turns - (index >= cursor)
        return generations

    def set(self, cursor: Any, data: Any, *, set_cursor: bool = True) -> None:
        """Appends rows at ``cursor``, which is where they come next."""
        single = isinstance(cursor, int) or (isinstance(cursor, torch.Tensor) and cursor.ndim == 0)
        if isinstance(data, list):
            data = torch.stack(data)
        if single and data.ndim == 0:
            data = data[None]
        places = np.asarray([int(cursor)] if single else cursor, np.int64).reshape(-1)
        newest = self.buffer.last_index[0] if len(self.buffer) else -1
        if not np.array_equal(places, (newest + 1 + np.arange(len(data))) % self.max_size) or not set_cursor:
            raise ValueError(
                f"rows can only be appended, here at {(newest + 1) % self.max_size}, got {places.tolist()[:8]}: use a "
                "writer that goes round, and do not change rows that are stored"
            )
        layout = self.layout or Layout.of(data)
        rows = layout.rows(data)
        for start in range(0, len(data), _AT_ONCE):
            part = rows[start : start + _AT_ONCE]
            self.buffer.add(part, buffer_ids=np.zeros(len(part), np.int64))
        self.layout = layout
        self._written += len(data)
        self._set_last_cursor(cursor)
        self._bump_mutation_revision()

    def get(self, index: Any, /, **more: torch.Tensor) -> TensorDict:
        """The rows at ``index``, fresh, as they were given.

        :param more: further entries.
        :raises RuntimeError: nothing is stored.
        """
        if self.layout is None:
            raise RuntimeError("cannot get rows of an empty storage")
        if isinstance(index, torch.Tensor):
            index = array_of(index)
        elif isinstance(index, slice):
            index = np.arange(*index.indices(len(self)))
        elif isinstance(index, range | tuple):
            index = index if isinstance(index, range) else index[0]
        return self.layout.tensordict(self.buffer._core.take(np.asarray(index)), **more)

    def __len__(self) -> int:
        return len(self.buffer)

    def contains(self, item: Any) -> Any:
        """Whether rows are there."""
        if isinstance(item, torch.Tensor):
            return (item >= 0) & (item < len(self))
        return 0 <= item < len(self)

    def _empty(self) -> None:
        self.buffer.reset()
        self._turn()

    def state_dict(self) -> dict[str, Any]:
        """A snapshot, without pickles."""
        with tempfile.TemporaryDirectory() as folder:
            self.dumps(folder)
            return {path.name: path.read_bytes() for path in Path(folder).iterdir()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """What :meth:`state_dict` gave."""
        with tempfile.TemporaryDirectory() as folder:
            for name, content in state_dict.items():
                Path(folder, name).write_bytes(content)
            self.loads(folder)

    def dumps(self, path: Any) -> None:
        """Writes a snapshot into a folder."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        head = self.layout and {"keys": self.layout.keys, "reward": self.layout.reward and self.layout.reward.name}
        (folder / "layout.json").write_text(json.dumps(head))
        if self.layout:
            self.buffer.save(folder / "rows")

    def loads(self, path: Any) -> None:
        """What :meth:`dumps` wrote.

        :raises ValueError: a storage of another size.
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
        self._bump_mutation_revision()
