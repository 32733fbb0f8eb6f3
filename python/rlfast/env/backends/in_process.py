"""Steps environments in this process, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rlfast.env import nested
from rlfast.env.backends.workers import Workers, told
from rlfast.env.worker import DummyEnvWorker, reset_result, step_result

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import gymnasium as gym
    from gymnasium.vector import AutoresetMode
    from numpy.typing import NDArray

    from rlfast.env.backends.base import Tree


class InProcess(Workers):
    """Environments of this process. ``send`` takes note, and ``recv`` steps all that were asked, so all are ready.

    :param env_fns: one callable per environment.
    :param autoreset_mode: who resets an environment whose episode ended.
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
        self._asked: list[tuple[int, Any]] = []

    def send(self, actions: Tree, ids: NDArray[np.int64]) -> None:
        """As :meth:`Backend.send`."""
        numbers = ids.tolist()
        self._asked += zip(numbers, actions if isinstance(actions, np.ndarray) else nested.each(actions), strict=True)
        self._stepping += numbers

    def _ready(self, min_ready: int, timeout: float | None) -> list[int]:  # noqa: ARG002
        return self._stepping

    def _fetch(self, ids: Sequence[int]) -> None:  # noqa: ARG002
        workers, ended, answers = self.workers, self._ended, self._answers
        asked, self._asked = self._asked, []
        try:
            for i, action in asked:
                try:
                    if ended and i in ended:
                        self._resetting.add(i)
                        obs, info = reset_result(workers[i].env.reset())
                        answers[i] = (obs, 0.0, False, False, info)
                    else:
                        answer = workers[i].env.step(action)
                        usual = type(answer) is tuple and len(answer) == 5 and type(answer[4]) is dict  # type: ignore[redundant-expr]
                        answers[i] = answer if usual else step_result(answer)
                except Exception as error:
                    self._failed[i] = told(error, i, f"step({action!r})")
        except BaseException:  # Ctrl-C: what has not answered by now never will
            for i, _ in asked:
                if i not in answers and i not in self._failed:
                    self._failed[i] = told(RuntimeError("the step was interrupted"), i, "step()")
            raise
