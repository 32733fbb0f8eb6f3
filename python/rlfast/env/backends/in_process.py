"""A backend that steps environments in this process, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from rlfast._core import own_answer
from rlfast.env.backends.base import Tree
from rlfast.env.backends.info import Info
from rlfast.env.backends.workers import Failures, Workers, as_call, reset_arguments, with_env_id
from rlfast.env.worker import DummyEnvWorker, ResetResult, reset_result, seed_space, step_result
from rlfast.utils import tree
from rlfast.utils.arguments.checks import ArgumentError


class InProcess(Workers):
    """Runs environments in this process: ``send`` stores the actions, and ``recv`` makes all steps that were sent.

    :param env_fns: one callable per environment.
    :param autoreset_mode: when an environment is reset after the end of an episode.
    :param as_space: as for :class:`~rlfast.env.backends.workers.Workers`.
    """

    placement = "in-process"
    workers: list[DummyEnvWorker]  # type: ignore[assignment]

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gym.Env[Any, Any]]],
        autoreset_mode: AutoresetMode,
        *,
        as_space: bool | None,
    ) -> None:
        super().__init__(env_fns, DummyEnvWorker, autoreset_mode, as_space=as_space)
        if len({id(worker.env) for worker in self.workers}) < len(self.workers):
            raise ArgumentError("several env_fns return the same environment: each must make one of its own")
        self._pending_steps: list[tuple[list[int], list[Any]]] = []  # environments and their actions

    def send(self, actions: Tree, ids: NDArray[np.int64]) -> None:
        """As :meth:`Backend.send`."""
        numbers = ids.tolist()
        self._pending_steps.append((numbers, tree.each(actions)))
        self._stepping += numbers

    def drop(self) -> None:
        """As :meth:`Backend.drop`; steps that were sent and not made are not made."""
        self._pending_steps = []
        super().drop()

    def _reset(
        self, ids: NDArray[np.int64], seeds: Sequence[int | None], options: dict[str, Any] | None, **more: Any
    ) -> tuple[dict[int, ResetResult], Failures]:
        results: dict[int, ResetResult] = {}
        failures: Failures = {}
        for i, request in zip(ids.tolist(), reset_arguments(seeds, options, more), strict=True):
            worker = self.workers[i]
            try:
                if "seed" in request:
                    seed_space(worker.action_space, request["seed"])
                results[i] = tree.copied(reset_result(worker.env.reset(**request)))
            except Exception as error:
                failures[i] = with_env_id(error, i, as_call("reset", request))
        return results, failures

    def _own_infos(self, infos: Sequence[dict[str, Any]]) -> Info:
        return Info.of(infos) if any(infos) else Info(len(infos))  # which are copies

    def _ready(self, min_ready: int, timeout: float | None) -> list[int]:  # noqa: ARG002
        return self._stepping

    def _fetch(self, ids: Sequence[int]) -> None:  # noqa: ARG002
        workers, ended, answers = self.workers, self._ended, self._answers
        pending, self._pending_steps = self._pending_steps, []
        for numbers, rows in pending:
            for i, action in zip(numbers, rows, strict=True):
                try:
                    if ended and i in ended:
                        self._resetting.add(i)
                        obs, info = reset_result(workers[i].env.reset())
                        answers[i] = tree.copied((obs, 0.0, False, False, info))
                    else:  # copied before another environment steps, which may overwrite what they share
                        answer = workers[i].env.step(action)
                        answers[i] = own_answer(answer) or tree.copied(step_result(answer))
                except Exception as error:
                    self._failed[i] = with_env_id(error, i, f"step({action!r})")
