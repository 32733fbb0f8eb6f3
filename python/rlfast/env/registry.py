"""Makes vector environments by the id of their environments."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode

from rlfast.env import native
from rlfast.env.errors import EnvFailure
from rlfast.env.specs import find_spec, make_registered, why_not_native
from rlfast.env.subproc import SubprocVectorEnv
from rlfast.env.vector.arguments import EnvFn
from rlfast.env.vector.base import BaseVectorEnv
from rlfast.env.vector.dummy import DummyVectorEnv

__all__ = ["can_be_native", "find_spec", "make_vec"]


_log = logging.getLogger(__name__)

_BACKENDS = ("auto", "native", "process", "in-process")


def make_vec(
    id: str | EnvSpec,
    num_envs: int = 1,
    *,
    backend: str = "auto",
    autoreset_mode: AutoresetMode | str | None = AutoresetMode.NEXT_STEP,
    wrappers: Sequence[Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]]] = (),
    vector_kwargs: dict[str, Any] | None = None,
    **kwargs: Any,
) -> BaseVectorEnv:
    """Makes a vector environment of ``num_envs`` equal environments with the fastest backend.

    The attribute ``placement``, the ``repr`` of the result and a log message name the chosen backend.

    :param id: as for :func:`gymnasium.make`: a registered id, one with its module (``"module:Env-v0"``), or a spec.
    :param num_envs: the number of environments.
    :param backend: ``"native"`` for environments written in Rust (:class:`NativeVectorEnv`), ``"process"`` for worker
        processes (:class:`SubprocVectorEnv`), ``"in-process"`` for environments that are stepped one after the other in
        this process (:class:`DummyVectorEnv`). ``"auto"`` (default) chooses native environments if there are any for
        the id and the arguments; otherwise worker processes if they are faster than this process, which a measurement
        of the first environment decides (``SubprocVectorEnv(..., placement="auto")``).
    :param autoreset_mode: a :class:`gymnasium.vector.AutoresetMode` or its name; None for the protocol without one, see
        :class:`BaseVectorEnv`. Default: NEXT_STEP, as in Gymnasium.
    :param wrappers: applied to each environment, the first one innermost; native environments support no wrappers.
    :param vector_kwargs: further arguments of the vector environment's class.
    :param kwargs: given to each environment, as by :func:`gymnasium.make`.
    :return: the vector environment.
    :raises ValueError: ``num_envs`` is less than 1, ``backend`` is unknown, or ``backend`` is ``"native"`` and there is
        no equivalent environment in Rust.
    :raises TypeError: ``backend`` is ``"native"`` and the environment in Rust does not accept one of ``kwargs``.
    :raises gymnasium.error.Error: no environment has this id.

    >>> import rlfast
    >>> envs = rlfast.make_vec("CartPole-v1", 8)
    >>> envs
    NativeVectorEnv(CartPole-v1, num_envs=8, native, NEXT_STEP)
    >>> envs.close()
    >>> envs = rlfast.make_vec("CartPole-v1", 2, backend="in-process", autoreset_mode="same-step")
    >>> envs.placement
    'in-process'
    """
    if backend not in _BACKENDS:
        raise ValueError(f"backend must be one of {list(_BACKENDS)}, got {backend!r}")
    if num_envs < 1:
        raise ValueError(f"num_envs must be at least 1, got {num_envs}")
    options = {"autoreset_mode": autoreset_mode, **(vector_kwargs or {})}
    spec = find_spec(id)
    why_not = "" if backend in ("process", "in-process") else _why_not_native(spec, wrappers, kwargs)
    envs: BaseVectorEnv | None = None
    if backend == "native" and why_not:
        raise ValueError(f"{_name(spec)} cannot be native: {why_not}; choose another backend")
    if backend in ("auto", "native") and not why_not:
        envs, why_not = _native(spec, num_envs, options, kwargs, must=backend == "native")
    if envs is None and (backend == "process" or (backend == "auto" and num_envs > 1)):
        envs = _in_workers(_maker(spec, wrappers, kwargs), num_envs, backend, options)
    if envs is None:
        envs = DummyVectorEnv([_maker(id, wrappers, kwargs)] * num_envs, **options)
    _log.info("%s%s", envs, f" (not native: {why_not})" if why_not else "")
    return envs


def can_be_native(id: str | EnvSpec) -> bool:
    """Whether :func:`make_vec` can make environments in Rust that are equivalent to the registered one.

    :param id: as for :func:`make_vec`.
    :raises ImportError: the module in the id cannot be imported.
    """
    return not _why_not_native(find_spec(id), (), {})


def _name(spec: str | EnvSpec) -> str:
    return spec if isinstance(spec, str) else spec.id


def _why_not_native(spec: str | EnvSpec, wrappers: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """Explains why environments cannot be native; ``""`` if they can."""
    if isinstance(spec, str):  # not registered: Rust has some ids that Gymnasium no longer has
        why_not = "" if native.is_native(spec) else f"there is no {spec} in Rust"
        render_mode = kwargs.get("render_mode")
    else:
        why_not = why_not_native(spec)
        render_mode = {**spec.kwargs, **kwargs}.get("render_mode")
    if why_not or not wrappers:
        return why_not or ("" if render_mode is None else "it does not render")
    return "wrappers were given"


def _native(
    spec: str | EnvSpec, num_envs: int, options: dict[str, Any], kwargs: dict[str, Any], *, must: bool
) -> tuple[BaseVectorEnv | None, str]:
    given = {key: value for key, value in kwargs.items() if key != "render_mode"}
    try:
        return native.NativeVectorEnv(spec, num_envs, **options, **given), ""
    except TypeError as error:  # an argument that the native environment does not accept
        if must:
            raise
        return None, str(error)


def _in_workers(make: EnvFn, num_envs: int, placement: str, options: dict[str, Any]) -> BaseVectorEnv:
    try:
        return SubprocVectorEnv([make] * num_envs, placement=placement, **options)
    except EnvFailure as failure:
        if isinstance(failure.__cause__, gym.error.Error):  # no such environment, in any backend
            raise failure.__cause__ from None
        raise


def _maker(id: str | EnvSpec, wrappers: Sequence[Callable[[Any], Any]], kwargs: dict[str, Any]) -> EnvFn:
    def make() -> gym.Env[Any, Any]:
        env: gym.Env[Any, Any] = make_registered(id, **kwargs)
        for wrapper in wrappers:
            env = wrapper(env)
        return env

    return make
