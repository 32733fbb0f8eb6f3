"""Environments in Ray actors, on this machine or on others. Ray is imported when the first one is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode

from rlfast.env.process.serialization import register, registrations
from rlfast.env.spaces.batching import ObservationMode
from rlfast.env.vector.arguments import EnvFn
from rlfast.env.vector.base import BaseVectorEnv
from rlfast.env.worker import DummyEnvWorker, EnvWorker, OneRequest
from rlfast.utils.runtime.extras import needed_by


def _ray() -> Any:
    with needed_by("an environment in a Ray actor"):
        return import_module("ray")


class _Actor:
    """The Ray actor, which holds an environment and calls methods of its worker by name."""

    def __init__(self, env_fn: Callable[[], gym.Env[Any, Any]], registered: bytes) -> None:
        register(registered)
        self.worker = DummyEnvWorker(env_fn)

    def do(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.worker, name)(*args, **kwargs)


class RayEnvWorker(OneRequest):
    """A worker whose environment runs in a Ray actor.

    :param env_fn: makes the environment, in the actor.
    :raises ImportError: Ray is not installed.
    """

    def __init__(self, env_fn: Callable[[], gym.Env[Any, Any]]) -> None:
        self._ray = _ray()
        self._actor = self._ray.remote(_Actor).options(num_cpus=0).remote(env_fn, registrations())
        try:
            super().__init__(env_fn)
        except BaseException:
            self._ray.kill(self._actor)
            raise

    def _call_actor(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self._ray.get(self._actor.do.remote(name, *args, **kwargs))

    def get_env_attr(self, key: str) -> Any:
        """As :meth:`EnvWorker.get_env_attr`."""
        return self._call_actor("get_env_attr", key)

    def set_env_attr(self, key: str, value: object) -> None:
        """As :meth:`EnvWorker.set_env_attr`."""
        self._call_actor("set_env_attr", key, value)

    def set_wrapper_attr(self, key: str, value: object) -> None:
        """Sets an attribute of the outermost wrapper that has it, otherwise of the environment.

        :param key: the attribute's name.
        :param value: its new value.
        """
        self._call_actor("set_wrapper_attr", key, value)

    def call_env(self, key: str, *args: Any, **kwargs: Any) -> Any:
        """Calls a method of the environment, or reads an attribute.

        :param key: the name of the method or attribute.
        :param args: the method's arguments.
        :param kwargs: the method's keyword arguments.
        :return: what the method returned, or the attribute's value.
        """
        return self._call_actor("call_env", key, *args, **kwargs)

    def _begin(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self._actor.do.remote(name, *args, **kwargs)

    def _end(self, answer: Any) -> Any:
        return self._ray.get(answer)

    def discard(self) -> bool:
        """As :meth:`EnvWorker.discard`; the actor finishes the call before it begins the next one."""
        self._answer = None
        self._call_actor("discard")
        return True

    @staticmethod
    def wait(workers: Sequence[EnvWorker], wait_num: int, timeout: float | None = None) -> Sequence[EnvWorker]:
        """Waits until workers have answered.

        :param workers: the workers to wait for.
        :param wait_num: the number of workers to wait for.
        :param timeout: seconds after which fewer workers are returned; None waits without a limit.
        :return: the workers that have answered.
        """
        by_answer = {worker._answer: worker for worker in workers if isinstance(worker, RayEnvWorker)}  # noqa: SLF001
        ready, _ = _ray().wait(list(by_answer), num_returns=min(wait_num, len(by_answer)), timeout=timeout)
        return [by_answer[answer] for answer in ready]

    def seed(self, seed: int | None = None) -> list[int | None] | None:
        """Seeds the action space and the environment.

        The environment is seeded by its own method ``seed``; one without such a method is reset with the seed.

        :param seed: the seed; None for fresh entropy.
        :return: what the method ``seed`` returned; after a reset, the seed in a list.
        """
        super().seed(seed)
        returned: list[int | None] | None = self._call_actor("seed", seed)
        return returned

    def render(self, **kwargs: Any) -> Any:
        """As :meth:`EnvWorker.render`."""
        return self._call_actor("render", **kwargs)

    def close_env(self) -> None:
        """Closes the environment and kills the actor, in any state."""
        with suppress(Exception):
            self._ray.get(self._actor.do.remote("close"), timeout=1.0)
        self._ray.kill(self._actor)


class RayVectorEnv(BaseVectorEnv):
    """A vector environment whose environments run in Ray actors. If Ray does not run yet, it is started locally.

    :param env_fns: one callable per environment; ``env_fns[i]()`` makes the i-th, in its actor.
    :param wait_num: see :class:`BaseVectorEnv`.
    :param timeout: see :class:`BaseVectorEnv`.
    :param autoreset_mode: see :class:`BaseVectorEnv`.
    :param observation_mode: see :class:`BaseVectorEnv`.
    :raises ImportError: Ray is not installed.
    :raises ValueError: see :class:`BaseVectorEnv`.
    :raises RuntimeError: see :class:`BaseVectorEnv`.
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        wait_num: int | None = None,
        timeout: float | None = None,
        *,
        autoreset_mode: AutoresetMode | str | None = None,
        observation_mode: ObservationMode = "same",
    ) -> None:
        ray = _ray()
        if not ray.is_initialized():
            ray.init(include_dashboard=False)  # which answers whoever reaches its port; ignored by a running cluster
        super().__init__(
            env_fns, RayEnvWorker, wait_num, timeout, autoreset_mode=autoreset_mode, observation_mode=observation_mode
        )
