"""A vector environment whose environments run in this process."""

from __future__ import annotations

from collections.abc import Sequence

from gymnasium.vector import AutoresetMode

from rlfast.env.spaces.batching import ObservationMode
from rlfast.env.vector.arguments import EnvFn
from rlfast.env.vector.base import BaseVectorEnv
from rlfast.env.worker import DummyEnvWorker


class DummyVectorEnv(BaseVectorEnv):
    """A vector environment that steps its environments one after the other in this process.

    This is the fastest way for environments with short steps, and the easiest one to debug.

    :param env_fns: one callable per environment; ``env_fns[i]()`` makes the i-th.
    :param wait_num: see :class:`BaseVectorEnv`; in this class all environments answer at once.
    :param timeout: see :class:`BaseVectorEnv`.
    :param autoreset_mode: see :class:`BaseVectorEnv`.
    :param observation_mode: see :class:`BaseVectorEnv`.
    :param copy: accepted for compatibility with Gymnasium and ignored: returned observations are never overwritten.
    :raises ValueError: see :class:`BaseVectorEnv`.
    :raises RuntimeError: see :class:`BaseVectorEnv`.
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
            env_fns, DummyEnvWorker, wait_num, timeout, autoreset_mode=autoreset_mode, observation_mode=observation_mode
        )
