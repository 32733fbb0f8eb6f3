"""Validation of actions: checks and converts the actions of all environments before any environment steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlfast.env.backends.base import Tree
from rlfast.env.spaces.actions import fitted_actions
from rlfast.env.spaces.batching import ARRAY_SPACES, Space
from rlfast.utils.arguments.checks import ArgumentError
from rlfast.utils.tree import as_host, copied, object_array

Checker: TypeAlias = "Callable[[Any, NDArray[np.int64]], Tree]"
"""A function ``(actions, ids)`` that returns the validated actions as leaves of shape ``(len(ids), ...)``. Those that
environments may write to are copies."""

_FEW = 64  # for arrays of at most this many entries, min() and max() of a Python list are faster than NumPy's


def lenient_checker(space: Space) -> Checker:
    """Makes a checker that accepts one action of any kind for each environment.

    Environments written in Python validate their actions themselves, so only the number of actions is checked.

    Actions may be one array, a dict or tuple of arrays (for ``Dict`` and ``Tuple`` spaces), or a list with one action
    for each environment. They are converted to the dtypes of ``space`` by :func:`fitted_actions`, where that is
    possible. A leaf whose shape or kind of dtype does not match ``space`` becomes an array of objects with one entry
    for each environment. Actions whose nesting does not match ``space`` become one such array.

    :param space: the action space of one environment; None for an environment that declares none.
    :return: the checker. It raises ValueError if the number of actions is not ``len(ids)``, TypeError if it is given a
        single action, and KeyError if an entry of a dict is missing.
    """
    if isinstance(space, gym.spaces.Dict | gym.spaces.Tuple):
        return _nested(space, lenient_checker)
    if not isinstance(space, ARRAY_SPACES):
        return object_rows
    kinds, shape = _kinds(space), tuple(space.shape or ())

    def take(actions: object, ids: NDArray[np.int64]) -> Tree:
        try:
            array = _as_array(actions)
        except (TypeError, ValueError):  # the actions have different shapes
            return object_rows(actions, ids)
        if array.shape != (len(ids), *shape) or array.dtype.kind not in kinds:
            return object_rows(actions, ids)
        converted = fitted_actions(array, space)
        if converted is None or (converted is array and shape):
            return array.copy()
        return converted

    return take


def lenient_checker_of_each(spaces: Sequence[Space]) -> Checker:
    """Makes a :func:`lenient_checker` for environments whose spaces differ in nesting, shapes or dtypes.

    :param spaces: the action space of each environment.
    :return: the checker; it returns an array of objects with one action for each environment. Arrays are converted to
        the dtype of the environment's space, if that is possible.
    """

    def check(actions: object, ids: NDArray[np.int64]) -> Tree:
        rows = object_rows(actions, ids)
        for k, i in enumerate(ids.tolist()):
            row, space = rows[k], spaces[i]
            if not isinstance(row, np.ndarray | np.generic) or not isinstance(space, ARRAY_SPACES):
                continue
            if row.dtype.kind in _kinds(space) and (converted := fitted_actions(np.asarray(row), space)) is not None:
                rows[k] = converted[()]
        return rows

    return check


def checker(space: Space) -> Checker:
    """Makes a strict checker, for environments that are not written in Python and do not validate their actions.

    Actions may have the same forms as for :func:`lenient_checker`. The bounds of a ``Box`` are not checked, as many
    environments clip their actions.

    :param space: the action space of one environment; None accepts every action.
    :return: the checker. It raises ValueError if the number or the shape of the actions is wrong or an action is
        outside the space, TypeError if their dtype is of the wrong kind, and KeyError if an entry of a dict is missing.
    """
    if isinstance(space, gym.spaces.Dict | gym.spaces.Tuple):
        return _nested(space, checker)
    if not isinstance(space, ARRAY_SPACES):
        return _any(space)
    low, high = _bounds(space)
    convert = converter(space)

    def check(actions: object, ids: NDArray[np.int64]) -> Tree:
        array = convert(actions, ids)
        if low is None:
            if array.dtype.kind == "f" and np.isnan(array.sum()) and np.isnan(array).any():  # inf - inf is NaN, too
                _raise_outside(array, np.isnan(array), ids, space)
        elif array.ndim == 1 and len(array) <= _FEW:
            few = array.tolist()
            if few and (min(few) < low or max(few) > high):
                _raise_outside(array, (array < low) | (array > high), ids, space)
        elif (outside := (array < low) | (array > high)).any():
            _raise_outside(array, outside, ids, space)
        converted = fitted_actions(array, space)
        if converted is None:
            raise ValueError(f"got actions that {space.dtype} cannot hold: {array} is outside the action space {space}")
        return converted.copy() if converted is array and array.ndim > 1 else converted

    return check


def converter(space: gym.Space[Any]) -> Callable[[Any, NDArray[np.int64]], NDArray[Any]]:
    """Makes a function that converts actions into one array and checks its shape and dtype, but not its bounds.

    :param space: an action space whose elements are arrays or numbers of one shape.
    :return: a function of ``(actions, ids)``. It returns an array ``(len(ids), *space.shape)``, and raises ValueError
        if the shape is wrong and TypeError if the dtype is of the wrong kind.
    """
    kinds = _kinds(space)
    shape = space.shape or ()

    def convert(actions: object, ids: NDArray[np.int64]) -> NDArray[Any]:
        array = _as_array(actions)
        if array.shape != (len(ids), *shape):
            object_rows(array, ids)  # raises if there is not one action for each environment
            raise ValueError(f"got actions of shape {array.shape}, {array.shape[1:]} for each environment, for {space}")
        if array.dtype.kind not in kinds:
            raise TypeError(f"got actions of dtype {array.dtype} for {space}: give {_KINDS[kinds]}")
        return array

    return convert


_KINDS = {"iu": "integers", "iub": "integers", "iufb": "numbers"}


def _kinds(space: gym.Space[Any]) -> str:
    """Returns the codes (``dtype.kind``) of the dtypes that actions of ``space`` may have."""
    if isinstance(space, gym.spaces.Box):
        return "iufb"
    return "iub" if isinstance(space, gym.spaces.MultiBinary) else "iu"


def _bounds(space: gym.Space[Any]) -> tuple[Any, Any]:
    """Returns the smallest and the largest element of ``space``; ``(None, None)`` for a ``Box``."""
    if isinstance(space, gym.spaces.Discrete):
        return int(space.start), int(space.start + space.n - 1)
    if isinstance(space, gym.spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    if isinstance(space, gym.spaces.MultiBinary):
        return 0, 1
    return None, None


def _as_array(actions: object) -> NDArray[Any]:
    if isinstance(actions, np.ndarray):
        return actions if actions.dtype != object else np.array(actions.tolist())
    try:
        return np.asarray(as_host(actions))
    except ValueError:
        raise ValueError(f"actions must be of one shape to make an array, got {actions!r}") from None


def object_rows(actions: Any, ids: NDArray[np.int64]) -> NDArray[np.object_]:
    """Puts copies of actions into an array of objects, one entry for each environment, without converting them.

    :param actions: a sequence, array or tensor with one action for each environment.
    :param ids: the environments, ``(K,)`` int64.
    :return: an object array ``(K,)``.
    :raises ArgumentError: the number of actions is not ``K``.
    :raises TypeError: ``actions`` is a single action or a dict.
    """
    actions = as_host(actions)
    try:
        rows = None if isinstance(actions, Mapping) else list(actions)
    except TypeError:
        rows = None
    if rows is None:
        raise TypeError(
            f"Unable to iterate over the following elements: {actions}. "
            f"That is a single action for {len(ids)} environments: give one action for each"
        )
    if len(rows) != len(ids):
        raise ArgumentError(f"got {len(rows)} actions for {len(ids)} environments: give one action for each")
    return object_array(copied(rows))


def _raise_outside(array: NDArray[Any], outside: NDArray[np.bool_], ids: NDArray[np.int64], space: object) -> None:
    k = int(np.argwhere(outside)[0][0])
    raise ValueError(f"the action {array[k]} for environment {ids[k]} is outside its action space {space}")


def _nested(space: gym.spaces.Dict | gym.spaces.Tuple[Any], check_part: Callable[[Space], Checker]) -> Checker:
    is_dict = isinstance(space, gym.spaces.Dict)
    own = space.items() if isinstance(space, gym.spaces.Dict) else enumerate(space)
    parts: dict[Any, Checker] = {key: check_part(part) for key, part in own}
    whole = Mapping if is_dict else tuple

    def check(actions: Any, ids: NDArray[np.int64]) -> Tree:
        if not isinstance(actions, whole) or (not is_dict and len(actions) != len(parts)):  # a sequence of actions
            rows = object_rows(actions, ids)
            try:
                actions = {key: [row[key] for row in rows] for key in parts}
                actions = actions if is_dict else tuple(actions.values())
            except (KeyError, IndexError, TypeError):
                if check_part is lenient_checker:
                    return rows
                raise
        missing = parts.keys() - (actions.keys() if is_dict else range(len(actions)))
        if missing:
            raise KeyError(f"the actions have no part {min(missing, key=str)!r}: give {list(parts)} for {space}")
        checked = {key: part(actions[key], ids) for key, part in parts.items()}
        return checked if is_dict else tuple(checked.values())

    return check


def _any(space: Space) -> Checker:
    def check(actions: object, ids: NDArray[np.int64]) -> Tree:
        rows = object_rows(actions, ids)
        for i, row in zip(ids.tolist(), rows, strict=True):
            if space is not None and not space.contains(row):
                raise ValueError(f"the action {row!r} for environment {i} is outside its action space {space}")
        return rows

    return check
