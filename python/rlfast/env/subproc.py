"""Vector environments whose environments live in worker processes, under the names Tianshou 1.0 gave them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from rlfast.env import nested
from rlfast.env.backends.in_process import InProcess
from rlfast.env.process import ProcessBackend
from rlfast.env.process.placement import choose
from rlfast.env.vector.actions import lenient
from rlfast.env.vector.arguments import EnvFn, as_autoreset_mode, as_env_fns, check_waiting
from rlfast.env.vector.base import BaseVectorEnv
from rlfast.env.worker import EnvWorker, ResetResult, StepResult

if TYPE_CHECKING:
    from rlfast.env.backends.base import Rows
    from rlfast.env.spaces import ObservationMode


_log = logging.getLogger(__name__)


class SubprocVectorEnv(BaseVectorEnv):
    """Environments in worker processes: they run side by side, and none of them can take this process with it.

    Steps go through shared memory, with no pickling and no pipe; see :class:`~rlfast.env.process.ProcessBackend`. Each
    worker has several environments when there are more of them than cores.

    :param env_fns: one callable per environment. Lambdas, notebooks and scripts without a ``__main__`` guard work.
    :param wait_num: see :class:`BaseVectorEnv`.
    :param timeout: see :class:`BaseVectorEnv`.
    :param share_memory: for Tianshou's sake; memory is shared in any case.
    :param context: ``"forkserver"`` (default where the system can fork), ``"spawn"``, ``"fork"`` or ``"thread"``, the
        default of free-threaded Python; see :class:`~rlfast.env.process.ProcessBackend`.
    :param autoreset_mode: see :class:`BaseVectorEnv`.
    :param num_workers: how many processes; None: one for each core, and never more than environments.
    :param step_timeout: seconds that a step or reset may take; None: any.
    :param on_error: ``"raise"``, or ``"restart"`` to build an environment that failed anew and go on.
    :param doorbell: ``"futex"``, ``"pipe"``, or None: whichever the system has.
    :param placement: ``"process"``, or ``"auto"``: environments are measured in throwaway processes, and stay in this
        process where that is as fast (nothing is isolated then). The attribute ``placement`` says what was chosen, and
        a logger of this module's name why.
    :param observation_mode: see :class:`BaseVectorEnv`.
    :param shared_memory: for Gymnasium's sake, as are ``copy`` and ``daemon``: memory is shared where elements have a
        layout, observations belong to the caller, and workers end with this process and may start processes.
    :raises ValueError: an argument out of range.
    :raises RuntimeError: in Gymnasium's protocol, spaces that differ.
    :raises EnvFailure: a constructor failed.

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
        context: Any = None,
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
            choice = choose(env_fns, num_workers, context)
            _log.info("environments run %s: %s", choice.placement, choice.reason)
            if choice.placement == "in-process":
                here = InProcess(env_fns, mode or AutoresetMode.DISABLED, as_space=strict or None)
                self._attach(here, wait_num, timeout, mode, observation_mode)
                return
        backend = ProcessBackend(
            env_fns,
            num_workers=num_workers,
            autoreset_mode=mode or AutoresetMode.DISABLED,
            context=context,
            step_timeout=step_timeout,
            on_error=on_error,
            doorbell=doorbell,
            strict=strict,
        )
        self._attach(backend, wait_num, timeout, mode, observation_mode)

    @property
    def restarts(self) -> int:
        """How many environments have been built anew after a failure."""
        return int(getattr(self._backend, "restarts", 0))


class ShmemVectorEnv(SubprocVectorEnv):
    """Environments where they are quickest: in worker processes that share memory, or in this process.

    The same as :class:`SubprocVectorEnv`, but ``placement`` is ``"auto"``, unless something is asked for that only
    processes have: ``wait_num``, ``timeout``, ``context``, ``num_workers``, ``step_timeout``, ``doorbell``, or
    ``on_error="restart"``. Who wants processes for the sake of safety says ``placement="process"``, or takes
    :class:`SubprocVectorEnv`.

    :param env_fns: see :class:`SubprocVectorEnv`; likewise the other parameters.

    >>> import gymnasium as gym
    >>> envs = ShmemVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(3)])
    >>> envs.placement
    'in-process'
    >>> envs.close()
    """

    _OF_PROCESSES = ("context", "num_workers", "step_timeout", "doorbell")

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        wait_num: int | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> None:
        asked = [wait_num or None, timeout, *(options.get(name) for name in self._OF_PROCESSES)]
        in_processes = any(one is not None for one in asked) or options.get("on_error") == "restart"
        options.setdefault("placement", "process" if in_processes else "auto")
        super().__init__(env_fns, wait_num, timeout, **options)


class SubprocEnvWorker(EnvWorker):
    """One environment in a process of its own.

    :param env_fn: makes the environment, in that process.
    :param share_memory: for Tianshou's sake; memory is shared in any case.
    :param context: see :class:`SubprocVectorEnv`.
    """

    _ONE = np.zeros(1, dtype=np.int64)

    def __init__(
        self,
        env_fn: Callable[[], gym.Env[Any, Any]],
        share_memory: bool = False,  # noqa: ARG002
        context: Any = None,
    ) -> None:
        self._backend = ProcessBackend([env_fn], context=context, strict=False)
        self._as_actions = lenient(self._backend.single_action_space)
        self._answer: StepResult | ResetResult | None = None
        self._stepping = False
        super().__init__(env_fn)

    def get_env_attr(self, key: str) -> Any:
        """The environment's attribute ``key``, looked up through its wrappers."""
        return self._backend.get_attr(key, self._ONE)[0]

    def set_env_attr(self, key: str, value: Any) -> None:
        """Sets attribute ``key`` of the innermost environment."""
        self._backend.set_attr(key, [value], self._ONE)

    def set_wrapper_attr(self, key: str, value: Any) -> None:
        """Sets attribute ``key`` of the outermost wrapper that has it."""
        self._backend.set_wrapper_attr(key, [value], self._ONE)

    def call_env(self, key: str, *args: Any, **kwargs: Any) -> Any:
        """What the environment's method ``key`` gives, or the attribute where it is none."""
        return self._backend.call(key, args, kwargs, self._ONE)[0]

    def send(self, action: Any, **kwargs: Any) -> None:
        """Begins a step with ``action``; or resets, when it is None, with ``seed`` and ``options``.

        :raises RuntimeError: the previous answer has not been received.
        """
        if self._stepping or self._answer is not None:
            raise RuntimeError("send() twice in a row: the first answer is still waiting, call recv() to take it")
        if action is None:
            seed, options = kwargs.pop("seed", None), kwargs.pop("options", None)
            obs, info = self._backend.reset(self._ONE, [seed], options, **kwargs)
            self._answer = nested.each(obs)[0], info.dicts()[0]
        else:
            self._backend.send(self._as_actions([action], self._ONE), self._ONE)
            self._stepping = True

    def recv(self) -> StepResult | ResetResult:
        """The answer to the last ``send``.

        :raises RuntimeError: nothing was sent.
        :raises EnvFailure: the environment failed.
        """
        if self._stepping:
            self._stepping = False
            rows: Rows = self._backend.recv(1)
            obs, info = nested.each(rows.obs)[0], rows.info.dicts()[0]
            return obs, rows.rew[0], bool(rows.terminated[0]), bool(rows.truncated[0]), info
        answer, self._answer = self._answer, None
        if answer is None:
            raise RuntimeError("recv() without an answer to wait for: call send() first")
        return answer

    @staticmethod
    def wait(workers: Sequence[EnvWorker], wait_num: int, timeout: float | None = None) -> Sequence[EnvWorker]:
        """Those of ``workers`` that have answered: ``wait_num`` or more, or what is there after ``timeout`` seconds."""
        return wait_any([worker for worker in workers if isinstance(worker, SubprocEnvWorker)], wait_num, timeout)

    def is_ready(self) -> bool:
        """Whether :meth:`recv` would return, or raise, at once."""
        return not self._stepping or self._backend.is_ready()

    def seed(self, seed: int | None = None) -> list[int | None] | None:
        """Seeds the environment and its action space: by its own ``seed`` where it has one, else by a reset."""
        super().seed(seed)
        self._backend.seed(self._ONE, [seed])
        return [seed]

    def render(self, **kwargs: Any) -> Any:
        """Renders the environment."""
        return self._backend.render(self._ONE, **kwargs)[0]

    def close_env(self) -> None:
        """Ends the process."""
        self._backend.close()


def wait_any(
    workers: Sequence[SubprocEnvWorker], wait_num: int, timeout: float | None = None
) -> list[SubprocEnvWorker]:
    """Those that have answered: ``wait_num`` or more, or what is there after ``timeout`` seconds."""
    deadline = None if timeout is None else time.monotonic() + timeout
    pause = 20e-6
    while True:
        ready = [worker for worker in workers if worker.is_ready()]
        if len(ready) >= min(wait_num, len(workers)) or (deadline is not None and time.monotonic() >= deadline):
            return ready
        time.sleep(pause)  # each has memory of its own, so there is nothing to wait for all of them on
        pause = min(2 * pause, 1e-3)
