"""TensorDicts in TorchRL's layout and batches in ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict

from rlfast.data import Batch

_COLUMNS = {"terminated", "truncated", "done"}


def to_tensordict(batch: Batch) -> TensorDict:
    """A batch of transitions as TorchRL has them.

    ``obs`` becomes ``"observation"``, or, when it is a Batch, its fields; ``act`` becomes ``"action"``, ``weight``
    ``"priority_weight"``; ``obs_next``, ``rew`` (as ``"reward"``) and the flags go under ``"next"``, the last two with
    a trailing axis of length 1. Other fields keep their names; empty ones are left out. Tensors share the arrays'
    memory.

    :param batch: ``[B, ...]``, as :meth:`rlfast.data.ReplayBuffer.sample` gives it.
    :raises TypeError: a field holds Python objects.
    """
    following: dict[str, Any] = {}
    root: dict[str, Any] = {"next": following}
    for key, value in batch.items():
        if key in ("obs", "obs_next"):
            tensors = tensors_of(value)
            group = root if key == "obs" else following
            group.update(tensors if isinstance(tensors, dict) else {"observation": tensors})
        elif key == "rew":
            following["reward"] = column(value)
        elif key in _COLUMNS:
            following[key] = column(value)
        elif not (isinstance(value, Batch) and value.is_empty(recurse=True)):
            root[{"act": "action", "weight": "priority_weight"}.get(key, key)] = tensors_of(value)
    return TensorDict(root, batch_size=[len(batch)])


def from_tensordict(tensordict: TensorDict) -> Batch:
    """The reverse of :func:`to_tensordict`.

    What TorchRL has at the root *and* under ``"next"`` is the observation. A missing ``"truncated"`` is ``"done"``
    without ``"terminated"``.

    :param tensordict: ``[B]``, with ``"action"`` and ``("next", "reward")``.
    :raises KeyError: one of these is missing.
    """
    arrays = arrays_of(tensordict)
    following = arrays.pop("next")
    fields: dict[str, Any] = {}
    fields["act"] = arrays.pop("action")
    fields["rew"] = following.pop("reward")[..., 0]
    done = following.pop("done", None)
    terminated = following.pop("terminated", done)
    fields["terminated"] = terminated[..., 0]
    fields["truncated"] = following.pop("truncated", terminated & False if done is None else done & ~terminated)[..., 0]
    obs = {key: arrays.pop(key) for key in list(arrays) if key in following}
    for name, value in (("obs", obs), ("obs_next", {key: following.pop(key) for key in obs})):
        fields[name] = value["observation"] if value.keys() == {"observation"} else value
    if "priority_weight" in arrays:
        fields["weight"] = arrays.pop("priority_weight")
    if following:
        raise ValueError(
            f"('next', {next(iter(following))!r}) has no place in a Batch: drop it, or give it at the root too"
        )
    fields["done"] = fields["terminated"] | fields["truncated"]
    return Batch(fields | arrays)


def column(array: Any) -> torch.Tensor:
    """``[B]`` as ``[B, 1]``, the shape TorchRL gives rewards and flags."""
    return torch.from_numpy(np.asarray(array))[..., None]


def tensors_of(value: Any) -> Any:
    """Nested tensors of nested arrays."""
    if type(value) is np.ndarray and value.dtype != object:
        return torch.from_numpy(value)
    if isinstance(value, Mapping | Batch):
        return {key: tensors_of(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray) and value.dtype == object:
        raise TypeError("a TensorDict holds no Python objects: leave the field out of the batch")
    return torch.from_numpy(np.asarray(value))


def array_of(tensor: torch.Tensor) -> Any:
    """The array of a tensor, over the same memory where that is possible."""
    plain = tensor.is_cpu and not tensor.requires_grad
    return tensor.numpy() if plain else tensor.numpy(force=True)


def arrays_of(value: Any) -> Any:
    """Nested arrays of nested tensors."""
    if isinstance(value, torch.Tensor):
        return array_of(value)
    return {key: arrays_of(inner) for key, inner in value.items()}
