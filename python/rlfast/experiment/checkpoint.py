"""A run on disk: weights as safetensors, the rest as JSON and arrays. Nothing in it can run code when it is loaded."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from typing import TYPE_CHECKING, Any

import torch
from safetensors import numpy as arrays_file
from safetensors import torch as tensors_file

from rlfast.utils.plain import pack, unpack

if TYPE_CHECKING:
    from pathlib import Path

    from rlfast.data import ReplayBuffer
    from rlfast.policy import BasePolicy
    from rlfast.trainer import BaseTrainer

VERSION = 3
_WEIGHTS, _STATE, _ARRAYS, _BUFFER, _HEAD = (
    "policy.safetensors",
    "training_state.json",
    "training_state.safetensors",
    "buffer.snapshot",
    "checkpoint.json",
)
_GIVEN_BUFFER = "given_buffer.snapshot"
_HEAD_NAMES = ("policy", "trainer", "epoch", "env_step", "gradient_step", "buffer", "checksums")
_EXTRA = "_extra_state"


def save_checkpoint(
    folder: Path, trainer: BaseTrainer, *, save_buffer: bool = True, allow_pickle: bool = False
) -> None:
    """Writes all that training goes on from, the old checkpoint staying whole until the new one is complete.

    ``policy.safetensors`` has the weights; ``training_state.json`` and ``.safetensors`` the optimizers, schedules,
    normalisers, random streams, environments and counters; ``buffer.snapshot`` the replay buffer (and
    ``given_buffer.snapshot`` one that is learned from while a collector fills another); and
    ``checkpoint.json`` what this is, where it stands, and checksums. To be called where the state is whole: as
    ``save_checkpoint_fn``, or when no loop is running.

    :param folder: where to; made or replaced.
    :param trainer: what to save.
    :param save_buffer: whether to save the buffer; without it, a resumed run fills a new one.
    :param allow_pickle: see :meth:`rlfast.data.ReplayBuffer.save`; for buffers with columns of Python objects.
    :raises OSError: the disk is full, or something else is wrong with it; the old checkpoint is still there.
    :raises TypeError: a part of the state is no plain data; likewise.
    """
    state = trainer.policy.state_dict()
    extra = {name: value for name, value in state.items() if name.endswith(_EXTRA)}
    weights = {name: _apart(value) for name, value in state.items() if name not in extra}
    text, arrays = pack({"policy": extra, "trainer": trainer.state_dict()})
    contents = {_WEIGHTS: tensors_file.save(weights), _STATE: text.encode(), _ARRAYS: arrays_file.save(arrays)}
    head = {
        "version": VERSION,
        "policy": type(trainer.policy).__qualname__,
        "trainer": type(trainer).__qualname__,
        **{name: getattr(trainer, name) for name in ("epoch", "env_step", "gradient_step")},
        "buffer": save_buffer,
        "checksums": {name: zlib.crc32(content) for name, content in contents.items()},
    }
    fresh, old = folder.with_name(folder.name + ".new"), folder.with_name(folder.name + ".old")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        fresh.mkdir(parents=True)
        for name, content in contents.items():
            _write(fresh / name, content)
        if save_buffer:
            for name, buffer in _buffers_of(trainer).items():
                buffer.save(fresh / name, allow_pickle=allow_pickle)
        _write(fresh / _HEAD, (json.dumps(head, indent=2) + "\n").encode())
        _sync(fresh)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    fresh.rename(folder)
    _sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def load_checkpoint(folder: Path, trainer: BaseTrainer, *, allow_pickle: bool = False) -> list[str]:
    """Puts ``trainer``, its policy, buffer and collectors where :func:`save_checkpoint` was called.

    Kinds, shapes and checksums are compared before anything is changed. A buffer in memory-mapped files is in RAM
    afterwards.

    :param folder: the checkpoint. Where writing was cut short, the one before it is found.
    :param trainer: made like the one that was saved.
    :param allow_pickle: unpickle columns of Python objects in the buffer: only from sources that you trust.
    :return: what could not be restored, in sentences; see :meth:`rlfast.trainer.BaseTrainer.load_state_dict`.
    :raises FileNotFoundError: there is no checkpoint.
    :raises ValueError: it is damaged, or of another version, algorithm, network, trainer or buffer.
    """
    folder, head = _open(folder)
    _check_kind(folder, head, policy=trainer.policy, trainer=trainer)
    weights, state = _weights(folder, head, trainer.policy), _state(folder, head)
    buffers = []
    if head["buffer"]:
        for name, ours in _buffers_of(trainer).items():
            buffers.append((ours, _load_buffer(folder / name, ours, allow_pickle=allow_pickle)))
    trainer.policy.load_state_dict(weights | state["policy"])
    lost = trainer.load_state_dict(state["trainer"])
    for ours, buffer in buffers:
        ours.__setstate__(buffer.__getstate__())  # in place: others hold it too
    if not buffers and trainer.train_collector is not None:
        lost.append("the replay buffer was not saved: it fills anew")
    return lost


def load_policy(folder: Path, policy: BasePolicy) -> dict[str, Any]:
    """Restores a policy alone, to act or to learn from new data.

    :param folder: what :func:`save_checkpoint` wrote.
    :param policy: of the same structure.
    :return: where the run stood: ``epoch``, ``env_step``, ``gradient_step``.
    :raises FileNotFoundError: there is no checkpoint.
    :raises ValueError: it is damaged, or of another version, algorithm or network.
    """
    folder, head = _open(folder)
    _check_kind(folder, head, policy=policy)
    policy.load_state_dict(_weights(folder, head, policy) | _state(folder, head)["policy"])
    return {name: head[name] for name in ("epoch", "env_step", "gradient_step")}


def _buffers_of(trainer: BaseTrainer) -> dict[str, ReplayBuffer]:
    """By the names of their files; offline training may collect into another than it learns from."""
    collected = None if trainer.train_collector is None else trainer.train_collector.buffer
    given = None if trainer.buffer is collected else trainer.buffer
    names = (_BUFFER, _GIVEN_BUFFER) if collected is not None else (_BUFFER,)
    return dict(zip(names, (one for one in (collected, given) if one is not None), strict=False))


def _apart(tensor: torch.Tensor) -> torch.Tensor:
    """On the CPU, in memory of its own: networks may share layers."""
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Puts the names in a folder on disk, where the system can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _open(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The folder that is whole, and what it says of itself."""
    if not (folder / _HEAD).exists() and (old := folder.with_name(folder.name + ".old")).exists():
        folder = old
    try:
        head: dict[str, Any] = json.loads((folder / _HEAD).read_text())
        version = head["version"]
    except FileNotFoundError:
        raise FileNotFoundError(f"{folder} holds no checkpoint") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder / _HEAD} is damaged: {error!r}") from error
    if version != VERSION:
        raise ValueError(f"{folder} is a checkpoint of version {version}: this rlfast reads version {VERSION}")
    if missing := [name for name in _HEAD_NAMES if name not in head]:
        raise ValueError(f"{folder / _HEAD} is damaged: it has no {', '.join(missing)}")
    return folder, head


def _check_kind(folder: Path, head: dict[str, Any], **ours: object) -> None:
    for name, one in ours.items():
        if head[name] != type(one).__qualname__:
            raise ValueError(f"{folder} is of a {head[name]}, not of a {type(one).__qualname__}")


def _read(folder: Path, head: dict[str, Any], name: str) -> bytes:
    try:
        content = (folder / name).read_bytes()
        intact = zlib.crc32(content) == head["checksums"][name]
    except (FileNotFoundError, KeyError, TypeError) as error:
        raise ValueError(f"{folder} is damaged: {error!r}") from error
    if not intact:
        raise ValueError(f"{folder / name} is damaged: its checksum differs")
    return content


def _weights(folder: Path, head: dict[str, Any], policy: BasePolicy) -> dict[str, torch.Tensor]:
    """The weights, which fit the policy."""
    weights = tensors_file.load(_read(folder, head, _WEIGHTS))
    ours = {name: value for name, value in policy.state_dict().items() if not name.endswith(_EXTRA)}
    if weights.keys() != ours.keys():
        names = sorted(weights.keys() ^ ours.keys())
        raise ValueError(f"{folder} is of another network: only one of the two has {', '.join(names[:5])}")
    for name, value in ours.items():
        if weights[name].shape != value.shape:
            shapes = f"{tuple(weights[name].shape)} there and {tuple(value.shape)} here"
            raise ValueError(f"{folder} is of another network: {name} is {shapes}")
    return weights


def _state(folder: Path, head: dict[str, Any]) -> dict[str, Any]:
    state: dict[str, Any] = unpack(_read(folder, head, _STATE).decode(), arrays_file.load(_read(folder, head, _ARRAYS)))
    return state


def _load_buffer(path: Path, ours: ReplayBuffer, *, allow_pickle: bool) -> ReplayBuffer:
    relabel = ours._config.relabel  # noqa: SLF001
    reward = None if relabel is None else relabel.compute_reward_fn
    loaded = type(ours).load(path, allow_pickle=allow_pickle, compute_reward_fn=reward)
    kinds = [f"{type(one).__name__} of {one._store.capacities} rows" for one in (loaded, ours)]  # noqa: SLF001
    if kinds[0] != kinds[1]:
        raise ValueError(f"{path} holds a {kinds[0]}, this trainer has a {kinds[1]}")
    return loaded
