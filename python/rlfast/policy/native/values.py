"""The values of a traced network, and the nodes of the engine that compute them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlfast.utils.runtime.native import NotNativeError

Node: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True)
class Value:
    """Where the numbers of a tensor are."""

    places: Tensor
    """int64, in the shape of the tensor: places in a slot, plus the width of the slot times the row if it is one of
    ``batched`` rows; or places in a tensor that is the same for all rows."""
    batched: bool
    slot: int | None = None
    """The slot; None for numbers that are the same for all rows, and not in a slot yet."""
    tensor: Tensor | None = None
    """The tensor that they are read from."""
    made_by: tuple[Any, ...] = ()
    """For numbers that are the same for all rows and are computed of others: the name of the operation, values, and
    numbers."""

    @property
    def is_tensor(self) -> bool:
        """Whether they are all numbers of one tensor, in their order."""
        return self.tensor is not None and is_identity(self.places, self.tensor.numel())

    @property
    def is_matrix(self) -> bool:
        """Whether they are a matrix as it is stored."""
        return self.tensor is not None and self.tensor.dim() == 2 and self.is_tensor


def places_of(window: NDArray[np.int64]) -> tuple[int, int]:
    """Return the height and width of what a window makes of an image.

    :param window: channels, then the height and width of the image, of the kernel, of strides, of the padding on each
        side, and of dilations.
    """
    size, kernel, stride, padding, dilation = window[1:].reshape(5, 2)
    height, width = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    return int(height), int(width)


def is_identity(places: Tensor, width: int) -> bool:
    """Return whether places are all those of a width, in their order.

    :param places: the places.
    :param width: the width.
    """
    return places.numel() == width and bool((places.flatten() == torch.arange(width)).all())


class Program:
    """The nodes that compute what was traced.

    :param inputs: the parts of the traced observations, ``[B, ...]``, whose numbers follow each other.
    :param constants: the tensors of the network, which are the same for all observations.
    """

    def __init__(self, inputs: Sequence[Tensor], constants: Sequence[Tensor] = ()) -> None:
        self.batch = len(inputs[0])
        self.inputs = sum(part[0].numel() for part in inputs)
        self.nodes: list[Node] = []
        self.read: list[Tensor] = []
        """The tensors that weights are read from."""
        self._widths: list[int] = [self.inputs]
        of_all, sizes = self.whole(0, (self.inputs,)), [part[0].numel() for part in inputs]
        places = torch.split(of_all.places, sizes, dim=1)
        self._values = {
            id(part): replace(of_all, places=where.view(part.shape)) for part, where in zip(inputs, places, strict=True)
        }
        self._alive: list[Any] = [*inputs]
        self._missing: dict[int, NotNativeError] = {}
        self._constants = {id(tensor) for tensor in constants}
        self._slots: dict[int, int] = {}

    # -- values --------------------------------------------------------------------------------------------------------

    def value(self, tensor: Tensor) -> Value:
        """Return where the numbers of a tensor are: of a traced one, or of a parameter, a buffer or another constant.

        :param tensor: the tensor.
        :raises NotNativeError: it is none of them, so that it may depend on the observations.
        """
        known = self._values.get(id(tensor))
        if known is None and (why := self._missing.get(id(tensor))) is not None:
            raise why
        if known is None:
            if id(tensor) not in self._constants:
                raise NotNativeError("the network makes a tensor in another way than by functions of torch")
            places = torch.arange(tensor.numel()).view(tensor.shape)
            known = self._values[id(tensor)] = Value(places, batched=False, tensor=tensor)
            self._alive.append(tensor)
        return known

    def refuse(self, results: object, why: NotNativeError) -> None:
        """Record that the engine cannot compute results of a call, which is an error only where they are needed.

        :param results: a tensor, which the call may have changed in place, or several.
        :param why: the error.
        """
        for tensor in results if isinstance(results, tuple | list) else (results,):
            self._values.pop(id(tensor), None)
            self._missing[id(tensor)] = why
            self._alive.append(tensor)

    def _refuse_views(self, changed: Tensor) -> None:
        """Refuse the tensors that share the memory of one that is changed in place, if there are any."""
        memory = changed.untyped_storage().data_ptr()
        tensors = (one for one in self._alive if isinstance(one, Tensor) and one is not changed)
        shared = [one for one in tensors if one.untyped_storage().data_ptr() == memory]
        if shared:
            why = NotNativeError("the network changes a part of a tensor in place, or what it has views of")
            self.refuse([changed, *shared], why)
            raise why

    def set(self, tensor: Tensor, value: Value, dtype: torch.dtype = torch.float32) -> None:
        """Record where the numbers of a result are.

        :param tensor: the result.
        :param value: its places.
        :param dtype: another dtype that it may have. Default: none.
        :raises NotNativeError: it is not of float32 on the CPU.
        """
        if tensor.dtype not in (torch.float32, dtype) or tensor.device.type != "cpu":
            raise NotNativeError(f"the network computes in {tensor.dtype} on {tensor.device}, not in float32 on cpu")
        self._values[id(tensor)] = value
        self._alive.append(tensor)  # so that its id is not given to another one

    def whole(self, slot: int, shape: Sequence[int]) -> Value:
        """Return the value of a whole slot.

        :param slot: the slot.
        :param shape: of one row.
        """
        places = torch.arange(self.batch * math.prod(shape)).view(self.batch, *shape)
        return Value(places, batched=True, slot=slot)

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def add(self, *node: Any) -> int:
        """Add a node; see :class:`rlfast._core.Network`.

        :param node: its name, its slots, and what else it has.
        :return: its slot.
        """
        self.nodes.append(node)
        self._widths.append(self._width_of(*node))
        return len(self.nodes)

    def _width_of(self, name: str, *parts: Any) -> int:
        if name == "constant":
            return int(parts[0].size)
        if name in ("linear", "pick"):  # a row of weights, or a place, for each number
            return len(parts[1])
        if name == "linear_turned":
            return int(parts[1].shape[1])
        if name == "conv":
            return len(parts[1]) * math.prod(places_of(parts[3]))
        if name in ("max_pool", "mean_pool"):
            return int(parts[1][0]) * math.prod(places_of(parts[1]))
        if name == "join":
            return sum(self._widths[slot] for slot in parts[0])
        if name == "one_hot":
            return self._widths[int(parts[0])] * int(parts[1])
        group = 1  # how many numbers become one
        if name in ("sum", "mean", "max", "min"):
            group = int(parts[1])
        elif name == "expectation":
            group = int(parts[1].size)
        below: int = parts[0]
        return self._widths[below] // group

    def node(self, slot: int) -> Node:
        """Return the node that computes a slot.

        :param slot: the slot.
        """
        return self.nodes[slot - 1] if slot else ("observation",)

    def weights(self, tensor: Tensor) -> Any:
        """Return the numbers of a tensor, which are not copied.

        :param tensor: the tensor.
        :raises NotNativeError: it is not a contiguous tensor of float32 on the CPU.
        """
        if tensor.layout is not torch.strided or tensor.dtype != torch.float32 or tensor.device.type != "cpu":
            raise NotNativeError(f"weights are {tensor.dtype} on {tensor.device}, not float32 on cpu")
        if not tensor.is_contiguous():
            raise NotNativeError("weights are not contiguous")
        self.read.append(tensor)
        return tensor.detach().numpy()

    def rows(self, tensor: Tensor) -> int:
        """Return a slot with the numbers of each row of a tensor, in their order.

        :param tensor: the tensor, ``[B, ...]``.
        :raises NotNativeError: numbers of one row stand in another, or there are other rows than the observations'.
        """
        return self.slot_of(self.value(tensor), tensor.shape)

    def slot_of(self, value: Value, shape: Sequence[int]) -> int:
        """Return a slot with the numbers of a value, broadcast to a shape ``[B, ...]``.

        :param value: the value.
        :param shape: the shape.
        :raises NotNativeError: see :meth:`rows`.
        """
        slot, places = self._slot(value), value.places.expand(tuple(shape))
        if not shape or shape[0] != self.batch:
            raise NotNativeError(f"the network returns {list(shape)} numbers for {self.batch} observations")
        if not places.numel():
            raise NotNativeError("the network computes a tensor without numbers")
        of_rows = places.reshape(self.batch, -1)
        if value.batched:
            of_rows = of_rows - self._widths[slot] * torch.arange(self.batch).unsqueeze(1)
        if not (of_rows == of_rows[0]).all() or of_rows.min() < 0 or of_rows.max() >= self._widths[slot]:
            raise NotNativeError("the network mixes the numbers of several rows")
        return self._picked(slot, of_rows[0])

    def constant(self, value: Value, shape: Sequence[int]) -> int:
        """Return a slot with the numbers of a value that is the same for all rows, broadcast to a shape.

        :param value: the value.
        :param shape: the shape, without rows.
        """
        return self._picked(self._slot(value), value.places.expand(tuple(shape)).flatten())

    def joined(self, slots: Sequence[int]) -> int:
        """Return a slot with the numbers of several slots, one after the other.

        :param slots: the slots.
        """
        return slots[0] if len(slots) == 1 else self.add("join", np.array(slots, np.int64))

    def last(self, slot: int) -> int:
        """Return the last slot with the numbers of a slot, which are copied if another one is the last.

        :param slot: the slot.
        """
        return slot if slot == len(self.nodes) else self.add("pick", slot, np.arange(self._widths[slot]))

    def _picked(self, slot: int, places: Tensor) -> int:
        if is_identity(places, self._widths[slot]):
            return slot
        return self.add("pick", slot, places.numpy().astype(np.int64))

    def _slot(self, value: Value) -> int:
        """Return the slot in which the places of a value are."""
        if value.slot is not None:
            return value.slot
        source = id(value.made_by if value.tensor is None else value.tensor)
        if source not in self._slots:
            if value.tensor is not None:
                node: Node = ("constant", self.weights(value.tensor).reshape(-1))
            else:
                name, shape, operands, numbers = value.made_by
                node = (name, *(self.constant(operand, shape) for operand in operands), *numbers)
            self._slots[source] = self.add(*node)
            self._alive.append(value)
        return self._slots[source]

    # -- operations ----------------------------------------------------------------------------------------------------

    def elementwise(self, result: Tensor, name: str, operands: Sequence[Tensor], *numbers: float) -> None:
        """Record a result of which each number is computed of the numbers at its place.

        :param result: the result.
        :param name: the name of a node.
        :param operands: tensors that are broadcast to the result.
        :param numbers: what else the node has.
        :raises NotNativeError: an operand is changed in place, of which there are views, or which is one.
        """
        if any(result is operand for operand in operands):
            self._refuse_views(result)
        self.set(result, self.computed(result.shape, name, map(self.value, operands), *numbers))

    def computed(self, shape: Sequence[int], name: str, operands: Iterable[Value], *numbers: float) -> Value:
        """Return a value of which each number is computed of the numbers at its place.

        :param shape: its shape.
        :param name: the name of a node.
        :param operands: values that are broadcast to the shape.
        :param numbers: what else the node has.
        """
        values, whole = [*operands], tuple(shape)
        if any(value.batched for value in values):
            slots = [self.slot_of(value, whole) for value in values]
            return self.whole(self.add(name, *slots, *numbers), whole[1:])
        shape = whole
        wide = [replace(value, places=value.places.expand(shape)) for value in values]
        if shape[:1] == (self.batch,) and all((value.places == value.places[0]).all() for value in wide):
            values = [replace(value, places=value.places[0]) for value in wide]  # expanded to the rows
            shape = shape[1:]
        places = torch.arange(math.prod(shape)).view(shape).expand(whole)
        return Value(places, batched=False, made_by=(name, shape, values, numbers))

    def moved(self, result: Any, function: Callable[..., Any], *inputs: Tensor) -> None:
        """Record the results of a function that only moves numbers.

        :param result: a tensor, or several.
        :param function: does the same with the places of the numbers, of each input.
        :param inputs: the tensors whose numbers are moved.
        """
        values = [self.value(tensor) for tensor in inputs if tensor.numel()]
        value, places = (values[0], [values[0].places]) if len(inputs) == 1 else self._joined(values)
        found = function(*places)
        results, founds = ((each,) if isinstance(each, Tensor) else each for each in (result, found))
        for tensor, where in zip(results, founds, strict=True):
            self.set(tensor, replace(value, places=where), inputs[0].dtype)

    def _joined(self, values: Sequence[Value]) -> tuple[Value, list[Tensor]]:
        """Return one value with the numbers of several, and the places of each."""
        shapes, batched = [value.places.shape for value in values], any(value.batched for value in values)
        slot_of = self.slot_of if batched else self.constant
        slots = [slot_of(value, shape) for value, shape in zip(values, shapes, strict=True)]
        starts = [0, *itertools.accumulate(self._widths[slot] for slot in slots)]
        slot = self.add("join", np.array(slots, np.int64))
        row = self._widths[slot] * torch.arange(self.batch if batched else 1).unsqueeze(1)
        places = [
            (row + torch.arange(start, stop)).view(shape)
            for (start, stop), shape in zip(itertools.pairwise(starts), shapes, strict=True)
        ]
        return Value(torch.arange(0), batched, slot), places
