"""A policy on disk: weights as safetensors, the rest as data that cannot run code when it is loaded."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file

if TYPE_CHECKING:
    from pathlib import Path

    from rlfast.policy import BasePolicy

VERSION = 1
_WEIGHTS, _STATE, _COUNTERS = "policy.safetensors", "training_state.pt", "counters.json"
_EXTRA = "_extra_state"


def save_checkpoint(folder: Path, policy: BasePolicy, counters: dict[str, int]) -> None:
    """Writes a checkpoint, the old one staying whole until the new one is complete.

    ``policy.safetensors`` has the weights, ``training_state.pt`` the optimizers, schedules and random streams,
    ``counters.json`` where the run stood.

    :param folder: where to; made or replaced.
    :param policy: what to save.
    :param counters: such as ``env_step``.
    """
    state = policy.state_dict()
    extra = {name: value for name, value in state.items() if name.endswith(_EXTRA)}
    weights = {name: value.detach().cpu().contiguous() for name, value in state.items() if name not in extra}
    fresh, old = folder.with_name(folder.name + ".new"), folder.with_name(folder.name + ".old")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    save_file(weights, fresh / _WEIGHTS)
    torch.save(extra, fresh / _STATE)
    (fresh / _COUNTERS).write_text(json.dumps({"version": VERSION, **counters}, indent=2) + "\n")
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    fresh.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def load_checkpoint(folder: Path, policy: BasePolicy) -> dict[str, Any]:
    """Restores ``policy`` and gives the counters. Nothing in the files is executed.

    :param folder: what :func:`save_checkpoint` wrote. Where writing was cut short, the one before it is found.
    :param policy: of the same structure.
    :raises FileNotFoundError: there is no checkpoint.
    :raises ValueError: it is of another version.
    """
    if not folder.exists() and (old := folder.with_name(folder.name + ".old")).exists():
        folder = old
    counters: dict[str, Any] = json.loads((folder / _COUNTERS).read_text())
    if counters.pop("version") != VERSION:
        raise ValueError(f"{folder} is a checkpoint of another version: this one reads version {VERSION}")
    extra = torch.load(folder / _STATE, weights_only=True, map_location="cpu")
    policy.load_state_dict(load_file(folder / _WEIGHTS) | extra)
    return counters
