"""Vector environments by the id of their environments."""

from __future__ import annotations

import logging
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode

from rlfast.env import native
from rlfast.env.errors import EnvFailure
from rlfast.env.specs import find_spec, why_not_native
from rlfast.env.subproc import SubprocVectorEnv
from rlfast.env.vector.base import BaseVectorEnv
from rlfast.env.vector.dummy import DummyVectorEnv

__all__ = ["can_be_native", "find_spec", "make_vec"]

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rlfast.env.vector.arguments import EnvFn

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
    """Makes ``num_envs`` environments that step together, where they are quickest.

    Which way was chosen tell the result's ``placement`` and ``repr``, and a line in the log.

    :param id: as for :func:`gymnasium.make`: a registered id, one with its module (``"module:Env-v0"``), or a spec.
    :param num_envs: how many.
    :param backend: ``"native"`` for those written in Rust (:class:`NativeVectorEnv`), ``"process"`` for workers
        (:class:`SubprocVectorEnv`), ``"in-process"`` for one after the other (:class:`DummyVectorEnv`). ``"auto"``
        (default) is native where there is such an environment and it takes the arguments; else workers where those make
        a step of all quicker, as a few steps of one environment tell (``SubprocVectorEnv(..., placement="auto")``).
    :param autoreset_mode: a :class:`gymnasium.vector.AutoresetMode` or its name; None for Tianshou's protocol, see
        :class:`BaseVectorEnv`. Default: NEXT_STEP, as in Gymnasium.
    :param wrappers: put around each environment, the first innermost; native environments take none.
    :param vector_kwargs: given to the vector environment's class.
    :param kwargs: given to each environment, as by :func:`gymnasium.make`.
    :raises ValueError: ``backend`` is unknown, or ``"native"`` and there is no such environment, or it takes no
        wrappers.
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
    """Whether :func:`make_vec` can make environments in Rust that do what the registration says.

    :raises ImportError: the module in the id is not there.
    """
    return not _why_not_native(find_spec(id), (), {})


def _name(spec: str | EnvSpec) -> str:
    return spec if isinstance(spec, str) else spec.id


def _why_not_native(spec: str | EnvSpec, wrappers: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """Empty where nothing stands against it."""
    if isinstance(spec, str):  # Gymnasium no longer has some ids that there are in Rust
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
    except TypeError as error:  # takes no such argument
        if must:
            raise
        return None, str(error)


def _in_workers(make: EnvFn, num_envs: int, placement: str, options: dict[str, Any]) -> BaseVectorEnv:
    try:
        return SubprocVectorEnv([make] * num_envs, placement=placement, **options)
    except EnvFailure as failure:
        if isinstance(failure.__cause__, gym.error.Error):  # no such environment: no matter where
            raise failure.__cause__ from None
        raise


def _maker(id: str | EnvSpec, wrappers: Sequence[Callable[[Any], Any]], kwargs: dict[str, Any]) -> EnvFn:
    def make() -> gym.Env[Any, Any]:
        env: gym.Env[Any, Any] = gym.make(deepcopy(id), **kwargs)
        for wrapper in wrappers:
            env = wrapper(env)
        return env

    return make
