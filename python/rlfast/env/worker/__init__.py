"""One worker drives one environment: ``send`` a request, ``recv`` its answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import gymnasium as gym
import numpy as np

from rlfast.env.spaces import declared
from rlfast.env.state import capture, restore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from rlfast.env.spaces import Space

StepResult: TypeAlias = tuple[Any, Any, bool, bool, dict[str, Any]]
"""``(obs, rew, terminated, truncated, info)`` of one environment."""
ResetResult: TypeAlias = tuple[Any, dict[str, Any]]
"""``(obs, info)`` of one environment."""


def reset_result(result: Any) -> ResetResult:
    """What an environment's ``reset`` gave.

    :raises TypeError: that is not what Gymnasium asks for.
    """
    if not (isinstance(result, tuple | list) and len(result) == 2 and hasattr(result[1], "keys")):
        raise TypeError(f"reset() must give (obs, info) as in Gymnasium, got {type(result)}")
    return result[0], result[1] if type(result[1]) is dict else dict(result[1])


def step_result(result: Any) -> StepResult:
    """What an environment's ``step`` gave.

    :raises TypeError: that is not what Gymnasium asks for.
    """
    if not (isinstance(result, tuple | list) and len(result) == 5):
        got = f"{len(result)} values" if isinstance(result, tuple | list) else type(result)
        raise TypeError(f"step() must give (obs, reward, terminated, truncated, info) as in Gymnasium, got {got}")
    *answer, info = result
    if info is not None and not hasattr(info, "keys"):
        raise TypeError(f"step() must give a dict as its info, got {type(info)}")
    return (*answer, info if type(info) is dict else dict(info or {}))


def attribute(env: Any, name: str) -> Any:
    """An environment's attribute, looked up through its wrappers."""
    try:
        return getattr(env, name)
    except AttributeError:
        if isinstance(env, gym.Wrapper):
            return env.get_wrapper_attr(name)
        raise


def set_attribute(env: Any, name: str, value: Any, *, innermost: bool) -> None:
    """Sets an attribute of the innermost environment, or of the outermost wrapper that has it."""
    if innermost or not hasattr(env, "set_wrapper_attr"):
        setattr(getattr(env, "unwrapped", env), name, value)
    else:
        env.set_wrapper_attr(name, value)


def seed_env(env: Any, seed: int | None) -> Any:
    """Seeds an environment and its action space: by its own method ``seed`` where it has one, else by a reset.

    :return: what that method gave, else the seed in a list.
    """
    seed_space(declared(partial(attribute, env), "action_space"), seed)
    try:
        return attribute(env, "seed")(seed)
    except (AttributeError, NotImplementedError):
        pass
    env.reset(**({} if seed is None else {"seed": seed}))
    return [seed]


def seed_space(space: Space, seed: int | None) -> None:
    """Seeds a space, if there is one."""
    if space is not None:
        space.seed(seed)


class EnvWorker(ABC):
    """What :class:`~rlfast.env.BaseVectorEnv` asks of whatever holds an environment.

    :param env_fn: makes the environment. Called once, where the environment is to live.
    """

    result: Any
    """Where :meth:`send` of a subclass may leave its answer for :meth:`recv`."""

    def __init__(self, env_fn: Callable[[], gym.Env[Any, Any]]) -> None:
        self._env_fn = env_fn
        self.is_closed = False
        self.action_space: Space = declared(self.get_env_attr, "action_space")

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
        seed_space(self.action_space, seed)
        return [seed]

    def get_state(self) -> Any:
        """All that decides the environment's future, as plain data; see :func:`rlfast.env.state.capture`.

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
        return attribute(self.env, key)

    def call_env(self, key: str, *args: Any, **kwargs: Any) -> Any:
        """What the environment's method ``key`` gives, or the attribute where it is none."""
        found = self.get_env_attr(key)
        return found(*args, **kwargs) if callable(found) else found

    def set_env_attr(self, key: str, value: Any) -> None:
        """Sets attribute ``key`` of the innermost environment."""
        set_attribute(self.env, key, value, innermost=True)

    def set_wrapper_attr(self, key: str, value: Any) -> None:
        """Sets attribute ``key`` of the outermost wrapper that has it."""
        set_attribute(self.env, key, value, innermost=False)

    def send(self, action: Any, **kwargs: Any) -> None:
        """Steps with ``action`` or, when it is None, resets with ``kwargs``; a ``seed`` also seeds the action space.

        :raises RuntimeError: the previous answer has not been received.
        """
        if self._result is not None:
            raise RuntimeError("send() twice in a row: the first answer is still waiting, call recv() to take it")
        if action is None:
            if kwargs.get("seed") is not None:
                seed_space(self.action_space, kwargs["seed"])
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
        """Seeds the action space and the environment: by its own ``seed`` where it has one, else by a reset."""
        told: list[int | None] | None = seed_env(self.env, seed)
        return told

    def get_state(self) -> Any:
        """As :func:`rlfast.env.state.capture`."""
        return capture(self.env)

    def set_state(self, state: Any) -> None:
        """As :func:`rlfast.env.state.restore`; an answer that was waiting is dropped."""
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
