"""Vector environments whose environments run in worker processes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from multiprocessing.context import BaseContext
from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode

from rlfast.env.backends.base import Backend
from rlfast.env.backends.in_process import InProcess
from rlfast.env.process import ProcessBackend
from rlfast.env.process.placement import choose
from rlfast.env.spaces.batching import ObservationMode
from rlfast.env.vector.arguments import EnvFn, as_autoreset_mode, as_env_fns, check_waiting
from rlfast.env.vector.base import BaseVectorEnv
from rlfast.env.vector.worker_view import WorkerView
from rlfast.env.worker import EnvWorker

_log = logging.getLogger(__name__)


class SubprocVectorEnv(BaseVectorEnv):
    """A vector environment that runs its environments in parallel in worker processes.

    An environment that crashes does not end this process. Steps go through shared memory, without pickling and without
    pipes; see :class:`~rlfast.env.process.ProcessBackend`. If there are more environments than cores, each worker has
    several environments.

    :param env_fns: one callable per environment. Lambdas, notebooks and scripts without a ``__main__`` guard work.
    :param wait_num: see :class:`BaseVectorEnv`.
    :param timeout: see :class:`BaseVectorEnv`.
    :param share_memory: has no effect: memory is always shared.
    :param context: how workers are started: ``"forkserver"`` (default if the system can fork), ``"spawn"`` or
        ``"fork"``; see :class:`~rlfast.env.process.ProcessBackend`.
    :param autoreset_mode: see :class:`BaseVectorEnv`.
    :param num_workers: the number of processes; None for one per core. There are never more than environments.
    :param step_timeout: the number of seconds that a step or reset may take; None for no limit.
    :param on_error: ``"raise"`` raises the error of an environment; ``"restart"`` rebuilds the environment.
    :param doorbell: how processes wake one another: ``"futex"``, ``"pipe"``, or None for the one that the system
        supports.
    :param placement: ``"process"``, or ``"auto"`` to measure the environments and run them where a step takes less
        time: in workers, or ``"in-process"``. The attribute ``placement`` is the choice, and a log message of this
        module's logger gives the reason.
    :param observation_mode: see :class:`BaseVectorEnv`.
    :param shared_memory: accepted for compatibility with Gymnasium and ignored: arrays always go through shared memory.
    :param copy: accepted for compatibility with Gymnasium and ignored: returned observations are never overwritten.
    :param daemon: accepted for compatibility with Gymnasium and ignored: workers end with this process, and may start
        processes of their own.
    :raises ValueError: an argument is out of range.
    :raises TypeError: an environment function cannot be pickled.
    :raises RuntimeError: in Gymnasium's protocol, the spaces of the environments differ.
    :raises EnvFailure: the constructor of an environment failed.

    >>> import gymnasium as gym
    >>> envs = SubprocVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(3)])
    >>> obs, info = envs.reset(seed=0)
    >>> obs.shape, envs.placement
    ((3, 4), 'process')
    >>> envs.close()
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        wait_num: int | None = None,
        timeout: float | None = None,
        share_memory: bool = False,  # noqa: ARG002
        context: str | BaseContext | None = None,
        *,
        autoreset_mode: AutoresetMode | str | None = None,
        num_workers: int | None = None,
        step_timeout: float | None = None,
        on_error: str = "raise",
        doorbell: str | None = None,
        placement: str = "process",
        observation_mode: ObservationMode = "same",
        shared_memory: bool = True,  # noqa: ARG002
        copy: bool = True,  # noqa: ARG002
        daemon: bool = True,  # noqa: ARG002
    ) -> None:
        mode = as_autoreset_mode(autoreset_mode)
        env_fns = as_env_fns(env_fns)
        wait_num = check_waiting(len(env_fns), wait_num, timeout)
        self._env_fns = env_fns
        strict = mode is not None
        if placement not in {"process", "auto"}:
            raise ValueError(f'placement must be "process" or "auto", got {placement!r}')
        if placement == "auto":
            placement, reason = choose(env_fns, num_workers, context)
            _log.info("environments run %s: %s", placement, reason)
        own = mode or AutoresetMode.DISABLED
        backend: Backend = (
            InProcess(env_fns, own, as_space=strict or None)
            if placement == "in-process"
            else ProcessBackend(
                env_fns,
                num_workers=num_workers,
                autoreset_mode=own,
                context=context,
                step_timeout=step_timeout,
                on_error=on_error,
                doorbell=doorbell,
                strict=strict,
            )
        )
        self._attach(backend, wait_num, timeout, mode, observation_mode)

    @property
    def restarts(self) -> int:
        """The number of environments that have been rebuilt after a failure."""
        return int(getattr(self._backend, "restarts", 0))


class ShmemVectorEnv(SubprocVectorEnv):
    """A vector environment that runs where it is faster: in worker processes or in this process.

    It shares memory with its workers. It is a :class:`SubprocVectorEnv` whose ``placement`` is ``"auto"`` by default.
    The default is ``"process"`` if an argument is given that only worker processes support: ``wait_num``, ``timeout``,
    ``context``, ``num_workers``, ``step_timeout``, ``doorbell``, or ``on_error="restart"``. To isolate the environments
    from this process, use :class:`SubprocVectorEnv` or ``placement="process"``.

    :param env_fns: one callable per environment.
    :param wait_num: see :class:`BaseVectorEnv`.
    :param timeout: see :class:`BaseVectorEnv`.
    :param options: the other parameters of :class:`SubprocVectorEnv`.
    :raises ValueError: an argument is out of range.
    :raises TypeError: an environment function cannot be pickled.
    :raises RuntimeError: in Gymnasium's protocol, the spaces of the environments differ.
    :raises EnvFailure: the constructor of an environment failed.

    >>> import gymnasium as gym
    >>> envs = ShmemVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(3)])
    >>> envs.placement
    'in-process'
    >>> envs.close()
    """

    _PROCESS_OPTIONS = ("context", "num_workers", "step_timeout", "doorbell")

    def __init__(
        self, env_fns: Sequence[EnvFn], wait_num: int | None = None, timeout: float | None = None, **options: Any
    ) -> None:
        given = [wait_num or None, timeout, *(options.get(name) for name in self._PROCESS_OPTIONS)]
        in_processes = any(one is not None for one in given) or options.get("on_error") == "restart"
        options.setdefault("placement", "process" if in_processes else "auto")
        super().__init__(env_fns, wait_num, timeout, **options)


class SubprocEnvWorker(WorkerView):
    """A worker whose environment runs in a process of its own.

    :param env_fn: makes the environment, in that process.
    :param share_memory: has no effect: memory is always shared.
    :param context: see :class:`SubprocVectorEnv`.
    :raises ValueError: the context is unknown.
    :raises TypeError: the function cannot be pickled.
    :raises EnvFailure: the constructor of the environment failed.
    """

    _envs: SubprocVectorEnv

    def __init__(
        self,
        env_fn: Callable[[], gym.Env[Any, Any]],
        share_memory: bool = False,  # noqa: ARG002
        context: str | BaseContext | None = None,
    ) -> None:
        super().__init__(SubprocVectorEnv([env_fn], context=context), 0)

    def set_wrapper_attr(self, key: str, value: object) -> None:
        """Sets an attribute of the outermost wrapper that has it, otherwise of the environment.

        :param key: the attribute's name.
        :param value: its new value.
        """
        self._envs.set_attr(key, [value])

    def call_env(self, key: str, *args: Any, **kwargs: Any) -> Any:
        """Calls a method of the environment, or reads an attribute.

        :param key: the name of the method or attribute.
        :param args: the method's arguments.
        :param kwargs: the method's keyword arguments.
        :return: what the method returned, or the attribute's value.
        """
        return self._envs.call(key, *args, **kwargs)[0]

    @staticmethod
    def wait(workers: Sequence[EnvWorker], wait_num: int, timeout: float | None = None) -> Sequence[EnvWorker]:
        """Waits until workers have answered.

        :param workers: the workers to wait for.
        :param wait_num: the number of workers to wait for.
        :param timeout: seconds after which fewer workers are returned; None waits without a limit.
        :return: the workers that have answered.
        """
        own = [worker for worker in workers if isinstance(worker, SubprocEnvWorker)]
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = 20e-6
        while True:
            ready = [worker for worker in own if worker.is_ready()]
            if len(ready) >= min(wait_num, len(own)) or (deadline is not None and time.monotonic() >= deadline):
                return ready
            time.sleep(pause)  # polls, because the workers have separate memory and no common event to wait for
            pause = min(2 * pause, 1e-3)

    def is_ready(self) -> bool:
        """Whether :meth:`recv` would return or raise without waiting."""
        return not self._envs.waiting_id or self._envs._backend.is_ready()  # type: ignore[attr-defined]  # noqa: SLF001

    def seed(self, seed: int | None = None) -> list[int | None] | None:
        """Seeds the environment and its action space.

        The environment is seeded by its own method ``seed``; one without such a method is reset with the seed.

        :param seed: the seed; None for fresh entropy.
        :return: the seed, in a list.
        """
        return self._envs.seed([seed])[0]

    def close_env(self) -> None:
        """Ends the process."""
        self._envs.close()

    close = close_env
