"""Validation of the arguments of vector environments: autoreset modes, environment ids, seeds and wait counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from rlfast.utils.arguments.checks import ArgumentError

EnvFn: TypeAlias = Callable[[], gym.Env[Any, Any]]
"""A function that makes one environment."""
Ids: TypeAlias = int | Sequence[int] | NDArray[np.integer[Any]]
"""The number of one environment, or the numbers of several."""
Seeds: TypeAlias = int | Sequence[int | None] | None
"""An int ``s`` gives environment ``i`` the seed ``s + i``; a sequence has one seed for each environment."""
VectorStep: TypeAlias = tuple[Any, NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], Any]
"""``(obs, rew, terminated, truncated, info)``, with one row for each environment that was stepped."""


def as_autoreset_mode(mode: AutoresetMode | str | None) -> AutoresetMode | None:
    """Converts the name of an autoreset mode into the mode.

    :param mode: a mode, None, or a name; case, spaces, ``-`` and ``_`` in names are ignored.
    :return: the mode; None for None.
    :raises ValueError: there is no mode of this name.

    >>> as_autoreset_mode("same-step")
    <AutoresetMode.SAME_STEP: 'SameStep'>
    """
    if mode is None or isinstance(mode, AutoresetMode):
        return mode
    if isinstance(mode, str):
        name = mode.lower().replace("_", "").replace("-", "").replace(" ", "")
        for known in AutoresetMode:
            if known.value.lower() == name:
                return known
    raise ValueError(f"autoreset_mode must be None or one of {[known.name for known in AutoresetMode]}, got {mode!r}")


def as_env_fns(env_fns: Iterable[EnvFn]) -> list[EnvFn]:
    """Returns the functions that make the environments, as a list.

    :param env_fns: an iterable of functions.
    :raises TypeError: ``env_fns`` is not iterable, or an entry is not callable.
    :raises ValueError: ``env_fns`` is an iterator that is exhausted.
    """
    if callable(env_fns) or not isinstance(env_fns, Iterable):
        raise TypeError(
            f"env_fns must be a list of functions that make environments, got {type(env_fns).__name__}: "
            "write [env_fn] * n for n equal ones"
        )
    made = list(env_fns)
    if not made and isinstance(env_fns, Iterator):
        raise ValueError(
            f"a vector environment needs at least one environment, and this {type(env_fns).__name__} is empty: "
            "an iterator can be used only once, so give a list"
        )
    for i, env_fn in enumerate(made):
        if not callable(env_fn):
            raise TypeError(
                f"env_fns[{i}] must be a function that makes an environment, got {type(env_fn).__name__}: "
                "write lambda: gym.make(...), not gym.make(...)"
            )
    return made


def check_waiting(env_num: int, wait_num: int | None, timeout: float | None) -> int | None:
    """Checks how many environments a step waits for, and for how long.

    :param env_num: the number of environments.
    :param wait_num: the number of environments to wait for; None or 0 means all.
    :param timeout: in seconds; None means no limit.
    :return: ``wait_num``, or None for all environments.
    :raises ValueError: there is no environment.
    :raises ArgumentError: ``wait_num`` or ``timeout`` is out of range.
    """
    if env_num == 0:
        raise ValueError("a vector environment needs at least one environment, got an empty list")
    if wait_num and not 1 <= wait_num <= env_num:
        raise ArgumentError(f"wait_num must be within 1 and {env_num}, the number of environments, got {wait_num}")
    if timeout is not None and not timeout > 0:
        raise ArgumentError(f"timeout must be positive (seconds) or None, got {timeout}")
    return wait_num or None


def as_ids(id: object, env_num: int) -> NDArray[np.int64]:
    """Converts environment ids into an array ``(K,)`` of int64; negative ids count from the end.

    :param id: an integer, or a sequence of integers.
    :param env_num: the number of environments.
    :raises TypeError: an id is not an integer.
    :raises IndexError: an id is out of range or occurs twice.
    """
    given = np.asarray(id)
    if not given.ndim:
        given = given.reshape(1)
    if (given.dtype.kind not in "iu" and given.size) or given.ndim > 1:
        raise TypeError(f"environment ids must be an integer or a list of integers, got {id!r}")
    ids = given.astype(np.int64, copy=False)
    numbers = ids.tolist()
    if numbers and min(numbers) < 0:
        ids = np.where(ids < 0, ids + env_num, ids)
        numbers = ids.tolist()
    if numbers and (min(numbers) < 0 or max(numbers) >= env_num or len(set(numbers)) != len(numbers)):
        raise IndexError(f"environment ids must be distinct and within 0 and {env_num - 1}, got {given.tolist()}")
    return ids


def as_seeds(seed: object, ids: NDArray[np.int64]) -> list[int | None]:
    """Returns one seed for each of the environments ``ids``.

    :param seed: None for no seeds; an int ``s`` for the seed ``s + i`` of environment ``i``; or one entry for each
        environment in ``ids``.
    :param ids: the environments, ``(K,)`` int64.
    :return: ``K`` seeds; None where the environment gets none.
    :raises ValueError: the number of seeds is not ``K``.
    :raises TypeError: a seed is neither an integer nor None.
    """
    if seed is None:
        return [None] * len(ids)
    if isinstance(seed, int | np.integer):
        return [int(seed) + i for i in ids.tolist()]
    if isinstance(seed, str) or not isinstance(seed, Iterable):
        raise TypeError(f"the seed must be an integer, a list of them or None, got {seed!r}")
    seeds: list[Any] = list(islice(seed, len(ids) + 1))  # which may be endless
    if len(seeds) != len(ids):
        count = len(seed) if isinstance(seed, Sized) else len(seeds)
        raise ValueError(
            f"got {count} seeds for {len(ids)} environments: give one int, or one seed for each. If seeds are "
            f"passed as a list the length must match num_envs={len(ids)} but got length={count}."
        )
    if wrong := [one for one in seeds if one is not None and not isinstance(one, int | np.integer)]:
        raise TypeError(f"seeds must be integers or None, got {wrong[0]!r}")
    return [one if one is None else int(one) for one in seeds]
