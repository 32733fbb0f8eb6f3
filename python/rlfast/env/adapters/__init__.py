"""Vector environments of other libraries, behind the interface of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode

from rlfast.env.adapters.envpool import EnvPoolBackend, is_envpool
from rlfast.env.adapters.gymnasium import GymnasiumBackend
from rlfast.env.adapters.steps import StepsBackend, overrides_steps
from rlfast.env.vector import subset_calls
from rlfast.env.vector.base import BaseVectorEnv

if TYPE_CHECKING:
    from rlfast.env.adapters.base import Wrapped
    from rlfast.env.vector.arguments import Ids, VectorStep

__all__ = ["AdaptedVectorEnv", "as_vector_env"]


class AdaptedVectorEnv(BaseVectorEnv):
    """A vector environment of another library; what else it has can be reached through this one.

    :param backend: runs it.
    :param wait_num: how many answers :meth:`recv` waits for; None: all.
    :param autoreset_mode: None for Tianshou's protocol; else the backend's.
    """

    def __init__(
        self, backend: Wrapped, wait_num: int | None = None, *, autoreset_mode: AutoresetMode | None = None
    ) -> None:
        self._attach(backend, wait_num, autoreset_mode=autoreset_mode)

    def __getattr__(self, key: str) -> Any:
        if key.startswith("_"):  # ours, and not yet there
            raise AttributeError(f"{type(self).__name__} has no attribute {key!r}")
        return getattr(self._backend.env, key)  # type: ignore[attr-defined]

    def reset(self, id: Ids | None = None, **kwargs: Any) -> tuple[Any, Any]:
        """As :meth:`BaseVectorEnv.reset`; ``id`` is taken in Gymnasium's protocol, too.

        Then observations are of these environments, and infos have the ``env_id`` of each row.
        """
        id = kwargs.pop("env_id", id)
        return subset_calls.reset(self, id, **kwargs) if subset_calls.asked(self, id) else super().reset(id, **kwargs)

    def step(self, action: Any, id: Ids | None = None) -> VectorStep:
        """As :meth:`BaseVectorEnv.step`; ``id`` is taken in Gymnasium's protocol, too.

        Then rows are of these environments, and infos have the ``env_id`` of each row.
        """
        return subset_calls.step(self, action, id) if subset_calls.asked(self, id) else super().step(action, id)


def as_vector_env(env: Any) -> BaseVectorEnv:
    """The vector environment ``env`` with our interface; ours are given back as they are.

    Taken are those of EnvPool (made with ``env_type="gymnasium"``), ``ale_py.AtariVectorEnv``, and Gymnasium's own with
    all that follow their interface. They keep their autoreset mode. What their answers leave out is filled in: rewards
    are float64, rows that only reset are marked as no transitions, and final observations are where
    :class:`~rlfast.env.backends.base.Rows` has them; a warning, given once, tells what could not be filled in.

    A subclass of ours that overrides only ``step`` or ``reset``, as one does for Tianshou and for Gymnasium, is given
    what it overrides: then :meth:`BaseVectorEnv.send` and :meth:`BaseVectorEnv.recv` go through them.

    :param env: a vector environment.
    :raises TypeError: it is none.
    :raises ValueError: it is of a kind that cannot be driven.

    >>> import gymnasium as gym
    >>> from rlfast.env import as_vector_env
    >>> envs = as_vector_env(gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 2))
    >>> envs
    AdaptedVectorEnv(num_envs=2, gymnasium.SyncVectorEnv, NEXT_STEP)
    >>> envs.close()
    """
    if isinstance(env, BaseVectorEnv):
        if not overrides_steps(env):
            return env
        if env.autoreset_mode is None:
            return AdaptedVectorEnv(StepsBackend(env), env.wait_num)
    elif is_envpool(env):
        pool = EnvPoolBackend(env)
        return AdaptedVectorEnv(pool, pool.batch_size, autoreset_mode=pool.autoreset_mode)
    if isinstance(env, gym.vector.VectorEnv):
        backend = GymnasiumBackend(env)
        return AdaptedVectorEnv(backend, autoreset_mode=backend.autoreset_mode)
    raise TypeError(
        f"expected a vector environment of rlfast.env, Gymnasium, EnvPool or ale_py, got {type(env)}: "
        "put single environments into a DummyVectorEnv"
    )
