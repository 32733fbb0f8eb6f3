"""Lossless conversion of nested plain data to JSON and arrays, for checkpoints. Nothing is pickled."""

from __future__ import annotations

import base64
import json
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

WRONG_DATA = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, AssertionError, RecursionError)
"""The errors that reading damaged data can raise."""

_TAG = "~"  # the key that names the type of a value without a JSON type
_NUMBERS = "biuf"


def pack(tree: object) -> tuple[str, dict[str, NDArray[Any]]]:
    """Converts nested dicts (with any plain keys), lists and tuples of numbers, strings, bytes, arrays and tensors.

    Arrays may hold numbers, strings, or objects that are such data. :func:`unpack` restores numbers exactly, including
    NaN and infinities, and tensors on the CPU.

    :param tree: the nested data.
    :return: JSON, and the arrays by the names that the JSON gives them.
    :raises TypeError: there is a value of another type; the message says where.

    >>> text, arrays = pack({"a": (1, 2.5, None), 3: np.arange(2)})
    >>> unpack(text, arrays)
    {'a': (1, 2.5, None), 3: array([0, 1])}
    """
    arrays: dict[str, NDArray[Any]] = {}
    return json.dumps(_encode(tree, arrays, "")), arrays


def unpack(text: str, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Restores the data that :func:`pack` converted.

    :param text: the JSON.
    :param arrays: the arrays by name.
    :return: the nested data.
    :raises ValueError: the JSON or the arrays are damaged.
    """
    try:
        return _decode(json.loads(text), arrays)
    except WRONG_DATA as error:
        raise ValueError(f"damaged data: {error!r}") from error


def summary(error: BaseException) -> str:
    """Describes an error in a few words, for use in a longer message.

    >>> summary(KeyError("eps")), summary(ValueError("too large"))
    ("KeyError('eps')", 'too large')
    """
    text = " ".join(str(error).split())
    return text if isinstance(error, ValueError) and text else f"{type(error).__name__}({text})"[:300]


def is_plain(tree: object) -> bool:
    """Whether :func:`pack` can convert ``tree``.

    >>> is_plain([1, {"x": np.zeros(2)}]), is_plain([object()])
    (True, False)
    """
    try:
        _encode(tree, {}, "")
    except TypeError:
        return False
    return True


def _encode(value: Any, arrays: dict[str, NDArray[Any]], path: str) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is list:
        return [_encode(entry, arrays, f"{path}[{i}]") for i, entry in enumerate(value)]
    if kind is dict and all(type(key) is str and key != _TAG for key in value):
        return {key: _encode(entry, arrays, f"{path}.{key}") for key, entry in value.items()}
    return _tagged(value, arrays, path)


def _tagged(value: object, arrays: dict[str, NDArray[Any]], path: str) -> dict[str, Any]:
    if type(value) is tuple:
        return {_TAG: "tuple", "items": [_encode(entry, arrays, f"{path}[{i}]") for i, entry in enumerate(value)]}
    if isinstance(value, dict):
        items = [[_encode(k, arrays, path), _encode(v, arrays, f"{path}[{k!r}]")] for k, v in value.items()]
        return {_TAG: "counter" if isinstance(value, Counter) else "dict", "items": items}
    if isinstance(value, bytes):
        return {_TAG: "bytes", "base64": base64.b64encode(value).decode()}
    if isinstance(value, np.ndarray) and value.dtype.kind in _NUMBERS:
        return {_TAG: "array", "name": _store(value, arrays)}
    if isinstance(value, np.ndarray) and value.dtype.kind in "OU":
        items = [_encode(entry, arrays, f"{path}[{i}]") for i, entry in enumerate(value.reshape(-1).tolist())]
        return {_TAG: "objects", "dtype": value.dtype.str, "shape": list(value.shape), "items": items}
    if isinstance(value, np.str_):
        return {_TAG: "word", "text": str(value)}
    if isinstance(value, np.generic) and value.dtype.kind in _NUMBERS:
        return {_TAG: "scalar", "name": _store(np.asarray(value), arrays)}
    torch: Any = sys.modules.get("torch")  # without torch, no value is a tensor
    if torch is not None and isinstance(value, torch.Tensor):
        if value.dtype == torch.bfloat16:
            return {_TAG: "bfloat16", "name": _store(value.detach().cpu().view(torch.int16).numpy(), arrays)}
        return {_TAG: "tensor", "name": _store(value.detach().cpu().numpy(), arrays)}
    raise TypeError(f"{path.lstrip('.') or 'the value'} is a {type(value).__qualname__}, which is not plain data")


def _store(array: NDArray[Any], arrays: dict[str, NDArray[Any]]) -> str:
    name = str(len(arrays))
    arrays[name] = np.array(array, order="C")  # a copy, because the original may change later
    return name


def _decode(value: object, arrays: Mapping[str, NDArray[Any]]) -> Any:
    if isinstance(value, list):
        return [_decode(entry, arrays) for entry in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(_TAG)
    if kind is None:
        return {key: _decode(entry, arrays) for key, entry in value.items()}
    if kind == "tuple":
        return tuple(_decode(entry, arrays) for entry in value["items"])
    if kind in ("dict", "counter"):
        items = {_decode(key, arrays): _decode(entry, arrays) for key, entry in value["items"]}
        return Counter(items) if kind == "counter" else items
    if kind == "bytes":
        return base64.b64decode(value["base64"])
    if kind == "objects":
        return _objects(value, arrays)
    if kind == "word":
        return np.str_(value["text"])
    array = arrays[value["name"]]
    return array[()] if kind == "scalar" else array if kind == "array" else _tensor(kind, array)


def _objects(value: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    dtype = np.dtype(value["dtype"])
    if dtype.kind not in "OU":
        raise TypeError(f"an array of {dtype}")
    result = np.empty(len(value["items"]), dtype)
    for i, entry in enumerate(value["items"]):
        result[i] = _decode(entry, arrays)
    return result.reshape(value["shape"])


def _tensor(kind: str, array: NDArray[Any]) -> Any:
    import torch

    if kind not in ("tensor", "bfloat16"):
        raise KeyError(kind)
    tensor = torch.from_numpy(np.array(array))
    return tensor.view(torch.bfloat16) if kind == "bfloat16" else tensor
