"""Adapters that give vector environments of other libraries the interface of :class:`BaseVectorEnv`."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode

from rlfast.env.adapters.base import Wrapped
from rlfast.env.adapters.envpool import EnvPoolBackend, is_envpool
from rlfast.env.adapters.gymnasium import GymnasiumBackend
from rlfast.env.adapters.steps import StepsBackend, overrides_steps
from rlfast.env.vector.base import BaseVectorEnv
from rlfast.env.vector.subset_calls import SubsetVectorEnv

__all__ = ["AdaptedVectorEnv", "as_vector_env"]


class AdaptedVectorEnv(SubsetVectorEnv):
    """A vector environment of another library, with the interface of :class:`BaseVectorEnv`.

    Attributes that only the original has can be read from this object.

    :param backend: drives the original vector environment.
    :param wait_num: the number of results that :meth:`recv` waits for; None for all.
    :param autoreset_mode: None for the protocol without one; otherwise the backend's mode.
    """

    def __init__(
        self, backend: Wrapped, wait_num: int | None = None, *, autoreset_mode: AutoresetMode | None = None
    ) -> None:
        self._attach(backend, wait_num, autoreset_mode=autoreset_mode)

    def __getattr__(self, key: str) -> Any:
        if key.startswith("_"):  # an attribute of BaseVectorEnv that has not been initialized yet
            raise AttributeError(f"{type(self).__name__} has no attribute {key!r}")
        return getattr(self._backend.env, key)  # type: ignore[attr-defined]


def as_vector_env(env: object) -> BaseVectorEnv:
    """Gives a vector environment of another library the interface of :class:`BaseVectorEnv`.

    Accepted are vector environments of EnvPool (made with ``env_type="gymnasium"``), ``ale_py.AtariVectorEnv``, and
    those of Gymnasium and of other libraries that follow :class:`gymnasium.vector.VectorEnv`. They keep their autoreset
    mode. Their results are completed: rewards become float64, rows in which an environment only reset are marked as no
    valid transitions, and final observations are moved to where :class:`~rlfast.env.backends.base.Rows` has them. A
    warning, given once, names what cannot be completed.

    If ``env`` is a subclass of :class:`BaseVectorEnv` that overrides only ``step`` or ``reset``, the result's
    :meth:`BaseVectorEnv.send` and :meth:`BaseVectorEnv.recv` call the overriding methods. Any other
    :class:`BaseVectorEnv` is returned unchanged.

    :param env: a vector environment.
    :return: the vector environment with the interface of :class:`BaseVectorEnv`.
    :raises TypeError: ``env`` is not a vector environment of a supported kind.
    :raises ValueError: ``env`` has settings that are not supported, for example several players in one environment.

    >>> import gymnasium as gym
    >>> from rlfast.env import as_vector_env
    >>> envs = as_vector_env(gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 2))
    >>> envs
    AdaptedVectorEnv(CartPole-v1, num_envs=2, gymnasium.SyncVectorEnv, NEXT_STEP)
    >>> envs.close()
    """
    if isinstance(env, BaseVectorEnv):
        if not overrides_steps(env):
            return env
        if env.autoreset_mode is None:
            return AdaptedVectorEnv(StepsBackend(env), env.wait_num)
    elif is_envpool(env):
        pool = EnvPoolBackend(env)
        return AdaptedVectorEnv(pool, pool.batch_size, autoreset_mode=pool.autoreset_mode)
    if isinstance(env, gym.vector.VectorEnv):
        backend = GymnasiumBackend(env)
        return AdaptedVectorEnv(backend, autoreset_mode=backend.autoreset_mode)
    raise TypeError(
        f"expected a vector environment of rlfast.env, Gymnasium, EnvPool or ale_py, got {type(env)}: "
        "put single environments into a DummyVectorEnv"
    )
