"""Workers: each holds one environment; ``send`` starts a step or reset, and ``recv`` returns its result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Self, TypeAlias

import gymnasium as gym
import numpy as np

from rlfast.env.spaces.batching import Space, declared
from rlfast.env.state import capture, restore
from rlfast.utils.arguments.checks import ArgumentError
from rlfast.utils.runtime.extras import lazy_names

StepResult: TypeAlias = tuple[Any, Any, bool, bool, dict[str, Any]]
"""``(obs, rew, terminated, truncated, info)`` of one environment."""
ResetResult: TypeAlias = tuple[Any, dict[str, Any]]
"""``(obs, info)`` of one environment."""


def reset_result(result: object) -> ResetResult:
    """Checks what an environment's ``reset`` returned, and converts the info to a dict.

    :param result: the returned value.
    :return: ``(obs, info)``.
    :raises ArgumentError: ``result`` is not a pair ``(obs, info)``, as in Gymnasium.
    """
    if not (isinstance(result, tuple | list) and len(result) == 2 and hasattr(result[1], "keys")):
        raise ArgumentError(f"reset() must give (obs, info) as in Gymnasium, got {type(result)}")
    return result[0], result[1] if type(result[1]) is dict else dict(result[1])


def step_result(result: object) -> StepResult:
    """Checks what an environment's ``step`` returned, and converts the info to a dict.

    :param result: the returned value.
    :return: ``(obs, rew, terminated, truncated, info)``.
    :raises TypeError: ``result`` does not have these five values, as in Gymnasium, or a reward is None, which would
        become NaN.
    """
    if not (isinstance(result, tuple | list) and len(result) == 5):
        got = f"{len(result)} values" if isinstance(result, tuple | list) else type(result)
        raise TypeError(f"step() must give (obs, reward, terminated, truncated, info) as in Gymnasium, got {got}")
    *answer, info = result
    if info is not None and not hasattr(info, "keys"):
        raise TypeError(f"step() must give a dict as its info, got {type(info)}")
    reward = answer[1]
    if type(reward) is not float and _is_missing(reward):
        raise TypeError(f"step() must give a number as its reward, or an array of one for each agent, got {reward!r}")
    return (*answer, info if type(info) is dict else dict(info or {}))


def _is_missing(reward: object) -> bool:
    if isinstance(reward, np.ndarray | list | tuple):
        array = np.asarray(reward, None if isinstance(reward, np.ndarray) else object)
        return array.dtype == object and None in array.ravel().tolist()
    return reward is None


def attribute(env: object, name: str) -> Any:
    """Returns an environment's attribute, looked up through its wrappers.

    :param env: the environment.
    :param name: the attribute's name.
    """
    try:
        return getattr(env, name)
    except AttributeError:
        if isinstance(env, gym.Wrapper):
            return env.get_wrapper_attr(name)
        raise


def set_attribute(env: object, name: str, value: object, *, innermost: bool) -> None:
    """Sets an attribute of the innermost environment, or of the outermost wrapper that has it.

    :param env: the environment.
    :param name: the attribute's name.
    :param value: its value.
    :param innermost: whether the innermost environment gets it.
    """
    if innermost or not hasattr(env, "set_wrapper_attr"):
        setattr(getattr(env, "unwrapped", env), name, value)
    else:
        env.set_wrapper_attr(name, value)


def seed_env(env: gym.Env[Any, Any], seed: int | None) -> Any:
    """Seeds an environment and its action space.

    The environment is seeded by its own method ``seed``; one without such a method is reset with the seed.

    :param env: the environment.
    :param seed: the seed; None for a random one.
    :return: what the method ``seed`` returned; after a reset, the seed in a list.
    """
    seed_space(declared(partial(attribute, env), "action_space"), seed)
    try:
        return attribute(env, "seed")(seed)
    except (AttributeError, NotImplementedError):
        pass
    if seed is None:
        env.reset()
    else:
        env.reset(seed=seed)
    return [seed]


def seed_space(space: Space, seed: int | None) -> None:
    """Seeds a space; None is ignored.

    :param space: the space.
    :param seed: the seed.
    """
    if space is not None:
        space.seed(seed)


class EnvWorker(ABC):
    """The interface of workers. A worker holds one environment of a :class:`~rlfast.env.BaseVectorEnv`.

    :param env_fn: makes the environment. It is called once, in the process in which the environment runs.
    """

    result: Any
    """The result of the last :meth:`send`, which :meth:`recv` returns unless a subclass overrides it."""

    def __init__(self, env_fn: Callable[[], gym.Env[Any, Any]]) -> None:
        self._env_fn = env_fn
        self.is_closed = False
        self.action_space: Space = declared(self.get_env_attr, "action_space")

    @abstractmethod
    def get_env_attr(self, key: str) -> Any:
        """Returns an attribute of the environment, looked up through its wrappers.

        :param key: the attribute's name.
        :raises AttributeError: the environment has no such attribute.
        """

    @abstractmethod
    def set_env_attr(self, key: str, value: object) -> None:
        """Sets an attribute of the environment; wrappers are skipped.

        :param key: the attribute's name.
        :param value: its new value.
        """

    @abstractmethod
    def send(self, action: object, **kwargs: Any) -> None:
        """Starts a step, or a reset if ``action`` is None.

        :param action: the action; None for a reset.
        :param kwargs: the arguments of a reset.
        """

    def recv(self) -> StepResult | ResetResult:
        """Waits for the result of the last :meth:`send`.

        This implementation returns the attribute ``result``, which :meth:`send` of a subclass has set.

        :return: ``(obs, rew, terminated, truncated, info)`` after a step, ``(obs, info)`` after a reset.
        """
        answer: StepResult | ResetResult = self.result
        return answer

    def discard(self) -> bool:
        """Forgets what :meth:`send` was given and :meth:`recv` has not returned, after Ctrl-C interrupted one of them.

        :return: whether the worker can be used again. This implementation returns False, as it does not know how far
            the call came: the vector environment then makes a new worker. A subclass that can tell overrides it.
        """
        return False

    def reset(self, **kwargs: Any) -> ResetResult:
        """Resets the environment and waits for the result: :meth:`send` followed by :meth:`recv`.

        :param kwargs: given to the environment's ``reset``.
        :return: ``(obs, info)``.
        """
        self.send(None, **kwargs)
        return self.recv()  # type: ignore[return-value]

    def step(self, action: object) -> StepResult:
        """Steps the environment and waits for the result: :meth:`send` followed by :meth:`recv`.

        :param action: the action.
        :return: ``(obs, rew, terminated, truncated, info)``.
        """
        self.send(action)
        return self.recv()  # type: ignore[return-value]

    @staticmethod
    def wait(workers: Sequence[EnvWorker], wait_num: int, timeout: float | None = None) -> Sequence[EnvWorker]:  # noqa: ARG004
        """Waits until workers have answered.

        This implementation returns all workers at once, because :meth:`recv` waits for the result anyway.

        :param workers: the workers to wait for.
        :param wait_num: the number of workers to wait for.
        :param timeout: seconds after which fewer workers are returned; None waits without a limit.
        :return: the workers that have answered.
        """
        return workers

    def seed(self, seed: int | None = None) -> list[int | None] | None:
        """Seeds the action space; subclasses override this to seed the environment as well.

        :param seed: the seed; None for fresh entropy.
        :return: the seed, in a list.
        """
        seed_space(self.action_space, seed)
        return [seed]

    def get_state(self) -> Any:
        """Returns the complete state of the environment as plain data; see :func:`rlfast.env.state.capture`.

        :raises NotImplementedError: the state cannot be saved.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot store its environment's state")

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores a state that :meth:`get_state` returned.

        :param state: the state.
        :raises NotImplementedError: the environment differs from the one whose state it is.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot restore its environment's state")

    @abstractmethod
    def render(self, **kwargs: Any) -> Any:
        """Renders the environment.

        :param kwargs: given to the environment's ``render``.
        :return: what ``render`` returned.
        """

    @abstractmethod
    def close_env(self) -> None:
        """Closes the environment. :meth:`close` calls this method once."""

    def close(self) -> None:
        """Closes the environment. Later calls do nothing."""
        if not self.is_closed:
            self.is_closed = True
            self.close_env()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class OneRequest(EnvWorker):
    """A worker that is asked for one step or reset at a time. Subclasses say how a method of the environment is called.

    :param env_fn: makes the environment.
    """

    _answer: Any = None
    """What :meth:`_begin` returned, until :meth:`recv` takes it."""

    @abstractmethod
    def _begin(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Starts a call of a method of the environment."""

    def _end(self, answer: Any) -> Any:
        """Waits for the result of a call that :meth:`_begin` started."""
        return answer

    def send(self, action: object, **kwargs: Any) -> None:
        """Starts a step, or a reset if ``action`` is None.

        :param action: the action; None for a reset.
        :param kwargs: the arguments of a reset; its ``seed`` also seeds the action space.
        :raises RuntimeError: the previous result has not been received.
        """
        if self._answer is not None:
            raise RuntimeError("send() twice in a row: the first answer is still waiting, call recv() to take it")
        if action is not None:
            self._answer = self._begin("step", action)
            return
        if kwargs.get("seed") is not None:
            seed_space(self.action_space, kwargs["seed"])
        self._answer = self._begin("reset", **kwargs)

    def recv(self) -> StepResult | ResetResult:
        """Waits for the result of the last :meth:`send` and returns it.

        :return: ``(obs, rew, terminated, truncated, info)`` after a step, ``(obs, info)`` after a reset.
        :raises RuntimeError: no step or reset was sent.
        """
        answer, self._answer = self._answer, None
        if answer is None:
            raise RuntimeError("recv() without an answer to wait for: call send() first")
        result: StepResult | ResetResult = self._end(answer)
        return result


class DummyEnvWorker(OneRequest):
    """A worker whose environment runs in this process: :meth:`send` makes the step or reset before it returns.

    :param env_fn: makes the environment.
    """

    def __init__(self, env_fn: Callable[[], gym.Env[Any, Any]]) -> None:
        self.env = env_fn()
        super().__init__(env_fn)

    def get_env_attr(self, key: str) -> Any:
        """As :meth:`EnvWorker.get_env_attr`."""
        return attribute(self.env, key)

    def call_env(self, key: str, *args: Any, **kwargs: Any) -> Any:
        """Calls a method of the environment, or reads an attribute.

        :param key: the name of the method or attribute.
        :param args: the method's arguments.
        :param kwargs: the method's keyword arguments.
        :return: what the method returned, or the attribute's value.
        :raises AttributeError: the environment has no such attribute.
        """
        found = self.get_env_attr(key)
        return found(*args, **kwargs) if callable(found) else found

    def set_env_attr(self, key: str, value: object) -> None:
        """As :meth:`EnvWorker.set_env_attr`."""
        set_attribute(self.env, key, value, innermost=True)

    def set_wrapper_attr(self, key: str, value: object) -> None:
        """Sets an attribute of the outermost wrapper that has it, otherwise of the environment.

        :param key: the attribute's name.
        :param value: its new value.
        """
        set_attribute(self.env, key, value, innermost=False)

    def _begin(self, name: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.env, name)(*args, **kwargs)

    def discard(self) -> bool:
        """As :meth:`EnvWorker.discard`."""
        self._answer = None
        return True

    @staticmethod
    def wait(workers: Sequence[EnvWorker], wait_num: int, timeout: float | None = None) -> Sequence[EnvWorker]:  # noqa: ARG004
        """As :meth:`EnvWorker.wait`: returns all workers, because results in this process are available at once."""
        return workers

    def seed(self, seed: int | None = None) -> list[int | None] | None:
        """Seeds the action space and the environment.

        The environment is seeded by its own method ``seed``; one without such a method is reset with the seed.

        :param seed: the seed; None for fresh entropy.
        :return: what the method ``seed`` returned; after a reset, the seed in a list.
        """
        returned: list[int | None] | None = seed_env(self.env, seed)
        return returned

    def get_state(self) -> Any:
        """As :meth:`EnvWorker.get_state`."""
        return capture(self.env)

    def set_state(self, state: dict[str, Any]) -> None:
        """As :meth:`EnvWorker.set_state`; a result that has not been received is discarded."""
        self._answer = None
        restore(self.env, state)

    def render(self, **kwargs: Any) -> Any:
        """As :meth:`EnvWorker.render`."""
        return self.env.render(**kwargs)

    def close_env(self) -> None:
        """Closes the environment."""
        self.env.close()


def __getattr__(name: str) -> Any:
    if name in {"RayEnvWorker", "SubprocEnvWorker"}:  # another path; both modules import this one
        return getattr(import_module("rlfast.env"), name)
    return _module(name)


_module, _ = lazy_names(__name__, {})
