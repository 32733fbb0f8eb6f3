"""An adapter for subclasses of :class:`BaseVectorEnv` that override ``step`` or ``reset``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from rlfast.env.adapters.base import Wrapped
from rlfast.env.backends.base import Rows, Tree
from rlfast.env.backends.info import Info
from rlfast.env.vector.base import BaseVectorEnv
from rlfast.utils import tree


def overrides_steps(env: BaseVectorEnv) -> bool:
    """Whether a user's class overrides ``step`` or ``reset`` without overriding ``recv`` or ``reset_rows``."""
    for kind in type(env).__mro__:
        if kind.__module__.startswith("rlfast.") or {"recv", "reset_rows"} & kind.__dict__.keys():
            return False
        if {"step", "reset"} & kind.__dict__.keys():
            return True
    return False


class StepsBackend(Wrapped):
    """A backend that calls ``step`` and ``reset`` of a vector environment without an autoreset mode.

    :param env: an instance of a subclass that overrides ``step`` or ``reset``.
    """

    placement = "overridden"

    def __init__(self, env: BaseVectorEnv) -> None:
        super().__init__(env, env.num_envs)
        self.autoreset_mode = AutoresetMode.DISABLED
        self._pending_step: tuple[Tree, NDArray[np.int64]] | None = None

    def reset(
        self, ids: NDArray[np.int64], seeds: Sequence[int | None], options: dict[str, Any] | None
    ) -> tuple[Tree, Info]:
        """As :meth:`Backend.reset`."""
        given: dict[str, Any] = {} if options is None else {"options": options}
        if any(seed is not None for seed in seeds):
            given["seed"] = list(seeds)
        obs, infos = self.env.reset(ids, **given)
        return tree.collate(obs), Info.of(infos)

    def send(self, actions: Tree, ids: NDArray[np.int64]) -> None:
        """As :meth:`Backend.send`."""
        if self._pending_step is not None:
            self.env.send(*self._pending_step)  # recv() returns the results of both steps
        self._pending_step = actions, ids

    def recv(self, min_ready: int, timeout: float | None = None) -> Rows:  # noqa: ARG002
        """As :meth:`Backend.recv`; ``env`` decides how many results to wait for."""
        pending, self._pending_step = self._pending_step, None
        answer, rewards, ends, cuts, infos = self.env.step(None) if pending is None else self.env.step(*pending)
        obs = tree.collate(answer)
        return Rows(
            np.array([info["env_id"] for info in infos], dtype=np.int64),
            obs,
            obs,
            np.asarray(rewards, dtype=np.float64),
            np.asarray(ends, dtype=bool),
            np.asarray(cuts, dtype=bool),
            Info.of([{key: value for key, value in info.items() if key != "env_id"} for info in infos]),
        )

    def drop(self) -> None:
        """As :meth:`Backend.drop`."""
        self._pending_step = None
        self.env._abandon()  # noqa: SLF001

    def get_attr(self, name: str, ids: NDArray[np.int64]) -> list[Any]:
        """As :meth:`Backend.get_attr`."""
        found: list[Any] = self.env.get_env_attr(name, ids)
        return found

    def set_attr(self, name: str, values: Sequence[Any], ids: NDArray[np.int64]) -> None:
        """As :meth:`Backend.set_attr`."""
        for i, value in zip(ids.tolist(), values, strict=True):
            self.env.set_env_attr(name, value, [i])
