"""Replay buffers of off-policy algorithms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar, overload

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common import buffers as host
from stable_baselines3.common.type_aliases import DictReplayBufferSamples, ReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize

from rlfast.interop._columns import Columns, Index, Leaf, Obs

V = TypeVar("V")


class Column(Generic[V]):
    """A descriptor of an attribute that is a whole column, ``[buffer_size, n_envs, ...]``.

    A writable column is a view of the storage. Others are read-only, and made at each access.
    """

    def __init__(self, name: str, *, writable: bool) -> None:
        self.name, self.writable = name, writable

    @overload
    def __get__(self, buffer: None, owner: type) -> Column[V]: ...
    @overload
    def __get__(self, buffer: ReplayBuffer, owner: type) -> V: ...
    def __get__(self, buffer: ReplayBuffer | None, owner: type) -> Any:
        if buffer is None:
            return self
        columns: Columns = buffer._columns
        if self.name.startswith("obs"):
            return columns.observation(self.name)
        return columns.column(self.name)

    def __set__(self, buffer: ReplayBuffer, value: object) -> None:
        if not self.writable:
            raise AttributeError(
                "observations cannot be assigned, because each is stored once for two rows: use add() or extend()"
            )
        self.__get__(buffer, type(buffer))[...] = value  # type: ignore[index]


class ReplayBuffer(host.ReplayBuffer):
    """Stable-Baselines3's replay buffer on the Rust engine.

    Arguments, draws from ``np.random`` and samples are the same, so that a run with this class has the same results. It
    is quicker, and stores each observation once, also if timeouts are handled and for dict observations.

    :param buffer_size: the capacity in transitions, over all environments.
    :param observation_space: any space that Stable-Baselines3 supports, including ``Dict``.
    :param action_space: any space that Stable-Baselines3 supports.
    :param device: the device of the sampled tensors.
    :param n_envs: the number of environments that step together.
    :param optimize_memory_usage: accepted; memory is always saved, and no transition is lost by that.
    :param handle_timeout_termination: whether timeouts, ``info["TimeLimit.truncated"]``, are distinguished from
        terminations: then ``dones`` of samples are 0 at timeouts.
    :raises MemoryError: there is not enough memory; the message has the bytes that are needed.

    >>> from gymnasium.spaces import Box, Discrete
    >>> import numpy as np
    >>> buffer = ReplayBuffer(10, Box(-1, 1, (2,)), Discrete(3), optimize_memory_usage=True)
    >>> zeros, ones = np.zeros((1, 2)), np.ones((1, 2))
    >>> buffer.add(zeros, ones, np.array([2]), np.array([0.5]), np.array([True]), [{"TimeLimit.truncated": True}])
    >>> batch = buffer.sample(4)
    >>> batch.next_observations.shape, batch.rewards[0], batch.dones[0]
    (torch.Size([4, 2]), tensor([0.5000]), tensor([0.]))
    """

    _dict_only: ClassVar[bool] = False
    observations: Column[Any] = Column("obs", writable=False)
    next_observations: Column[Any] = Column("obs_next", writable=False)
    actions: Column[Any] = Column("actions", writable=True)
    rewards: Column[Any] = Column("rewards", writable=True)
    dones: Column[Any] = Column("dones", writable=True)
    timeouts: Column[Any] = Column("timeouts", writable=True)

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: th.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
    ) -> None:
        host.BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs=n_envs)
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.optimize_memory_usage = optimize_memory_usage
        self.handle_timeout_termination = handle_timeout_termination
        if self._dict_only and not isinstance(observation_space, spaces.Dict):
            raise AssertionError(f"{type(self).__name__} must be used with Dict obs space only")
        self._columns = self._make_columns()

    def _make_columns(self, **priorities: Any) -> Columns:
        space = self.observation_space
        obs: Leaf | dict[str, Leaf]
        shape: Any = self.obs_shape
        if isinstance(space, spaces.Dict):
            obs = {key: _leaf(part, shape[key]) for key, part in space.items()}
        else:
            obs = _leaf(space, shape)
        act = Leaf(np.dtype(self._maybe_cast_dtype(self.action_space.dtype)), (self.action_dim,), reshape=True)
        return Columns(self.buffer_size, self.n_envs, obs, act, **priorities)

    @property
    def nbytes(self) -> int:
        """The size of the stored transitions in bytes."""
        return self._columns.engine.nbytes()

    # -- writing -----------------------------------------------------------------------------------------------------
    def add(
        self,
        obs: Obs,
        next_obs: Obs,
        action: NDArray[Any],
        reward: NDArray[Any],
        done: NDArray[Any],
        infos: list[dict[str, Any]],
    ) -> None:
        """Adds one transition of each environment.

        :param obs: observations ``[n_envs, ...]``, or a dict of them.
        :param next_obs: the observations that the step led to; at the end of an episode, its last observation.
        :param action: actions ``[n_envs, ...]``.
        :param reward: rewards ``[n_envs]``.
        :param done: whether episodes ended, ``[n_envs]``.
        :param infos: one dict for each environment; only ``TimeLimit.truncated`` is read.
        :raises ValueError: a shape does not fit; nothing is written then.
        :raises RuntimeError: ``pos`` was changed by the caller.
        """
        timeouts: Any = 0.0
        if self.handle_timeout_termination:
            timeouts = [info.get("TimeLimit.truncated", False) for info in infos]
        if self.pos != self._columns.cursor:
            raise RuntimeError(
                f"pos was set to {self.pos} by hand; add() and reset() move it, to {self._columns.cursor}"
            )
        self._columns.add(obs, next_obs, action, reward, done, timeouts)
        self.pos += 1
        if self.pos == self.buffer_size:
            self.full = True
            self.pos = 0

    def reset(self) -> None:
        """Deletes all transitions."""
        super().reset()
        self._columns.reset()

    # -- reading -----------------------------------------------------------------------------------------------------
    def sample(self, batch_size: int, env: VecNormalize | None = None) -> Any:
        """Draws transitions uniformly and with replacement.

        :param batch_size: how many.
        :param env: normalizes observations and rewards, which are stored without normalization; None for no
            normalization.
        :return: ``ReplayBufferSamples``, or ``DictReplayBufferSamples`` for dict observations.
        :raises ValueError: the buffer is empty.
        """
        steps = self._columns.draw(batch_size, self.size(), skips_newest=self.optimize_memory_usage)
        return self._get_samples(steps, env=env)

    def _get_samples(self, batch_inds: NDArray[Any], env: VecNormalize | None = None) -> Any:
        """Returns the transitions at the steps ``batch_inds``, each of a randomly drawn environment."""
        return self._samples(self._columns.any_env(batch_inds), env)

    def _samples(self, rows: Index, env: VecNormalize | None) -> Any:
        fields = self._columns.take(rows)
        rewards = self._normalize_reward(fields["rewards"], env)
        return self._tensors(fields["obs"], fields["actions"], fields["obs_next"], fields["dones"], rewards, env)

    def _tensors(
        self,
        obs: Any,
        actions: NDArray[Any],
        next_obs: Any,
        dones: NDArray[Any],
        rewards: NDArray[Any],
        env: VecNormalize | None,
    ) -> Any:
        """Normalizes observations, and returns all arrays, which must not be shared, as tensors in the host's tuple."""
        obs, next_obs = self._normalize_obs(obs, env), self._normalize_obs(next_obs, env)
        tensor = self._converter()
        if isinstance(obs, dict):
            obs, next_obs = ({key: tensor(array) for key, array in part.items()} for part in (obs, next_obs))
            return DictReplayBufferSamples(obs, tensor(actions), next_obs, tensor(dones), tensor(rewards))
        return ReplayBufferSamples(tensor(obs), tensor(actions), tensor(next_obs), tensor(dones), tensor(rewards))

    def _converter(self) -> Callable[[NDArray[Any]], th.Tensor]:
        """Returns the quickest function that converts an array to a tensor as ``to_torch`` does, without a copy."""
        if self.device.type == "cpu" and type(self).to_torch is host.BaseBuffer.to_torch:
            return th.from_numpy
        return partial(self.to_torch, copy=False)


def _leaf(space: spaces.Space[Any], shape: tuple[int, ...]) -> Leaf:
    return Leaf(np.dtype(space.dtype), tuple(shape), reshape=isinstance(space, spaces.Discrete))


class DictReplayBuffer(ReplayBuffer, host.DictReplayBuffer):
    """Stable-Baselines3's replay buffer of dict observations on the Rust engine; see :class:`ReplayBuffer`.

    :param buffer_size: as in :class:`ReplayBuffer`; so are all other parameters.
    :raises AssertionError: the observation space is not a ``Dict``.
    """

    _dict_only = True
