"""Environments in actors of Ray, on this machine or on others; Ray is imported when the first one is made."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rlfast.env.process.registrations import register, registrations
from rlfast.env.vector.base import BaseVectorEnv
from rlfast.env.worker import DummyEnvWorker, EnvWorker, seed_space

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import gymnasium as gym
    from gymnasium.vector import AutoresetMode

    from rlfast.env.spaces import ObservationMode
    from rlfast.env.vector.arguments import EnvFn
    from rlfast.env.worker import ResetResult, StepResult


def _ray() -> Any:
    try:
        return import_module("ray")
    except ImportError as error:
        raise ImportError("environments in Ray's actors need Ray: pip install 'rlfast[ray]'") from error


class _Actor:
    """Lives in the actor: an environment, asked by name."""

    def __init__(self, env_fn: Callable[[], gym.Env[Any, Any]], registered: bytes) -> None:
        register(registered)
        self.worker = DummyEnvWorker(env_fn)

    def do(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.worker, name)(*args, **kwargs)


class RayEnvWorker(EnvWorker):
    """One environment in an actor of Ray.

    :param env_fn: makes the environment, in the actor.
    :raises ImportError: Ray is not installed.
    """

    def __init__(self, env_fn: Callable[[], gym.Env[Any, Any]]) -> None:
        self._ray = _ray()
        self._actor = self._ray.remote(_Actor).options(num_cpus=0).remote(env_fn, registrations())
        self._answer: Any = None
        try:
            super().__init__(env_fn)
        except BaseException:
            self._ray.kill(self._actor)
            raise

    def _ask(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return self._ray.get(self._actor.do.remote(name, *args, **kwargs))

    def get_env_attr(self, key: str) -> Any:
        """The environment's attribute ``key``, looked up through its wrappers."""
        return self._ask("get_env_attr", key)

    def set_env_attr(self, key: str, value: Any) -> None:
        """Sets attribute ``key`` of the innermost environment."""
        self._ask("set_env_attr", key, value)

    def set_wrapper_attr(self, key: str, value: Any) -> None:
        """Sets attribute ``key`` of the outermost wrapper that has it."""
        self._ask("set_wrapper_attr", key, value)

    def call_env(self, key: str, *args: Any, **kwargs: Any) -> Any:
        """What the environment's method ``key`` gives, or the attribute where it is none."""
        return self._ask("call_env", key, *args, **kwargs)

    def send(self, action: Any, **kwargs: Any) -> None:
        """Begins a step with ``action``, or, when it is None, a reset with ``kwargs``.

        :raises RuntimeError: the previous answer has not been received.
        """
        if self._answer is not None:
            raise RuntimeError("send() twice in a row: the first answer is still waiting, call recv() to take it")
        if action is None:
            if kwargs.get("seed") is not None:
                seed_space(self.action_space, kwargs["seed"])
            self._answer = self._actor.do.remote("reset", **kwargs)
        else:
            self._answer = self._actor.do.remote("step", action)

    def recv(self) -> StepResult | ResetResult:
        """The answer to the last ``send``.

        :raises RuntimeError: nothing was sent.
        """
        answer, self._answer = self._answer, None
        if answer is None:
            raise RuntimeError("recv() without an answer to wait for: call send() first")
        result: StepResult | ResetResult = self._ray.get(answer)
        return result

    @staticmethod
    def wait(workers: Sequence[EnvWorker], wait_num: int, timeout: float | None = None) -> Sequence[EnvWorker]:
        """Those of ``workers`` that have answered: ``wait_num`` or more, or what is there after ``timeout`` seconds."""
        asked = {worker._answer: worker for worker in workers if isinstance(worker, RayEnvWorker)}  # noqa: SLF001
        ready, _ = _ray().wait(list(asked), num_returns=min(wait_num, len(asked)), timeout=timeout)
        return [asked[answer] for answer in ready]

    def seed(self, seed: int | None = None) -> list[int | None] | None:
        """Seeds the action space and the environment: by its own ``seed`` where it has one, else by a reset."""
        super().seed(seed)
        told: list[int | None] | None = self._ask("seed", seed)
        return told

    def render(self, **kwargs: Any) -> Any:
        """Renders the environment."""
        return self._ask("render", **kwargs)

    def close_env(self) -> None:
        """Closes the environment, and ends the actor, whatever state it is in."""
        with suppress(Exception):
            self._ray.get(self._actor.do.remote("close"), timeout=1.0)
        self._ray.kill(self._actor)


class RayVectorEnv(BaseVectorEnv):
    """Environments in actors of Ray; where Ray does not run yet, it is started on this machine.

    :param env_fns: one callable per environment; ``env_fns[i]()`` makes the i-th, in its actor.
    :param wait_num: see :class:`BaseVectorEnv`.
    :param timeout: see :class:`BaseVectorEnv`.
    :param autoreset_mode: see :class:`BaseVectorEnv`.
    :param observation_mode: see :class:`BaseVectorEnv`.
    :raises ImportError: Ray is not installed.
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
            ray.init()
        super().__init__(
            env_fns,
            RayEnvWorker,
            wait_num,
            timeout,
            autoreset_mode=autoreset_mode,
            observation_mode=observation_mode,
        )
