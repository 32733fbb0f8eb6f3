"""ONNX models, by torch's exporter: the nodes of a program as a module of torch."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from rlfast.export.program import Choices, Controls, Program
from rlfast.utils.runtime.extras import needed_by

with needed_by("rlfast export --to onnx"):
    import onnxscript  # noqa: F401 (torch's exporter needs it)
    import torch
    from torch import Tensor, nn
    from torch.nn import functional

FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "relu": functional.relu,
    "leaky_relu": functional.leaky_relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "silu": functional.silu,
    "elu": functional.elu,
    "exp": torch.exp,
    "clamp": torch.clamp,
    "scale": lambda x, factor: x * factor,
    "shift": lambda x, term: x + term,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "softplus": functional.softplus,
    "abs": torch.abs,
    "square": torch.square,
    "sqrt": torch.sqrt,
    "log": torch.log,
    "reciprocal": torch.reciprocal,
}
"""Functions of a slot, and of the node's numbers."""
PAIRS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "subtract": torch.sub,
    "multiply": torch.mul,
    "divide": torch.div,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
}
"""Functions of two slots."""
GROUPS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda x: x.sum(2),
    "mean": lambda x: x.mean(2),
    "max": lambda x: x.amax(2),
    "min": lambda x: x.amin(2),
    "softmax": lambda x: x.softmax(2).flatten(1),
}
"""Functions of the groups of a slot, ``[B, groups, size]``."""


_WINDOWED = ("conv", "max_pool", "mean_pool")
"""Nodes with a window, an array of eleven whole numbers."""


class _Module(nn.Module):
    """A program that takes observations, ``[B, ...]``, and returns actions and the parameters of their distribution.

    :param program: the program.
    """

    def __init__(self, program: Program) -> None:
        super().__init__()
        self._program = program
        self._nodes = [
            ("join", node[1].tolist()) if node[0] == "join" else tuple(self._parts(*node)) for node in program.nodes
        ]
        self._scales = [(self._kept(scale.mean), self._kept(scale.deviation), scale.limit) for scale in program.scales]
        self._places = None if program.places is None else self._kept(np.array(program.places, np.int64))
        limits = program.action.range if isinstance(program.action, Controls) else None
        self._range = None if limits is None else [self._kept(bound) for bound in limits]

    def _parts(self, name: str, *parts: Any) -> Iterator[Any]:
        """Yield the parts of a node."""
        yield name
        for part in parts:
            is_window = name in _WINDOWED and isinstance(part, np.ndarray) and part.dtype == np.int64
            yield part.tolist() if is_window else self._kept(part)

    def _kept(self, part: object) -> Any:
        """Return a part of a node; an array becomes a buffer."""
        if not isinstance(part, np.ndarray):
            return part
        name = f"t{len([*self.buffers()])}"
        self.register_buffer(name, torch.from_numpy(part.copy()))
        return getattr(self, name)

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        obs, state = (given, None) if self._program.state is None else (given[:-1], given[-1])
        x = torch.cat([part.reshape(part.shape[0], -1) for part in obs], 1)
        if self._places is not None:
            x = x.index_select(1, self._places)
        for mean, deviation, limit in self._scales:
            x = (x.double() - mean) / deviation
            x = x if limit is None else x.clamp(-limit, limit)
        slots = [x.float() if state is None else torch.cat([x.float(), state], 1)]
        for name, *parts in self._nodes:
            slots.append(_computed(slots, name, *parts))
        after = () if self._program.state is None else (slots[self._program.state.slot],)
        return *self._acted(slots, self._program.action), *after

    def _acted(self, slots: list[Tensor], action: Choices | Controls) -> tuple[Tensor, ...]:
        if isinstance(action, Choices):
            groups = torch.split_with_sizes(slots[action.slot], [*action.sizes], 1)
            chosen = torch.stack([numbers.argmax(1) for numbers in groups], 1) + torch.tensor([*action.starts])
            return chosen.reshape(-1, *action.shape), slots[action.slot]
        control = self._control(slots[action.mean], action).reshape(-1, *action.shape)
        return (control, *(slots[slot] for slot in (action.mean, action.deviation) if slot is not None))

    def _control(self, x: Tensor, action: Controls) -> Tensor:
        x = x.tanh() if action.squashed else x
        x = x.clamp(-1.0, 1.0) if action.bound == "clip" else x.tanh() if action.bound == "tanh" else x
        dtype = torch.float32 if action.dtype == "float32" else torch.float64
        x = x.to(dtype)
        if self._range is None:
            return x
        low, high = (bound.to(dtype) for bound in self._range)
        if action.stretched:
            x = low + (high - low) * ((x + 1.0) * 0.5)
        return torch.minimum(torch.maximum(x, low), high)


def _computed(slots: list[Tensor], name: str, *parts: Any) -> Any:
    """Return the slot of a node."""
    if name == "constant":
        return parts[0].flatten().expand(slots[0].shape[0], -1)
    if name == "join":
        return torch.cat([slots[slot] for slot in parts[0]], 1)
    x, more = slots[parts[0]], parts[1:]
    if name in FUNCTIONS:
        return FUNCTIONS[name](x, *more)
    if name in PAIRS:
        return PAIRS[name](x, slots[more[0]])
    if name in GROUPS:
        return GROUPS[name](torch.unflatten(x, 1, (-1, more[0])))
    if name == "linear":
        x = functional.linear(x, *more[:2])
        return x.relu() if more[2] else x
    if name == "linear_turned":
        x = functional.linear(x, more[0].T, more[1])
        return x.relu() if more[2] else x
    if name == "conv":
        return _convolved(x, *more)
    if name in ("max_pool", "mean_pool"):
        return _pooled(x, *more, greatest=name == "max_pool")
    if name == "expectation":
        return (torch.unflatten(x, 1, (-1, more[0].numel())) * more[0].flatten()).sum(2)
    if name == "one_hot":
        return (x.unsqueeze(2) == torch.arange(more[0])).float().flatten(1)
    if name == "pick":
        return x.index_select(1, more[0])
    if name == "normalize":
        return _normalized(x, *more)
    raise ValueError(f"the network has a node {name!r}, which is not written in ONNX yet: export to rlfast")


def _window(window: Any) -> list[tuple[int, ...]]:
    """Return the size of images ``(channels, height, width)``, and size, stride, padding and dilation of a window."""
    c, h, w, *more = map(int, window)
    return [(c, h, w), *zip(more[::2], more[1::2], strict=True)]


def _convolved(x: Tensor, weight: Tensor, bias: Tensor | None, window: Any, groups: float, relu: object) -> Tensor:
    shape, kernel, stride, padding, dilation = _window(window)
    weight = weight.reshape(weight.shape[0], -1, *kernel)
    x = functional.conv2d(torch.unflatten(x, 1, shape), weight, bias, stride, padding, dilation, int(groups)).flatten(1)
    return x.relu() if relu else x


def _pooled(x: Tensor, window: Any, *, greatest: bool) -> Tensor:
    shape, kernel, stride, padding, dilation = _window(window)
    x = torch.unflatten(x, 1, shape)
    if greatest:
        return functional.max_pool2d(x, kernel, stride, padding, dilation).flatten(1)
    return functional.avg_pool2d(x, kernel, stride, padding).flatten(1)


def _normalized(
    x: Tensor, size: int, epsilon: float, centered: object, weight: Tensor | None, bias: Tensor | None
) -> Tensor:
    x = torch.unflatten(x, 1, (-1, size))
    x = x - x.mean(2, keepdim=True) if centered else x
    x = x / (x.square().mean(2, keepdim=True) + epsilon).sqrt()
    x = x if weight is None else x * weight.flatten()
    x = x if bias is None else x + bias.flatten()
    return x.flatten(1)


@contextmanager
def _quietly() -> Iterator[None]:
    """Hide what torch's exporter says about itself."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def written(program: Program) -> bytes:
    """Return the ONNX model of a program, with its metadata.

    Its input is ``obs``, ``[batch, ...]``, float64 for a program that normalizes and else float32; of observations that
    are dicts, there is an input for each array, such as ``obs.camera.left`` for a nested one. Its outputs are
    ``action``, the best actions for the environment, and the parameters of their distribution: ``action_logits``, or
    ``action_values`` if they are never drawn, or ``action_mean``, and ``action_deviation`` if there is one. A recurrent
    policy has also the input ``state``, ``[batch, size]``, and the output ``next_state``.

    :param program: the program.
    :raises ValueError: if the program has a node that is not written in ONNX yet.
    """
    module, action = _Module(program).eval(), program.action
    dtype = torch.float64 if program.scales else torch.float32
    inputs = [".".join(("obs", *part.keys)) for part in program.form.parts]
    given = [torch.zeros(2, *part.shape, dtype=dtype) for part in program.form.parts]
    if isinstance(action, Choices):
        outputs = ["action", "action_logits" if action.logits else "action_values"]
    else:
        outputs = ["action", "action_mean", *(["action_deviation"] if action.deviation is not None else [])]
    if program.state is not None:
        given.append(torch.zeros(2, program.state.size))
        inputs.append("state")
        outputs.append("next_state")
    batch = {0: torch.export.Dim("batch")}
    with _quietly(), torch.no_grad():
        made: Any = torch.onnx.export(
            module,
            tuple(given),
            dynamo=True,
            dynamic_shapes=(tuple(batch for _ in given),),
            input_names=inputs,
            output_names=outputs,
            verbose=False,
        )
    model = made.model_proto
    for name, value in program.about.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = str(name), value if isinstance(value, str) else json.dumps(value)
    return bytes(model.SerializeToString())
