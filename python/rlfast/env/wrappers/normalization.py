"""A wrapper of vector environments that normalizes observations with running statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlfast.env.backends.base import Rows, Tree
from rlfast.env.backends.info import Info
from rlfast.env.spaces.batching import ARRAY_SPACES
from rlfast.env.vector.arguments import Ids, Seeds
from rlfast.env.wrappers.vector import VectorEnvWrapper
from rlfast.utils.statistics import RunningMeanStd


class VectorEnvNormObs(VectorEnvWrapper):
    """Normalizes each dimension of the observations to mean 0 and variance 1, using all observations so far.

    Each observation is counted once and normalized: the first and the final observation of an episode, and those in
    between. The statistics are updated before they are applied. To evaluate with the statistics of training, share them
    and turn off their update: ``test_envs = VectorEnvNormObs(test_envs, update_obs_rms=False)`` and
    ``test_envs.set_obs_rms(train_envs.get_obs_rms())``.

    :param venv: the vector environment to wrap, as for :class:`VectorEnvWrapper`; its observations are arrays or
        numbers of one shape.
    :param update_obs_rms: whether observations update the statistics.
    :raises TypeError: ``venv`` is not a vector environment, or its observations are not arrays or numbers.

    >>> import gymnasium as gym
    >>> from rlfast.env import DummyVectorEnv, VectorEnvNormObs
    >>> envs = VectorEnvNormObs(DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 4))
    >>> obs, info = envs.reset(seed=0)
    >>> bool(abs(obs.mean()) < 1e-6), envs.get_obs_rms().count
    (True, 4)
    >>> envs.close()
    """

    def __init__(self, venv: object, update_obs_rms: bool = True) -> None:
        super().__init__(venv)
        space: Any = self.venv.single_observation_space
        if space is not None and not isinstance(space, ARRAY_SPACES):
            raise TypeError(
                f"VectorEnvNormObs scales arrays, but observations are of {space}: "
                "use gymnasium.wrappers.FlattenObservation around each environment first"
            )
        self.update_obs_rms = update_obs_rms
        self.set_obs_rms(RunningMeanStd())

    def set_obs_rms(self, obs_rms: RunningMeanStd | None) -> None:
        """Replaces the statistics.

        :param obs_rms: the new statistics, which are shared, not copied; None leaves observations as they are.
        """
        self.obs_rms = obs_rms
        space: Any = self.venv.single_observation_space
        self._dtype = None if space is None else _floating(np.dtype(space.dtype))
        if obs_rms is None:
            self.single_observation_space = space
        elif self._dtype is not None:
            bound = obs_rms.clip_max or np.inf
            self.single_observation_space = gym.spaces.Box(-bound, bound, space.shape, self._dtype.type)

    def get_obs_rms(self) -> RunningMeanStd | None:
        """Returns the statistics, which are shared, not copied; None if observations are left as they are."""
        return self.obs_rms

    def state_dict(self) -> dict[str, Any]:
        """Returns the statistics as plain data: float64 arrays ``mean`` and ``var`` with the shape of an observation
        (``()`` before the first one), and the int ``count``. It is empty without statistics.
        """
        if self.obs_rms is None:
            return {}
        return {"mean": self.obs_rms.mean.copy(), "var": self.obs_rms.var.copy(), "count": self.obs_rms.count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what :meth:`state_dict` returned, in this wrapper and in all that share its statistics.

        :param state: ``mean``, ``var`` and ``count``, or nothing.
        :raises ValueError: the statistics do not have the shape of an observation; nothing has changed.
        """
        if not state:
            self.set_obs_rms(None)
            return
        mean, var = np.array(state["mean"], np.float64), np.array(state["var"], np.float64)
        space: Any = self.venv.single_observation_space
        shape = mean.shape if space is None else space.shape
        if mean.shape != var.shape or (mean.shape not in ((), shape)):
            raise ValueError(f"got statistics of shape {mean.shape} and {var.shape} for observations of shape {shape}")
        obs_rms = self.obs_rms or RunningMeanStd()
        obs_rms.mean, obs_rms.var, obs_rms.count = mean, var, int(state["count"])
        self.set_obs_rms(obs_rms)

    def normalized(self, obs: NDArray[Any]) -> NDArray[Any]:
        """Returns observations as this wrapper shows them, without counting them in its statistics.

        :param obs: observations of the wrapped environments, ``[..., *shape]``.
        """
        if self.obs_rms is None:
            return obs
        return self.obs_rms.norm(obs).astype(self._dtype or _floating(obs.dtype), copy=False)

    def _update_statistics(self, obs: NDArray[Any]) -> None:
        if self.update_obs_rms and self.obs_rms is not None:
            self.obs_rms.update(obs)

    def reset_rows(
        self, id: Ids | None = None, seed: Seeds = None, options: dict[str, Any] | None = None, **more: Any
    ) -> tuple[Tree, Info]:
        """As :meth:`BaseVectorEnv.reset_rows`, with normalized observations."""
        obs, info = super().reset_rows(id, seed, options, **more)
        self._update_statistics(obs)
        return self.normalized(obs), info

    def recv(self, min_ready: int | None = None, timeout: float | None = None) -> Rows:
        """As :meth:`BaseVectorEnv.recv`, with normalized observations."""
        rows = super().recv(min_ready, timeout)
        self._update_statistics(rows.obs_next)
        if rows.obs is rows.obs_next:
            obs = self.normalized(rows.obs)
            return replace(rows, obs=obs, obs_next=obs)
        self._update_statistics(rows.obs[rows.done])
        return replace(rows, obs=self.normalized(rows.obs), obs_next=self.normalized(rows.obs_next))


def _floating(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the dtype of normalized observations: float32 for integers and bools."""
    return dtype if np.issubdtype(dtype, np.floating) else np.dtype(np.float32)
