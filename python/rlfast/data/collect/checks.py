"""Checks of the arguments of collectors, and the counters of one collect."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from numpy.typing import NDArray

from rlfast.data._leaves import dotted
from rlfast.data.buffer.base import MalformedBufferError, ReplayBuffer
from rlfast.data.buffer.cached import CachedReplayBuffer
from rlfast.data.buffer.manager import ReplayBufferManager
from rlfast.data.schema import flatten
from rlfast.env import BaseVectorEnv, DummyVectorEnv, as_vector_env
from rlfast.utils.arguments.checks import ArgumentError, NonFiniteError, ObservationError, check_methods, count_of
from rlfast.utils.warning import warn_user

Ids = NDArray[np.int64]


class ActingPolicyProtocol(Protocol):
    """The methods of a policy that collectors call (:class:`rlfast.policy.ActingPolicy`)."""

    def __call__(self, batch: Any, state: Any = None) -> Any:
        """Return a batch with ``act`` and, if the policy has them, ``state`` and ``policy``."""

    def exploration_noise(self, act: Any, batch: Any) -> Any:
        """Return the action with noise added."""

    def map_action(self, act: Any) -> Any:
        """Map an action from the policy's action space to that of the environment."""

    def map_action_inverse(self, act: NDArray[Any]) -> Any:
        """Map an action from the environment's action space to that of the policy."""


def positive(name: str, value: object, *, rounded: Callable[[float], int] | None = None) -> int:
    """Convert a positive number to an integer.

    :param name: the name of the argument, for messages.
    :param value: the number.
    :param rounded: rounds a number that is not whole; without it, such a number raises.
    :return: the integer.
    :raises TypeError: ``value`` is not a number.
    :raises ValueError: ``value`` is not positive.
    """
    count = count_of(name, value, rounded=rounded)
    if count <= 0:
        raise ArgumentError(f"{name} must be a positive integer, got {value!r}")
    return count


def is_single(env: object) -> bool:
    """Whether ``env`` is a single Gymnasium environment, not a vector environment."""
    return isinstance(env, gym.Env) and not hasattr(env, "__len__")


def as_vector(env: Any) -> BaseVectorEnv:
    """Return a vector environment as it is; a single environment is wrapped in one, with a warning.

    :raises TypeError: ``env`` is not an environment.
    """
    if is_single(env):
        warn_user("a single environment was given: it is wrapped in a DummyVectorEnv")
        return DummyVectorEnv([lambda: env])
    return as_vector_env(env)


def check_policy(policy: object, *, exploration_noise: bool) -> None:
    """Check that a policy is callable or has ``forward``, and has the methods that a collector calls.

    :param policy: an object of any class.
    :param exploration_noise: whether the method ``exploration_noise`` is needed.
    :raises TypeError: a method is missing, or ``policy`` is a class.
    """
    needs = ["map_action", "exploration_noise"] if exploration_noise else ["map_action"]
    missing = [name for name in needs if not callable(getattr(policy, name, None))]
    if not (callable(policy) or callable(getattr(policy, "forward", None))):
        missing.insert(0, "forward")
    if missing or isinstance(policy, type):
        raise TypeError(
            f"policy must be an ActingPolicy, such as DQNPolicy(...), got {policy!r:.200}"
            + (f", which has no {', '.join(missing)}" if missing else "")
        )


def check_spaces(policy: object, env: BaseVectorEnv) -> None:
    """Warn if the policy's action or observation space differs from that of the environments.

    The bounds of boxes may differ, because a policy may use a part of a box.
    """
    for name in ("action_space", "observation_space"):
        own, given, batched = (
            space if isinstance(space, gym.Space) else None
            for space in (getattr(policy, name, None), getattr(env, f"single_{name}", None), getattr(env, name, None))
        )
        if own is None or given is None or form_of(own) in (form_of(given), form_of(_without_mask(given))):
            continue
        if batched is not None and form_of(own) == form_of(batched):
            advice = f"that of all {len(env)} environments together: make the policy with envs.single_{name}"
        else:
            advice = f"and that of the environments is {given}: is it made for them?"
        warn_user(f"the policy's {name} is {own}, {advice}")


def _without_mask(space: gym.Space[Any]) -> gym.Space[Any]:
    """Return the space of ``obs`` of a dict with ``obs`` and a ``mask``, which networks get alone."""
    return space["obs"] if isinstance(space, Dict) and {"obs", "mask"} <= space.keys() else space


def form_of(space: gym.Space[Any]) -> Any:
    """Return the properties in which two spaces must be equal to be compatible: all except the bounds of boxes."""
    if isinstance(space, Box):
        return Box, space.shape
    if isinstance(space, Discrete):
        return Discrete, int(space.n), int(space.start)
    if isinstance(space, MultiDiscrete):
        return MultiDiscrete, space.nvec.tolist(), space.start.tolist()
    if isinstance(space, Dict):
        return Dict, {key: form_of(part) for key, part in space.items()}
    if isinstance(space, Tuple):
        return Tuple, [form_of(part) for part in space]
    return type(space), space.shape


def check_buffer(buffer: object, env_num: int) -> None:
    """Check that a buffer can store the transitions of ``env_num`` environments separately.

    :raises TypeError: ``buffer`` lacks methods that are needed, or it is not a vector buffer and ``env_num`` is more
        than 1.
    :raises ValueError: it has fewer ring buffers than there are environments, or its size is 0.
    """
    check_methods("buffer", buffer, "ReplayBuffer", ("add", "reset"))
    if not isinstance(buffer, ReplayBuffer):
        return  # a buffer of the user's own class: its capacity cannot be checked here
    kind, size = type(buffer).__name__, buffer.maxsize
    if isinstance(buffer, ReplayBufferManager):
        rings = buffer.cached_buffer_num if isinstance(buffer, CachedReplayBuffer) else buffer.buffer_num
        if rings < env_num:
            raise ArgumentError(f"{kind} has {rings} rings for {env_num} environments: it needs one for each")
    elif env_num > 1:
        vector = "PrioritizedVectorReplayBuffer" if kind.startswith("Prioritized") else "VectorReplayBuffer"
        raise ArgumentError(
            f"{kind}(size={size}) cannot keep {env_num} environments apart: "
            f"use {vector}(total_size={size}, buffer_num={env_num})"
        )
    if size <= 0:
        raise ArgumentError(f"{kind} has no room: its size is {size}")


def row_capacities(buffer: object, env_num: int | None) -> NDArray[np.int64] | None:
    """Return the capacity of the buffer for each environment, in rows; None where it is not fixed or not known.

    :param env_num: the number of environments; None where it is not known: each part of the buffer is of one.
    """
    if not isinstance(buffer, ReplayBuffer) or isinstance(buffer, CachedReplayBuffer):
        return None
    parts = buffer.buffers if isinstance(buffer, ReplayBufferManager) else [buffer]
    return np.array([part.maxsize for part in parts[:env_num]], dtype=np.int64)


def check_room(room: Ids, buffer: ReplayBuffer, ids: Ids) -> None:
    """Check that rows can be added without overwriting others.

    :param room: ``[N]``, how many rows the buffer can take of each environment.
    :param buffer: the buffer, for the message.
    :param ids: the environments, one row of each is added.
    :raises ValueError: there is no room.
    """
    full = ids[room[ids] == 0]
    if len(full):
        capacities = row_capacities(buffer, len(room))
        capacity = room[full[0]] if capacities is None else capacities[full[0]]
        raise ValueError(
            f"environment {full[0]} has filled the {capacity} rows that the buffer has for it, and rows "
            "would be lost before they are learned from: make the buffer larger, or collect less at a time"
        )


def check_rewards(rew: NDArray[Any], ids: Ids, steps: int) -> None:
    """Check that rewards are finite.

    :param rew: ``(K,)``, or ``(K, agents)``.
    :param ids: the environment of each row.
    :param steps: the environment steps that the collector has counted so far, for the message.
    :raises NonFiniteError: there is NaN or infinity.
    """
    if not np.isfinite(rew).all():
        row = int(np.argwhere(~np.isfinite(rew))[0, 0])
        raise reward_error(int(ids[row]), rew[row], steps)


def reward_error(env: int, reward: object, steps: int) -> NonFiniteError:
    """Return the error for a reward that is not finite, which environment ``env`` gave after ``steps`` steps."""
    return NonFiniteError(
        f"environment {env} gave the reward {reward} after {steps} environment steps, and learning from it would make "
        "the weights NaN: correct the environment, or replace such rewards in a wrapper or by preprocess_fn"
    )


def choice_error(error: Exception, obs: object, ids: Ids, envs: BaseVectorEnv) -> Exception:
    """Return the error to raise where a policy could not choose actions.

    :param error: what the policy raised.
    :param obs: the observations, with a row for each of ``ids``.
    :return: an error that names the environment, if observations have NaN, infinity, or not the shape of their space;
        otherwise ``error``.
    """
    leaves, _ = flatten({"obs": obs})
    for path, leaf in leaves.items():
        if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f" and not np.isfinite(leaf).all():
            row = np.argwhere(~np.isfinite(leaf))[0]
            return NonFiniteError(
                f"the policy cannot choose an action for environment {ids[row[0]]}, whose {dotted(path)} has "
                f"{leaf[tuple(row)]} at {[*map(int, row[1:])]}: correct the environment, or replace it in a wrapper"
            )
    space, name = getattr(envs, "single_observation_space", None), f"environment {ids[0]}"
    with suppress(Exception):  # it only makes the message better
        name = f"{name} ({envs.get_env_attr('spec', [int(ids[0])])[0].id})"
    if isinstance(space, Box) and isinstance(obs, np.ndarray) and obs.shape[1:] != space.shape:
        return ObservationError(
            f"{name} gives observations of shape {obs.shape[1:]}, but its observation_space is {space}, and the policy "
            "cannot take them: correct the space or the observations"
        )
    if isinstance(error, ObservationError):
        return ObservationError(f"{name}: {error}")
    return error


def check_nothing_missing(buffer: ReplayBuffer) -> None:
    """Check that no value in the buffer is missing.

    :raises MalformedBufferError: there is a NaN or None.
    """
    leaves, _ = flatten(buffer[:].isnull().__dict__)
    if missing := [dotted(path) for path, is_null in leaves.items() if is_null.any()]:
        raise MalformedBufferError(
            f"values are missing (NaN or None) in the buffer's {', '.join(missing)}: an environment, a hook, or a hook "
            "of episodes in a collect of steps has left them out"
        )
