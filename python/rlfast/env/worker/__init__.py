"""One worker drives one environment: ``send`` a request, ``recv`` its answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import gymnasium as gym
import numpy as np

from rlfast.env.capture import capture, restore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

StepResult: TypeAlias = tuple[Any, Any, bool, bool, dict[str, Any]]
"""``(obs, rew, terminated, truncated, info)`` of one environment."""
ResetResult: TypeAlias = tuple[Any, dict[str, Any]]
"""``(obs, info)`` of one environment."""


def reset_result(result: Any) -> ResetResult:
    """What an environment's ``reset`` gave.

    :raises TypeError: that is not what Gymnasium asks for.
    """
    if not (isinstance(result, tuple | list) and len(result) == 2 and isinstance(result[1], dict)):
        raise TypeError(f"reset() must give (obs, info) as in Gymnasium, got {type(result)}")
    return result[0], result[1]


def step_result(result: Any) -> StepResult:
    """What an environment's ``step`` gave.

    :raises TypeError: that is not what Gymnasium asks for.
    """
    if not (isinstance(result, tuple | list) and len(result) == 5):
        got = f"{len(result)} values" if isinstance(result, tuple | list) else type(result)
        raise TypeError(f"step() must give (obs, reward, terminated, truncated, info) as in Gymnasium, got {got}")
    answer: StepResult = result  # type: ignore[assignment]
    return answer


class EnvWorker(ABC):
    """What :class:`~rlfast.env.BaseVectorEnv` asks of whatever holds an environment.

    :param env_fn: makes the environment. Called once, where the environment is to live.
    """

    result: Any
    """Where :meth:`send` of a subclass may leave its answer for :meth:`recv`."""

    def __init__(self, env_fn: Callable[[], gym.Env[Any, Any]]) -> None:
        self._env_fn = env_fn
        self.is_closed = False
        self.action_space: gym.Space[Any] = self.get_env_attr("action_space")

    @abstractmethod
    def get_env_attr(self, key: str) -> Any:
        """The environment's attribute ``key``, looked up through its wrappers."""

    @abstractmethod
    def set_env_attr(self, key: str, value: Any) -> None:
        """Sets attribute ``key`` of the innermost environment."""

    @abstractmethod
    def send(self, action: Any, **kwargs: Any) -> None:
        """Begins a step with ``action``, or, when it is None, a reset with ``kwargs``."""

    def recv(self) -> StepResult | ResetResult:
        """Waits for the answer to the last ``send``: what that left in ``result``, unless a subclass does otherwise."""
        answer: StepResult | ResetResult = self.result
        return answer

    def reset(self, **kwargs: Any) -> ResetResult:
        """``send(None, **kwargs)`` and ``recv()``."""
        self.send(None, **kwargs)
        return self.recv()  # type: ignore[return-value]

    def step(self, action: Any) -> StepResult:
        """``send(action)`` and ``recv()``."""
        self.send(action)
        return self.recv()  # type: ignore[return-value]

    @staticmethod
    def wait(
        workers: Sequence[EnvWorker],
        wait_num: int,  # noqa: ARG004
        timeout: float | None = None,  # noqa: ARG004
    ) -> Sequence[EnvWorker]:
        """Those of ``workers`` that have answered: ``wait_num`` or more, or what is there after ``timeout`` seconds.

        Unless a subclass knows better, all of them: :meth:`recv` waits.
        """
        return workers

    def seed(self, seed: int | None = None) -> list[int | None] | None:
        """Seeds the action space; subclasses seed the environment as well."""
        self.action_space.seed(seed)
        return [seed]

    def get_state(self) -> Any:
        """All that decides the environment's future, as plain data; see :func:`rlfast.env.capture.capture`.

        :raises NotImplementedError: it cannot be written down.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot store its environment's state")

    def set_state(self, state: Any) -> None:
        """Puts back what :meth:`get_state` gave.

        :raises NotImplementedError: the environment is of another kind.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot restore its environment's state")

    @abstractmethod
    def render(self, **kwargs: Any) -> Any:
        """Renders the environment."""

    @abstractmethod
    def close_env(self) -> None:
        """Releases the environment. Called once, by :meth:`close`."""

    def close(self) -> None:
        """Releases the environment; later calls do nothing."""
        if not self.is_closed:
            self.is_closed = True
            self.close_env()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class DummyEnvWorker(EnvWorker):
    """Holds its environment in this process: ``send`` does the work, so every answer is ready at once."""

    def __init__(self, env_fn: Callable[[], gym.Env[Any, Any]]) -> None:
        self.env = env_fn()
        self._result: StepResult | ResetResult | None = None
        super().__init__(env_fn)

    def get_env_attr(self, key: str) -> Any:
        """The environment's attribute ``key``, looked up through its wrappers."""
        try:
            return getattr(self.env, key)
        except AttributeError:
            if isinstance(self.env, gym.Wrapper):
                return self.env.get_wrapper_attr(key)
            raise

    def set_env_attr(self, key: str, value: Any) -> None:
        """Sets attribute ``key`` of the innermost environment."""
        setattr(self.env.unwrapped, key, value)

    def send(self, action: Any, **kwargs: Any) -> None:
        """Steps with ``action`` or, when it is None, resets with ``kwargs``; a ``seed`` also seeds the action space.

        :raises RuntimeError: the previous answer has not been received.
        """
        if self._result is not None:
            raise RuntimeError("send() twice in a row: the first answer is still waiting, call recv() to take it")
        if action is None:
            if kwargs.get("seed") is not None:
                self.action_space.seed(kwargs["seed"])
            self._result = self.env.reset(**kwargs)
        else:
            self._result = self.env.step(action)

    def recv(self) -> StepResult | ResetResult:
        """The answer to the last ``send``.

        :raises RuntimeError: nothing was sent.
        """
        result, self._result = self._result, None
        if result is None:
            raise RuntimeError("recv() without an answer to wait for: call send() first")
        return result

    @staticmethod
    def wait(
        workers: Sequence[EnvWorker],
        wait_num: int,  # noqa: ARG004
        timeout: float | None = None,  # noqa: ARG004
    ) -> Sequence[EnvWorker]:
        """All of ``workers``: in this process every answer is ready."""
        return workers

    def seed(self, seed: int | None = None) -> list[int | None] | None:
        """Seeds the action space and the environment, which is reset by it."""
        super().seed(seed)
        self.env.reset(seed=seed)
        return [seed]

    def get_state(self) -> Any:
        """As :func:`rlfast.env.capture.capture`."""
        return capture(self.env)

    def set_state(self, state: Any) -> None:
        """As :func:`rlfast.env.capture.restore`; an answer that was waiting is dropped."""
        self._result = None
        restore(self.env, state)

    def render(self, **kwargs: Any) -> Any:
        """Renders the environment."""
        return self.env.render(**kwargs)

    def close_env(self) -> None:
        """Closes the environment."""
        self.env.close()


_STACKABLE = (np.ndarray, float, int, np.generic, list)
_ARRAYS = {np.ndarray}


def stack(rows: Sequence[Any]) -> NDArray[Any]:
    """One array of one entry per environment; an object array where the entries are of different shapes or no arrays.

    Always a fresh array: an environment that reuses its own observation buffer cannot change what was returned.
    """
    if set(map(type, rows)) == _ARRAYS or all(isinstance(row, _STACKABLE) for row in rows):
        try:
            return np.array(rows)
        except ValueError:  # of different shapes
            pass
    objects = np.empty(len(rows), dtype=object)
    for i, row in enumerate(rows):
        objects[i] = row
    return objects


def __getattr__(name: str) -> Any:
    if name in {"RayEnvWorker", "SubprocEnvWorker"}:  # they stand on EnvWorker, and scripts look for them here
        return getattr(import_module("rlfast.env"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
