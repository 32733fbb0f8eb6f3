"""The format of rlfast's own: safetensors, with the description of the program in the header."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from rlfast.export.program import Array, Choices, Program
from rlfast.utils.runtime.extras import needed_by

with needed_by("rlfast export"):
    from safetensors.numpy import save

VERSION = "1"


class _Tensors:
    """The arrays of a file, by their names. One that is used twice is written once."""

    def __init__(self) -> None:
        self.by_name: dict[str, Array] = {}
        self._names: dict[tuple[int, tuple[int, ...]], str] = {}

    def name(self, array: Array) -> str:
        array = np.ascontiguousarray(array)
        key = (array.__array_interface__["data"][0], array.shape)
        if key not in self._names:
            self._names[key] = f"t{len(self._names)}"
            self.by_name[self._names[key]] = array
        return self._names[key]


def _part(part: object, tensors: _Tensors) -> Any:
    """Return a part of a node as JSON has it."""
    if isinstance(part, np.ndarray):
        return tensors.name(part)
    if isinstance(part, float) and math.isinf(part):
        return "inf" if part > 0 else "-inf"
    return part


def _action(program: Program, tensors: _Tensors) -> dict[str, Any]:
    action = program.action
    if isinstance(action, Choices):
        fields = {name: getattr(action, name) for name in ("slot", "sizes", "starts", "logits", "shape")}
        return {"type": "discrete", **fields}
    fields = {
        name: getattr(action, name)
        for name in ("mean", "deviation", "squashed", "bound", "stretched", "shape", "dtype")
    }
    low, high = (None, None) if action.range is None else map(tensors.name, action.range)
    return {"type": "continuous", **fields, "low": low, "high": high}


def written(program: Program) -> bytes:
    """Return the contents of a file that :func:`rlfast.load_policy` opens.

    :param program: the program.
    """
    tensors = _Tensors()
    scales = [
        {"mean": tensors.name(scale.mean), "deviation": tensors.name(scale.deviation), "limit": scale.limit}
        for scale in program.scales
    ]
    places = None if program.places is None else tensors.name(np.array(program.places, np.int64))
    arrays = [{"keys": part.keys, "shape": part.shape} for part in program.form.parts]
    description = {
        "about": dict(program.about),
        "observation": {"arrays": arrays, "places": places, "scales": scales},
        "nodes": [[_part(part, tensors) for part in node] for node in program.nodes],
        "action": _action(program, tensors),
        "state": None if program.state is None else vars(program.state),
        "random": program.random,
    }
    text = json.dumps(description, separators=(",", ":"), allow_nan=False)
    return bytes(save(tensors.by_name, {"format": "rlfast", "version": VERSION, "policy": text}))
