"""Whether actions are such as the environments take, before any of them steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import gymnasium as gym
import numpy as np

from rlfast.env._tree import ARRAY_SPACES, collate_as, objects

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rlfast.env.backend import Tree

Checker: TypeAlias = "Callable[[Any, NDArray[np.int64]], Tree]"
"""Takes actions and the environments they are for, and gives them as leaves ``(len(ids), ...)``."""

_FEW = 64  # up to here, Python finds the smallest and largest of a list before NumPy has started


def checker(space: gym.Space[Any]) -> Checker:
    """Checks actions for environments with this action space.

    Actions come as one array (any space with a shape), as a dict or tuple of such, as the space is nested, or as a
    list of one action for each environment. Bounds of a ``Box`` are the environments' business, many of which clip.

    :raises ValueError: (from what is returned) their number or shape is another, or one is outside the space.
    :raises TypeError: (from what is returned) they are of another kind.
    """
    if isinstance(space, gym.spaces.Dict | gym.spaces.Tuple):
        return _nested(space)
    if not isinstance(space, ARRAY_SPACES):
        return _any(space)
    low, high = _bounds(space)
    convert = converter(space)

    def check(actions: Any, ids: NDArray[np.int64]) -> Tree:
        array = convert(actions, ids)
        if low is None:
            if array.dtype.kind == "f" and np.isnan(array.sum()) and np.isnan(array).any():  # inf - inf is no NaN given
                _raise_outside(array, np.isnan(array), ids, space)
        elif array.ndim == 1 and len(array) <= _FEW:
            few = array.tolist()
            if few and (min(few) < low or max(few) > high):
                _raise_outside(array, (array < low) | (array > high), ids, space)
        elif (outside := (array < low) | (array > high)).any():
            _raise_outside(array, outside, ids, space)
        return array

    return check


def converter(space: gym.Space[Any]) -> Callable[[Any, NDArray[np.int64]], NDArray[Any]]:
    """As :func:`checker` of a space with a shape, but whoever takes the array looks after the bounds."""
    kinds = (
        "iufb" if isinstance(space, gym.spaces.Box) else "iub" if isinstance(space, gym.spaces.MultiBinary) else "iu"
    )
    shape = space.shape or ()

    def convert(actions: Any, ids: NDArray[np.int64]) -> NDArray[Any]:
        array = _as_array(actions)
        if array.shape != (len(ids), *shape):
            _raise_shape(array, ids, space)
        if array.dtype.kind not in kinds:
            raise TypeError(f"got actions of dtype {array.dtype} for {space}: give {_KINDS[kinds]}")
        return array

    return convert


_KINDS = {"iu": "integers", "iub": "integers", "iufb": "numbers"}


def _bounds(space: gym.Space[Any]) -> tuple[Any, Any]:
    """Smallest and largest element; Nones for a ``Box``."""
    if isinstance(space, gym.spaces.Discrete):
        return int(space.start), int(space.start + space.n - 1)
    if isinstance(space, gym.spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    if isinstance(space, gym.spaces.MultiBinary):
        return 0, 1
    return None, None


def _as_array(actions: Any) -> NDArray[Any]:
    if isinstance(actions, np.ndarray):
        return actions if actions.dtype != object else np.array(actions.tolist())
    if hasattr(actions, "detach"):  # a tensor, wherever it lives
        actions = actions.detach().cpu()
    try:
        return np.asarray(actions)
    except ValueError:
        raise ValueError(f"actions must be of one shape to make an array, got {actions!r}") from None


def _raise_shape(array: NDArray[Any], ids: NDArray[np.int64], space: gym.Space[Any]) -> None:
    if not array.ndim or len(array) != len(ids):
        got = f"{len(array)} actions" if array.ndim else "a single action"
        raise ValueError(f"got {got} for {len(ids)} environments: give one action for each")
    raise ValueError(f"got actions of shape {array.shape}, {array.shape[1:]} for each environment, for {space}")


def _raise_outside(array: NDArray[Any], outside: NDArray[np.bool_], ids: NDArray[np.int64], space: Any) -> None:
    k = int(np.argwhere(outside)[0][0])
    raise ValueError(f"the action {array[k]} for environment {ids[k]} is outside its action space {space}")


def _nested(space: gym.spaces.Dict | gym.spaces.Tuple[Any]) -> Checker:
    parts: dict[Any, Checker] = (
        {key: checker(part) for key, part in space.items()}
        if isinstance(space, gym.spaces.Dict)
        else {k: checker(part) for k, part in enumerate(space)}
    )
    whole = Mapping if isinstance(space, gym.spaces.Dict) else tuple

    def check(actions: Any, ids: NDArray[np.int64]) -> Tree:
        if not isinstance(actions, whole):  # one action for each environment
            actions = list(actions)
            if len(actions) != len(ids):
                raise ValueError(f"got {len(actions)} actions for {len(ids)} environments: give one action for each")
            actions = collate_as(space, actions)
        given = actions.keys() if isinstance(actions, Mapping) else range(len(actions))
        if set(given) != parts.keys():
            raise ValueError(f"got actions with the parts {list(given)} for {space}: give {list(parts)}")
        checked = {key: part(actions[key], ids) for key, part in parts.items()}
        return checked if whole is Mapping else tuple(checked.values())

    return check


def _any(space: gym.Space[Any]) -> Checker:
    def check(actions: Any, ids: NDArray[np.int64]) -> Tree:
        rows = list(actions)
        if len(rows) != len(ids):
            raise ValueError(f"got {len(rows)} actions for {len(ids)} environments: give one action for each")
        for i, row in zip(ids.tolist(), rows, strict=True):
            if not space.contains(row):
                raise ValueError(f"the action {row!r} for environment {i} is outside its action space {space}")
        return objects(rows)

    return check
