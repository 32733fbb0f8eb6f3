"""The functions of torch that become nodes of the engine, by their names."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlfast.policy.native.tracing import Call
from rlfast.policy.native.values import Program, Value, is_identity, places_of
from rlfast.utils.runtime.native import NotNativeError
from rlfast.utils.torch_private.changes import GRADIENT_MODE

Sizes: TypeAlias = int | Sequence[int]
"""A number for each axis of images, or one for all."""
MOST_SHIFTED = 2**22
"""The largest integer that may be added to integers. A float holds all integers up to 2**24, so that larger ones, and
their sums, are rounded in proportion to their size."""
Operation: TypeAlias = Callable[[Program, Call], None]
OPERATIONS: dict[str, Operation] = {}
"""What adds the nodes of a call, by the name of the function."""


def operation(*names: str) -> Callable[[Operation], Operation]:
    """Declare what adds the nodes of functions.

    :param names: the names of the functions.
    """

    def declared(add: Operation) -> Operation:
        OPERATIONS.update(dict.fromkeys(names, add))
        return add

    return declared


def arguments(call: Call, *names: str, **defaults: Any) -> list[Any]:
    """Return the arguments of a call in the order of these names.

    :param call: the call.
    :param names: those that must be given.
    :param defaults: the others, and their defaults.
    :raises NotNativeError: there are others.
    """
    wanted = [*names, *defaults]
    given = dict(zip(wanted, call.args, strict=False)) | call.kwargs
    if len(call.args) > len(wanted) or not set(names) <= set(given) <= set(wanted):
        raise NotNativeError(f"the network calls torch's {call.name} with other arguments than are known")
    return [given.get(name, defaults.get(name)) for name in wanted]


# -- no numbers, and numbers that only move ----------------------------------------------------------------------------


@operation(
    "shape", "size", "dim", "ndim", "numel", "nelement", "dtype", "device", "layout", "is_cuda", "is_contiguous",
    "is_floating_point", "requires_grad", "__len__", "stride", "is_tensor", "get_default_dtype", "is_sparse",
    GRADIENT_MODE,
)  # fmt: skip
def _fact(program: Program, call: Call) -> None:
    """Facts about tensors, which do not depend on their numbers."""


@operation("zeros", "ones", "full", "arange", "linspace", "zeros_like", "ones_like", "full_like", "eye")
def _made(program: Program, call: Call) -> None:
    """Tensors made of numbers of Python: constants, which may have a row for each observation."""
    made: Tensor = call.result
    if any(isinstance(argument, Tensor) for argument in call.args[1:]):
        raise NotNativeError(f"the network calls {call.name} with a tensor")
    places = torch.arange(made.numel()).view(made.shape)
    if made.numel() and (made == made.flatten()[0]).all():
        places = torch.zeros(1, dtype=torch.int64).expand(made.shape)
    elif made.dim() and len(made) == program.batch and (made == made[:1]).all():
        places = places[:1].expand(made.shape)
    if made.dtype == torch.float32:
        program.set(made, Value(places, batched=False, tensor=made))


@operation(
    "view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "permute", "transpose", "swapaxes", "movedim",
    "t", "T", "mT", "chunk", "split", "tensor_split", "unbind", "__getitem__", "narrow", "select", "expand",
    "expand_as", "broadcast_to", "repeat", "tile", "flip", "roll", "view_as", "reshape_as", "contiguous", "clone",
    "detach", "data", "alias",
)  # fmt: skip
def _move(program: Program, call: Call) -> None:
    moved, *others = call.args
    for other in others:
        parts = other if isinstance(other, tuple) else (other,)
        if call.name not in ("expand_as", "view_as", "reshape_as") and any(isinstance(part, Tensor) for part in parts):
            raise NotNativeError(f"the network gives {call.name} a tensor of places")
    program.moved(call.result, lambda places: call.function(places, *others, **call.kwargs), moved)


@operation("to", "float", "type", "type_as", "as_tensor", "tensor", "cpu", "double", "half", "bfloat16", "long", "int")
def _convert(program: Program, call: Call) -> None:
    """Conversions, which change nothing: results of other dtypes are refused, but for integers of integers."""
    x = call.args[0]
    kinds = {x.dtype, call.result.dtype} if isinstance(x, Tensor) else set()
    if kinds and kinds <= {torch.int64, torch.int32, torch.uint8}:
        if call.result.dtype == torch.uint8 != x.dtype:
            raise NotNativeError("the network makes bytes of larger integers")
        program.set(call.result, program.value(x), call.result.dtype)
    elif isinstance(x, Tensor):
        program.moved(call.result, lambda places: places, x)
    else:
        _made(program, call)


@operation("cat", "concat", "concatenate", "stack", "hstack", "vstack")
def _join(program: Program, call: Call) -> None:
    tensors = call.args[0] if call.args else call.kwargs["tensors"]
    options = {name: value for name, value in call.kwargs.items() if name != "tensors"}
    filled = [tensor for tensor in tensors if tensor.numel()]
    program.moved(call.result, lambda *places: call.function(places, *call.args[1:], **options), *filled)


# -- functions of each number ------------------------------------------------------------------------------------------


def _function(name: str, *torch_names: str, **numbers: float) -> None:
    """Declare a function of each number, and its parameters with their defaults."""

    @operation(*torch_names)
    def add(program: Program, call: Call) -> None:
        x, *given, _ = arguments(call, "input", **numbers, inplace=False)
        program.elementwise(call.result, name, [x], *map(float, given))


_function("tanh", "tanh")
_function("sigmoid", "sigmoid")
_function("exp", "exp")
_function("log", "log")
_function("sqrt", "sqrt")
_function("square", "square")
_function("abs", "abs", "absolute")
_function("reciprocal", "reciprocal")
_function("relu", "relu", "relu_")
_function("silu", "silu")
_function("leaky_relu", "leaky_relu", negative_slope=0.01)
_function("elu", "elu", alpha=1.0)
_function("softplus", "softplus", beta=1.0, threshold=20.0)


@operation("gelu")
def _gelu(program: Program, call: Call) -> None:
    x, approximate = arguments(call, "input", approximate="none")
    program.elementwise(call.result, "gelu" if approximate == "none" else "gelu_tanh", [x])


@operation("clamp", "clip")
def _clamp(program: Program, call: Call) -> None:
    x, low, high = arguments(call, "input", min=None, max=None)
    _clamped(program, call.result, x, low, high)


@operation("hardtanh")
def _hardtanh(program: Program, call: Call) -> None:
    x, low, high, _ = arguments(call, "input", min_val=-1.0, max_val=1.0, inplace=False)
    _clamped(program, call.result, x, low, high)


@operation("relu6")
def _relu6(program: Program, call: Call) -> None:
    _clamped(program, call.result, call.args[0], 0.0, 6.0)


def _clamped(program: Program, result: Tensor, x: Tensor, low: object, high: object) -> None:
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        raise NotNativeError("the network clamps by tensors")
    bounds = [-math.inf if low is None else float(low), math.inf if high is None else float(high)]  # type: ignore[arg-type]
    if bounds[0] > bounds[1]:
        raise NotNativeError("the network clamps between a number and a smaller one")
    program.elementwise(result, "clamp", [x], *bounds)


@operation("dropout")
def _dropout(program: Program, call: Call) -> None:
    x, _, training, _ = arguments(call, "input", p=0.5, training=True, inplace=False)
    if training:
        raise NotNativeError("a Dropout is in training mode")
    program.moved(call.result, lambda places: places, x)


@operation("neg", "negative")
def _neg(program: Program, call: Call) -> None:
    program.elementwise(call.result, "scale", [call.args[0]], -1.0)


@operation("rsqrt")
def _rsqrt(program: Program, call: Call) -> None:
    root = program.computed(call.result.shape, "sqrt", [program.value(call.args[0])])
    program.set(call.result, program.computed(call.result.shape, "reciprocal", [root]))


@operation("pow", "__pow__")
def _pow(program: Program, call: Call) -> None:
    x, exponent = arguments(call, "input", "exponent")
    names = {2: "square", 0.5: "sqrt", -1: "reciprocal"}
    if not isinstance(x, Tensor) or isinstance(exponent, Tensor) or exponent not in names:
        raise NotNativeError("the network takes other powers than 2, 0.5 and -1")
    program.elementwise(call.result, names[exponent], [x])


# -- functions of two numbers ------------------------------------------------------------------------------------------


@operation("add", "__radd__", "sub", "subtract", "__rsub__", "rsub")
def _add(program: Program, call: Call) -> None:
    x, y, alpha = arguments(call, "input", "other", alpha=1)
    if alpha != 1:
        raise NotNativeError(f"the network calls torch's {call.name} with alpha")
    if call.name in ("__rsub__", "rsub"):
        x, y = y, x
    sign = 1.0 if "add" in call.name else -1.0
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        program.elementwise(call.result, "add" if sign > 0 else "subtract", [x, y])
    elif isinstance(x, Tensor):
        dtype = torch.int64 if call.result.dtype == x.dtype == torch.int64 else torch.float32
        if dtype == torch.int64 and abs(y) > MOST_SHIFTED:
            raise NotNativeError(f"the network adds integers beyond {MOST_SHIFTED}, and the engine has floats")
        program.set(call.result, program.computed(x.shape, "shift", [program.value(x)], sign * float(y)), dtype)
    else:
        signed = program.value(y)
        if sign < 0:
            signed = program.computed(y.shape, "scale", [signed], sign)
        program.set(call.result, program.computed(y.shape, "shift", [signed], float(x)))


@operation("mul", "multiply", "__rmul__")
def _mul(program: Program, call: Call) -> None:
    x, y = arguments(call, "input", "other")
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        program.elementwise(call.result, "multiply", [x, y])
    else:
        x, factor = (x, y) if isinstance(x, Tensor) else (y, x)
        program.elementwise(call.result, "scale", [x], float(factor))


@operation("div", "divide", "true_divide", "__rdiv__", "__rtruediv__")
def _div(program: Program, call: Call) -> None:
    x, y = arguments(call, "input", "other")
    if call.name.startswith("__r"):
        x, y = y, x
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        program.elementwise(call.result, "divide", [x, y])
    elif isinstance(x, Tensor):
        program.elementwise(call.result, "scale", [x], 1 / float(y))
    else:
        inverse = program.computed(y.shape, "reciprocal", [program.value(y)])
        program.set(call.result, program.computed(y.shape, "scale", [inverse], float(x)))


@operation("maximum", "minimum")
def _extremum(program: Program, call: Call) -> None:
    program.elementwise(call.result, call.name, arguments(call, "input", "other"))


@operation("addcmul")
def _addcmul(program: Program, call: Call) -> None:
    x, one, other = map(program.value, arguments(call, "input", "tensor1", "tensor2"))
    product = program.computed(call.result.shape, "multiply", [one, other])
    program.set(call.result, program.computed(call.result.shape, "add", [x, product]))


@operation("outer", "ger")
def _outer(program: Program, call: Call) -> None:
    one, other = arguments(call, "input", "vec2")
    column, row = one.unsqueeze(1), other.unsqueeze(0)
    program.moved(column, lambda places: places.unsqueeze(1), one)
    program.moved(row, lambda places: places.unsqueeze(0), other)
    program.elementwise(call.result, "multiply", [column, row])


# -- layers ------------------------------------------------------------------------------------------------------------


@operation("linear")
def _linear(program: Program, call: Call) -> None:
    x, weight, bias = arguments(call, "input", "weight", bias=None)
    _product(program, call.result, x, program.value(weight), bias)


@operation("addmm")
def _addmm(program: Program, call: Call) -> None:
    bias, x, matrix = arguments(call, "input", "mat1", "mat2")
    _product(program, call.result, x, _turned(program.value(matrix)), bias)


@operation("matmul", "mm", "__matmul__")
def _matmul(program: Program, call: Call) -> None:
    x, matrix = arguments(call, "input", "other")
    _product(program, call.result, x, _turned(program.value(matrix)), None)


def _turned(matrix: Value) -> Value:
    if matrix.batched or matrix.places.dim() != 2:
        raise NotNativeError("the network multiplies other matrices than rows and weights")
    return replace(matrix, places=matrix.places.T)


def _product(program: Program, result: Tensor, x: Tensor, weight: Value, bias: Tensor | None) -> None:
    """Record the products of vectors, the last axis of ``x``, with a matrix of a row for each output."""
    value = program.value(x)
    if not value.batched or weight.batched or weight.places.dim() != 2 or x.dim() < 2:
        raise NotNativeError("the network multiplies other matrices than rows and weights")
    vectors = value.places.reshape(program.batch, -1, x.shape[-1])
    slots = []
    for k in range(vectors.shape[1]):
        vector = replace(value, places=vectors[:, k])
        slots.append(_times(program, program.slot_of(vector, vector.places.shape), weight, bias))
    slot = slots[0] if len(slots) == 1 else program.add("join", np.array(slots, np.int64))
    program.set(result, program.whole(slot, result.shape[1:]))


def _times(program: Program, slot: int, weight: Value, bias: Tensor | None) -> int:
    """Return the slot of the product of a vector and a matrix, plus a vector.

    A matrix that is a sum, or a product with one number for each row or column, is not computed: such as the weights
    of a layer with noise (arXiv:1706.10295).
    """
    outputs, inputs = weight.places.shape
    added = None if bias is None else program.value(bias)
    is_turned = replace(weight, places=weight.places.T).is_matrix
    if weight.tensor is not None and (weight.is_matrix or is_turned):
        own = added.tensor if added is not None and added.is_tensor else None
        numbers = None if own is None else program.weights(own)
        name = "linear" if weight.is_matrix else "linear_turned"
        slot = program.add(name, slot, program.weights(weight.tensor), numbers, False)
        if own is not None or added is None:
            return slot
    else:
        if not is_computed(weight):
            raise NotNativeError("the network multiplies with a part of a matrix")
        name, _, operands, numbers = weight.made_by
        if name in ("add", "subtract"):
            slot = program.add(name, *(_times(program, slot, operand, None) for operand in operands))
        elif name == "scale":
            slot = program.add("scale", _times(program, slot, operands[0], None), *numbers)
        elif name == "multiply":
            slot = _scaled_product(program, slot, operands, (outputs, inputs))
        else:
            raise NotNativeError(f"the network multiplies with weights that it computes by {name}")
    if added is not None:
        slot = program.add("add", slot, program.constant(added, (outputs,)))
    return slot


def _scaled_product(program: Program, slot: int, factors: list[Value], shape: tuple[int, int]) -> int:
    """Return the slot of the product with a matrix whose rows or columns are multiplied by numbers."""
    outputs, inputs = shape
    matrices: list[Value] = []
    columns: list[Value] = []
    rows: list[Value] = []
    for factor in sorted(_factors(factors), key=lambda factor: not factor.is_matrix):
        wide = replace(factor, places=factor.places.expand(shape))
        if factor.is_matrix and not matrices and factor.places.shape == shape:
            matrices.append(factor)
        elif (wide.places == wide.places[:1]).all():
            columns.append(replace(wide, places=wide.places[0]))
        elif (wide.places == wide.places[:, :1]).all():
            rows.append(replace(wide, places=wide.places[:, 0]))
        else:
            matrices.append(factor)
    if len(matrices) != 1:
        raise NotNativeError("the network multiplies with weights that it computes")
    for column in columns:
        slot = program.add("multiply", slot, program.constant(column, (inputs,)))
    slot = _times(program, slot, matrices[0], None)
    for row in rows:
        slot = program.add("multiply", slot, program.constant(row, (outputs,)))
    return slot


def is_computed(value: Value) -> bool:
    """Return whether a value is what an operation computes of constants, in its order."""
    return bool(value.made_by) and is_identity(value.places, math.prod(value.made_by[1]))


def _factors(values: list[Value]) -> list[Value]:
    """Return values, and for products among them their factors."""
    found = []
    for value in values:
        is_product = is_computed(value) and value.made_by[0] == "multiply" and value.places.dim() == 2
        found += _factors(value.made_by[2]) if is_product else [value]
    return found


@operation("layer_norm")
def _layer_norm(program: Program, call: Call) -> None:
    x, shape, weight, bias, epsilon = arguments(call, "input", "normalized_shape", weight=None, bias=None, eps=1e-5)
    _normalized(program, call.result, x, math.prod(shape), float(epsilon), 1.0, weight, bias)


@operation("rms_norm")
def _rms_norm(program: Program, call: Call) -> None:
    x, shape, weight, epsilon = arguments(call, "input", "normalized_shape", weight=None, eps=None)
    epsilon = torch.finfo(torch.float32).eps if epsilon is None else epsilon
    _normalized(program, call.result, x, math.prod(shape), float(epsilon), 0.0, weight, None)


def _normalized(
    program: Program,
    result: Tensor,
    x: Tensor,
    size: int,
    epsilon: float,
    centered: float,
    weight: Tensor | None,
    bias: Tensor | None,
) -> None:
    """Record groups of numbers that are scaled to a mean square of 1, then by a weight and a bias for each."""
    affine = [None if tensor is None else program.value(tensor) for tensor in (weight, bias)]
    read = [None if value is None or value.tensor is None else program.weights(value.tensor) for value in affine]
    if any(value is not None and not value.is_tensor for value in affine):
        raise NotNativeError("the network normalizes with weights that it computes")
    slot = program.add("normalize", program.rows(x), size, epsilon, centered, *read)
    program.set(result, program.whole(slot, result.shape[1:]))


@operation("group_norm")
def _group_norm(program: Program, call: Call) -> None:
    x, groups, weight, bias, epsilon = arguments(call, "input", "num_groups", weight=None, bias=None, eps=1e-5)
    size = x[0].numel() // groups
    slot = program.add("normalize", program.rows(x), size, float(epsilon), 1.0, None, None)
    slot = _affine(program, slot, call.result, weight, bias)
    program.set(call.result, program.whole(slot, call.result.shape[1:]))


@operation("batch_norm")
def _batch_norm(program: Program, call: Call) -> None:
    x, mean, variance, weight, bias, training, _, epsilon = arguments(
        call, "input", "running_mean", "running_var", weight=None, bias=None, training=False, momentum=0.1, eps=1e-5
    )
    if training:
        raise NotNativeError("a BatchNorm is in training mode")
    shape = variance.shape
    shifted = program.computed(shape, "shift", [program.value(variance)], float(epsilon))
    inverse = program.computed(shape, "reciprocal", [program.computed(shape, "sqrt", [shifted])])
    slot = program.rows(x)
    for name, value in (("subtract", program.value(mean)), ("multiply", inverse)):
        slot = program.add(name, slot, program.slot_of(_of_channels(value, x.dim()), x.shape))
    slot = _affine(program, slot, call.result, weight, bias)
    program.set(call.result, program.whole(slot, call.result.shape[1:]))


def _of_channels(value: Value, dims: int) -> Value:
    """Return a number for each channel, in a shape that is broadcast to ``[B, channels, ...]``."""
    return replace(value, places=value.places.view(-1, *(1,) * (dims - 2)))


def _affine(program: Program, slot: int, result: Tensor, weight: Tensor | None, bias: Tensor | None) -> int:
    for name, tensor in (("multiply", weight), ("add", bias)):
        if tensor is not None:
            value = _of_channels(program.value(tensor), result.dim())
            slot = program.add(name, slot, program.slot_of(value, result.shape))
    return slot


# -- recurrent layers --------------------------------------------------------------------------------------------------


@operation("lstm", "gru")
def _recurrent(program: Program, call: Call) -> None:
    x, before, weights, has_bias, layers, dropout, training, bidirectional, batch_first = arguments(
        call, "input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first"
    )
    each = 4 if has_bias else 2
    if not isinstance(weights, list | tuple) or len(weights) != layers * each or bidirectional or x.dim() != 3:
        raise NotNativeError(f"the network runs a {call.name} of two directions, with projections, or on packed rows")
    if training and dropout and layers > 1:
        raise NotNativeError(f"a {call.name} has dropout in training mode")
    value = program.value(x)
    places = value.places if batch_first else value.places.transpose(0, 1)
    steps = [program.slot_of(replace(value, places=places[:, t]), places[:, t].shape) for t in range(places.shape[1])]
    after: list[list[int]] = []
    for layer in range(layers):
        own = weights[layer * each : (layer + 1) * each]
        state = [_of_layer(program, tensor, layer) for tensor in (before if call.name == "lstm" else (before,))]
        for t, slot in enumerate(steps):
            state = _cell(program, call.name, slot, state, *own)
            steps[t] = state[0]
        after.append(state)
    output, *states = call.result
    joined = program.whole(program.joined(steps), (len(steps), output.shape[-1]))
    program.set(output, joined if batch_first else replace(joined, places=joined.places.transpose(0, 1)))
    for tensor, slots in zip(states, zip(*after, strict=True), strict=True):
        whole = program.whole(program.joined(slots), (layers, tensor.shape[-1]))
        program.set(tensor, replace(whole, places=whole.places.transpose(0, 1)))


@operation("lstm_cell", "gru_cell")
def _recurrent_cell(program: Program, call: Call) -> None:
    x, before, *weights = arguments(call, "input", "hx", "w_ih", "w_hh", b_ih=None, b_hh=None)
    tensors, results = (before, call.result) if call.name == "lstm_cell" else ((before,), (call.result,))
    state = [program.rows(tensor) for tensor in tensors]
    state = _cell(program, call.name.removesuffix("_cell"), program.rows(x), state, *weights)
    for tensor, slot in zip(results, state, strict=True):
        program.set(tensor, program.whole(slot, tensor.shape[1:]))


def _of_layer(program: Program, tensor: Tensor, layer: int) -> int:
    value = program.value(tensor)
    return program.slot_of(replace(value, places=value.places[layer]), tensor.shape[1:])


def _cell(program: Program, name: str, x: int, state: Sequence[int], *weights: Tensor | None) -> list[int]:
    """Return the slots of the state after a step: the output, and the cell of an LSTM.

    :param weights: of the input and the output, ``[4 or 3 gates, ...]``, and their biases, if any.
    """
    read: list[Any] = []
    for weight in weights:
        value = None if weight is None else program.value(weight)
        if value is not None and not (value.is_tensor and value.tensor is not None):
            raise NotNativeError(f"the network runs a {name} with weights that it computes")
        read.append(None if value is None or value.tensor is None else program.weights(value.tensor))
    of_input, of_output, *biases = [*read, None, None][:4]
    size = of_output.shape[1]
    from_input = program.add("linear", x, of_input, biases[0], False)
    from_output = program.add("linear", state[0], of_output, biases[1], False)

    def gate(slot: int, k: int, count: int = 1) -> int:
        return program.add("pick", slot, np.arange(k * size, (k + count) * size))

    if name == "lstm":
        gates = program.add("add", from_input, from_output)
        opened = program.add("sigmoid", gate(gates, 0, 2))
        new = program.add("multiply", gate(opened, 0), program.add("tanh", gate(gates, 2)))
        cell = program.add("add", program.add("multiply", gate(opened, 1), state[1]), new)
        shown = program.add("sigmoid", gate(gates, 3))
        return [program.add("multiply", shown, program.add("tanh", cell)), cell]
    opened = program.add("sigmoid", program.add("add", gate(from_input, 0, 2), gate(from_output, 0, 2)))
    reset = program.add("multiply", gate(opened, 0), gate(from_output, 2))
    new = program.add("tanh", program.add("add", gate(from_input, 2), reset))
    kept = program.add("multiply", gate(opened, 1), program.add("subtract", state[0], new))
    return [program.add("add", new, kept)]


# -- numbers of things ------------------------------------------------------------------------------------------------


@operation("one_hot")
def _one_hot(program: Program, call: Call) -> None:
    x, size = arguments(call, "input", num_classes=-1)
    if size < 1:
        raise NotNativeError("the network calls one_hot without a number of classes")
    program.set(call.result, program.whole(_hot(program, x, size), call.result.shape[1:]), call.result.dtype)


@operation("embedding")
def _embedding(program: Program, call: Call) -> None:
    x, weight, *_ = arguments(
        call, "input", "weight", padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False
    )
    count, size = weight.shape
    hot = program.whole(_hot(program, x, count), (*x.shape[1:], count))
    vectors = hot.places.reshape(program.batch, -1, count)
    rows = [
        program.slot_of(replace(hot, places=vectors[:, k]), (program.batch, count)) for k in range(vectors.shape[1])
    ]
    table = replace(program.value(weight), places=program.value(weight).places.T)
    slot = program.joined([_times(program, row, table, None) for row in rows])
    program.set(call.result, program.whole(slot, (*x.shape[1:], size)))


def _hot(program: Program, x: Tensor, size: int) -> int:
    """Return the slot in which each number of a tensor is a 1 among ``size`` zeros."""
    if x.dtype != torch.int64:
        raise NotNativeError(f"the network looks up rows by {x.dtype}")
    return program.add("one_hot", program.rows(x), size)


# -- images ------------------------------------------------------------------------------------------------------------


def _two(value: Sizes, axes: int, filler: int) -> list[int]:
    """Return a number for the height and one for the width; of vectors, the height is that of one row."""
    given = [value] * axes if isinstance(value, int) else list(value)
    return [*[filler] * (2 - axes), *(int(number) for number in given * (axes if len(given) == 1 else 1))]


def _window(x: Tensor, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes) -> NDArray[np.int64]:
    """Return the numbers of a window: see :func:`~rlfast.policy.native.values.places_of`."""
    axes = x.dim() - 2
    if axes not in (1, 2):
        raise NotNativeError("the network convolves others than batches of vectors or images")
    sizes = _two(x.shape[2:], axes, 1), _two(kernel, axes, 1), _two(stride, axes, 1)
    return np.array([x.shape[1], *itertools.chain(*sizes, _two(padding, axes, 0), _two(dilation, axes, 1))], np.int64)


@operation("conv1d", "conv2d")
def _conv(program: Program, call: Call) -> None:
    x, weight, bias, stride, padding, dilation, groups = arguments(
        call, "input", "weight", bias=None, stride=1, padding=0, dilation=1, groups=1
    )
    kernel = weight.shape[2:]
    if padding == "valid":
        padding = 0
    elif padding == "same":
        steps = dilation if isinstance(dilation, tuple) else (dilation,) * len(kernel)
        reaches = [step * (size - 1) for step, size in zip(steps, kernel, strict=True)]
        if any(reach % 2 for reach in reaches):
            raise NotNativeError("the network pads images by other numbers on the left than on the right")
        padding = tuple(reach // 2 for reach in reaches)
    values = [program.value(tensor) for tensor in (weight, *([] if bias is None else [bias]))]
    slot = program.rows(x)
    if values[0].made_by[:1] == ("scale",):  # as weights that scale images at once
        slot, values[0] = program.add("scale", slot, *values[0].made_by[3]), values[0].made_by[2][0]
    if not all(value.is_tensor for value in values):
        raise NotNativeError("the network convolves with weights that it computes")
    read = [program.weights(value.tensor) for value in values if value.tensor is not None]
    window = _window(x, kernel, stride, padding, dilation)
    slot = program.add("conv", slot, read[0], read[1] if bias is not None else None, window, groups, False)
    program.set(call.result, program.whole(slot, call.result.shape[1:]))


@operation("max_pool1d", "max_pool2d")
def _max_pool(program: Program, call: Call) -> None:
    x, kernel, stride, padding, dilation, _, indices = arguments(
        call, "input", "kernel_size", stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False
    )
    if indices:
        raise NotNativeError("the network reads the places of the greatest numbers")
    _pool(program, call, "max_pool", _window(x, kernel, stride or kernel, padding, dilation))


@operation("avg_pool1d", "avg_pool2d")
def _mean_pool(program: Program, call: Call) -> None:
    x, kernel, stride, padding, _, counted, divisor = arguments(
        call, "input", "kernel_size", stride=None, padding=0, ceil_mode=False, count_include_pad=True,
        divisor_override=None,
    )  # fmt: skip
    window = _window(x, kernel, stride or kernel, padding, 1)
    if divisor is not None or (not counted and window[7:9].any()):
        raise NotNativeError("the network divides sums of windows by other numbers than their sizes")
    _pool(program, call, "mean_pool", window)


@operation("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d")
def _adaptive_pool(program: Program, call: Call) -> None:
    x, _, indices = arguments(call, "input", "output_size", return_indices=False)
    sizes = [(before, after) for before, after in zip(x.shape[2:], call.result.shape[2:], strict=True)]
    if indices or any(before % after for before, after in sizes):
        raise NotNativeError("the network pools windows of several sizes")
    kernel = tuple(before // after for before, after in sizes)
    name = "mean_pool" if "avg" in call.name else "max_pool"
    _pool(program, call, name, _window(x, kernel, kernel, 0, 1))


def _pool(program: Program, call: Call, name: str, window: NDArray[np.int64]) -> None:
    x: Tensor = call.args[0] if call.args else call.kwargs["input"]
    if (1,) * (4 - x.dim()) + tuple(call.result.shape[2:]) != places_of(window):
        raise NotNativeError("the network pools windows that reach over the border (ceil_mode)")
    slot = program.add(name, program.rows(x), window)
    program.set(call.result, program.whole(slot, call.result.shape[1:]))


# -- functions of groups of numbers ------------------------------------------------------------------------------------


@operation("softmax")
def _softmax(program: Program, call: Call) -> None:
    x, dim, _, dtype = arguments(call, "input", "dim", _stacklevel=3, dtype=None)
    if dtype not in (None, torch.float32):
        raise NotNativeError(f"the network computes a softmax in {dtype}")
    axis, value = dim % x.dim(), program.value(x)
    places = value.places.movedim(axis, -1)
    slot = program.slot_of(replace(value, places=places), places.shape)
    whole = program.whole(program.add("softmax", slot, places.shape[-1]), places.shape[1:])
    program.set(call.result, replace(whole, places=whole.places.movedim(-1, axis)))


@operation("mean", "sum", "amax", "amin")
def _reduce(program: Program, call: Call) -> None:
    x, dim, _ = arguments(call, "input", dim=None, keepdim=False)
    name = call.name.removeprefix("a")
    program.set(call.result, _reduced(program, call.result.shape, program.value(x), dim, name))


def _reduced(program: Program, shape: Sequence[int], x: Value, dim: object, name: str) -> Value:
    dims = x.places.dim()
    axes = [axis % dims for axis in ([dim] if isinstance(dim, int) else _axes(dim, dims))]
    if 0 in axes or not x.batched:
        raise NotNativeError(f"the network computes the {name} of several rows")
    places = x.places.movedim(axes, [-k for k in range(len(axes), 0, -1)])
    size = math.prod(x.places.shape[axis] for axis in axes)
    slot = program.add(name, program.slot_of(replace(x, places=places), places.shape), size)
    return program.whole(slot, shape[1:])


def _axes(dim: Any, dims: int) -> list[int]:
    return [*(dim or range(dims))]


@operation("log_softmax", "logsumexp")
def _log_softmax(program: Program, call: Call) -> None:
    options = {"_stacklevel": 3, "dtype": None} if call.name == "log_softmax" else {"keepdim": False}
    tensor, dim, *_ = arguments(call, "input", "dim", **options)
    x = program.value(tensor)
    one = [*tensor.shape]
    for axis in [dim] if isinstance(dim, int) else _axes(dim, tensor.dim()):
        one[axis] = 1
    largest = _reduced(program, one, x, dim, "max")
    below = program.computed(tensor.shape, "subtract", [x, largest])
    powers = program.computed(tensor.shape, "exp", [below])
    total = program.computed(one, "log", [_reduced(program, one, powers, dim, "sum")])
    if call.name == "log_softmax":
        program.set(call.result, program.computed(tensor.shape, "subtract", [below, total]))
        return
    found = program.computed(one, "add", [largest, total])
    program.set(call.result, replace(found, places=found.places.reshape(call.result.shape)))


@operation("normalize")
def _normalize(program: Program, call: Call) -> None:
    """``F.normalize``: vectors divided by their lengths."""
    x, p, dim, epsilon, out = arguments(call, "input", p=2.0, dim=1, eps=1e-12, out=None)
    if p != 2.0 or out is not None:
        raise NotNativeError(f"the network divides by the norm of order {p}")
    value, one = program.value(x), [*x.shape]
    for axis in [dim] if isinstance(dim, int) else dim:
        one[axis] = 1
    total = _reduced(program, one, program.computed(x.shape, "square", [value]), dim, "sum")
    length = program.computed(one, "clamp", [program.computed(one, "sqrt", [total])], float(epsilon), math.inf)
    program.set(call.result, program.computed(x.shape, "divide", [value, length]))
