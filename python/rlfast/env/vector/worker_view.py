"""Single environments of a vector environment, presented as workers."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlfast.env.backends.base import Backend, Rows, Tree
from rlfast.env.backends.info import Info
from rlfast.env.vector.arguments import Seeds
from rlfast.env.worker import EnvWorker, ResetResult, StepResult
from rlfast.utils import tree


class Environments(Protocol):
    """The attributes and methods of a vector environment that a view uses."""

    _backend: Backend

    def _abandon(self, ids: NDArray[np.int64]) -> None: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def waiting_id(self) -> list[int]: ...
    def get_env_attr(self, key: str, id: NDArray[np.int64]) -> list[Any]: ...
    def set_env_attr(self, key: str, value: object, id: NDArray[np.int64]) -> None: ...
    def send(self, actions: object, id: NDArray[np.int64]) -> None: ...
    def recv(self, min_ready: int) -> Rows: ...
    def reset_rows(self, id: NDArray[np.int64], seed: Seeds, **kwargs: Any) -> tuple[Tree, Info]: ...


class WorkerView(EnvWorker):
    """One environment of a vector environment whose backend has no worker for each environment.

    :param envs: the vector environment.
    :param number: the environment's number in it.
    """

    def __init__(self, envs: Environments, number: int) -> None:
        self._envs, self._id = envs, np.array([number])
        self._reset_result: ResetResult | None = None

    @property
    def is_closed(self) -> bool:  # type: ignore[override]
        """Whether the vector environment is closed."""
        return self._envs.is_closed

    @property
    def action_space(self) -> Any:  # type: ignore[override]
        """The environment's action space."""
        return self.get_env_attr("action_space")

    def get_env_attr(self, key: str) -> Any:
        """Returns the environment's attribute ``key``, looked up through its wrappers."""
        return self._envs.get_env_attr(key, self._id)[0]

    def set_env_attr(self, key: str, value: object) -> None:
        """Sets the attribute ``key`` of the environment; wrappers are skipped."""
        self._envs.set_env_attr(key, value, self._id)

    def send(self, action: object, **kwargs: Any) -> None:
        """Starts a step, or resets the environment if ``action`` is None.

        :param action: the action; None for a reset.
        :param kwargs: ``seed`` and ``options`` of a reset.
        :raises RuntimeError: the previous result has not been received, or another environment is stepping, whose
            result would be received in place of this one's.
        """
        waiting = self._envs.waiting_id
        if self._reset_result is not None or waiting == self._id.tolist():
            raise RuntimeError("send() twice in a row: the first answer is still waiting, call recv() to take it")
        if waiting:
            raise RuntimeError(f"environments {waiting} are stepping: take their answers with recv() first")
        if action is not None:
            self._envs.send([action], self._id)
            return
        seed = kwargs.pop("seed", None)
        obs, info = self._envs.reset_rows(self._id, None if seed is None else [seed], **kwargs)
        self._reset_result = tree.each(obs)[0], info.dicts()[0]

    def recv(self) -> StepResult | ResetResult:
        """Returns the result of the last ``send``.

        :raises RuntimeError: no step or reset was sent.
        """
        result, self._reset_result = self._reset_result, None
        if result is not None:
            return result
        if not self._envs.waiting_id:
            raise RuntimeError("recv() without an answer to wait for: call send() first")
        rows = self._envs.recv(1)
        obs, info = tree.each(rows.obs)[0], rows.info.dicts()[0]
        return obs, rows.rew[0], bool(rows.terminated[0]), bool(rows.truncated[0]), info

    def discard(self) -> bool:
        """As :meth:`EnvWorker.discard`."""
        self._reset_result = None
        self._envs._abandon(self._id)  # noqa: SLF001
        return True

    def seed(self, seed: int | None = None) -> list[int | None] | None:
        """Resets the environment with this seed; environments in worker processes seed their action space as well.

        :param seed: the seed; None for fresh entropy.
        :return: the seed, in a list.
        """
        self._envs.reset_rows(self._id, [seed])
        return [seed]

    def render(self, **kwargs: Any) -> Any:
        """Renders the environment."""
        return self._envs._backend.render(self._id, **kwargs)[0]  # noqa: SLF001

    def close_env(self) -> None:
        """Raises an error: only the whole vector environment can be closed.

        :raises NotImplementedError: always.
        """
        raise NotImplementedError("one of several environments cannot be closed: close the vector environment")

    close = close_env
