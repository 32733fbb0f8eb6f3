"""Conversion between TensorDicts in TorchRL's layout and batches of rlfast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict

from rlfast.data import Batch

_COLUMNS = {"terminated", "truncated", "done"}


def to_tensordict(batch: Batch) -> TensorDict:
    """Converts a batch of transitions to a TensorDict in TorchRL's layout.

    ``obs`` becomes ``"observation"``, or, if it is a ``Batch``, its fields; ``act`` becomes ``"action"``, ``weight``
    ``"priority_weight"``. ``obs_next``, ``rew`` (as ``"reward"``) and the flags are put under ``"next"``, rewards and
    flags with a trailing axis of length 1. Other fields keep their names; empty ones are left out. The tensors share
    the memory of the arrays.

    :param batch: ``[B, ...]``, as :meth:`rlfast.data.ReplayBuffer.sample` returns it.
    :return: the TensorDict, ``[B]``.
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
    """Converts a TensorDict in TorchRL's layout to a batch of transitions.

    The entries that are both at the root and under ``"next"`` are the observation. If ``"truncated"`` is missing, it
    is ``"done"`` without ``"terminated"``.

    :param tensordict: ``[B]``, with ``"action"`` and ``("next", "reward")``.
    :return: the batch.
    :raises KeyError: one of these is missing.
    :raises ValueError: there is an entry under ``"next"`` that a batch has no field for.
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


def column(array: object) -> torch.Tensor:
    """Converts an array ``[B]`` to a tensor ``[B, 1]``, the shape of rewards and flags in TorchRL."""
    return torch.from_numpy(np.asarray(array))[..., None]


def tensors_of(value: object) -> Any:
    """Converts nested arrays to nested tensors.

    :raises TypeError: an array holds Python objects.
    """
    if type(value) is np.ndarray and value.dtype != object:
        return torch.from_numpy(value)
    if isinstance(value, Mapping | Batch):
        return {key: tensors_of(inner) for key, inner in value.items()}
    if isinstance(value, np.ndarray) and value.dtype == object:
        raise TypeError("a TensorDict holds no Python objects: leave the field out of the batch")
    return torch.from_numpy(np.asarray(value))


def array_of(tensor: torch.Tensor) -> Any:
    """Converts a tensor to an array, which shares its memory if possible."""
    plain = tensor.is_cpu and not tensor.requires_grad
    return tensor.numpy() if plain else tensor.numpy(force=True)


def arrays_of(value: torch.Tensor | TensorDict) -> Any:
    """Converts nested tensors to nested arrays."""
    if isinstance(value, torch.Tensor):
        return array_of(value)
    return {key: arrays_of(inner) for key, inner in value.items()}
