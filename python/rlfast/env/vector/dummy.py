"""Environments in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlfast.env.vector.base import BaseVectorEnv
from rlfast.env.worker import DummyEnvWorker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gymnasium.vector import AutoresetMode

    from rlfast.env.spaces import ObservationMode
    from rlfast.env.vector.arguments import EnvFn


class DummyVectorEnv(BaseVectorEnv):
    """Environments in this process, stepped one after the other: quickest for small ones, and easiest to debug.

    :param env_fns: one callable per environment; ``env_fns[i]()`` makes the i-th.
    :param wait_num: see :class:`BaseVectorEnv`; here every environment is always ready.
    :param timeout: see :class:`BaseVectorEnv`.
    :param autoreset_mode: see :class:`BaseVectorEnv`.
    :param observation_mode: see :class:`BaseVectorEnv`.
    :param copy: for Gymnasium's sake: observations belong to the caller in any case.
    """

    def __init__(
        self,
        env_fns: Sequence[EnvFn],
        wait_num: int | None = None,
        timeout: float | None = None,
        *,
        autoreset_mode: AutoresetMode | str | None = None,
        observation_mode: ObservationMode = "same",
        copy: bool = True,  # noqa: ARG002
    ) -> None:
        super().__init__(
            env_fns,
            DummyEnvWorker,
            wait_num,
            timeout,
            autoreset_mode=autoreset_mode,
            observation_mode=observation_mode,
        )
