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

from rlfast.interop._columns import Columns, Index, Leaf, draw

V = TypeVar("V")


class Column(Generic[V]):
    """A whole column as an attribute, ``[buffer_size, n_envs, ...]``.

    It is the storage itself where that can be written to; otherwise it is made anew at each look, and read-only.
    """

    def __init__(self, name: str, *, writable: bool) -> None:
        self.name, self.writable = name, writable

    @overload
    def __get__(self, buffer: None, owner: type) -> Column[V]: ...
    @overload
    def __get__(self, buffer: ReplayBuffer, owner: type) -> V: ...
    def __get__(self, buffer: Any, owner: type) -> Any:
        if buffer is None:
            return self
        columns: Columns = buffer._columns
        if self.name.startswith("obs"):
            return columns.observation(self.name)
        return columns.column(self.name)

    def __set__(self, buffer: ReplayBuffer, value: Any) -> None:
        if not self.writable:
            raise AttributeError(
                "observations are stored once, as the row's and as the row's before: give them to add() or extend()"
            )
        self.__get__(buffer, type(buffer))[...] = value  # type: ignore[index]


class ReplayBuffer(host.ReplayBuffer):
    """Stable-Baselines3's replay buffer over the Rust engine.

    The same arguments, the same draws from ``np.random``, the same samples: a run that changes this class alone gives
    the same numbers. It is quicker, and keeps each observation once, whatever the arguments: also with timeouts told
    from terminations, also for dict observations.

    :param buffer_size: transitions at most, over all environments.
    :param observation_space: any that SB3 supports, ``Dict`` included.
    :param action_space: any that SB3 supports.
    :param device: of the sampled tensors.
    :param n_envs: environments that step together.
    :param optimize_memory_usage: accepted; memory is always saved, and no transition is lost for it.
    :param handle_timeout_termination: tell timeouts, ``info["TimeLimit.truncated"]``, from terminations: ``dones`` of
        samples are 0 there.
    :raises MemoryError: with the bytes that would be needed.

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
        """Bytes that the transitions take."""
        return self._columns.engine.nbytes()

    # -- writing -----------------------------------------------------------------------------------------------------
    def add(
        self,
        obs: Any,
        next_obs: Any,
        action: Any,
        reward: Any,
        done: Any,
        infos: list[dict[str, Any]],
    ) -> None:
        """One transition of each environment.

        :param obs: ``[n_envs, ...]``, or a dict of such.
        :param next_obs: what the step led to: at the end of an episode its last observation.
        :param infos: one for each environment; read for ``TimeLimit.truncated``.
        :raises ValueError: a shape that does not fit; nothing is written then.
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
        """Forgets all transitions."""
        super().reset()
        self._columns.reset()

    # -- reading -----------------------------------------------------------------------------------------------------
    def sample(self, batch_size: int, env: VecNormalize | None = None) -> Any:
        """Transitions drawn uniformly, with replacement.

        :param batch_size: how many.
        :param env: normalizes observations and rewards, which are stored as they came.
        :return: ``ReplayBufferSamples``, or ``DictReplayBufferSamples`` for dict observations.
        :raises ValueError: there is no transition yet.
        """
        filled = self._filled()
        if self.optimize_memory_usage and self.full and filled > 1:  # the host's draw, which spares its lost row
            batch_inds = (np.random.randint(1, filled, size=batch_size) + self.pos) % filled
        else:
            batch_inds = draw(filled, batch_size)
        return self._get_samples(batch_inds, env=env)

    def _filled(self) -> int:
        size = self.size()
        if size == 0:
            raise ValueError("there is nothing to sample: no transition has been added yet")
        return size

    def _get_samples(self, batch_inds: NDArray[Any], env: VecNormalize | None = None) -> Any:
        """The transitions at steps ``batch_inds``, each of an environment drawn at random."""
        return self._samples(self._rows(batch_inds), env)

    def _rows(self, batch_inds: NDArray[Any]) -> Index:
        if self.n_envs == 1:
            return self._columns.rows(batch_inds, None)
        return self._columns.rows(batch_inds, draw(self.n_envs, len(batch_inds)))

    def _samples(self, rows: Index, env: VecNormalize | None) -> Any:
        fields = self._columns.take(rows)
        rewards = fields["rewards"] if env is None else self._normalize_reward(fields["rewards"], env)
        return self._tensors(fields["obs"], fields["actions"], fields["obs_next"], fields["dones"], rewards, env)

    def _tensors(
        self, obs: Any, actions: Any, next_obs: Any, dones: Any, rewards: Any, env: VecNormalize | None
    ) -> Any:
        """The arrays, which are nobody else's, as tensors in the host's tuple; observations are normalized here."""
        if env is not None:
            obs, next_obs = self._normalize_obs(obs, env), self._normalize_obs(next_obs, env)
        tensor = self._converter()
        if isinstance(obs, dict):
            obs, next_obs = ({key: tensor(array) for key, array in part.items()} for part in (obs, next_obs))
            return DictReplayBufferSamples(obs, tensor(actions), next_obs, tensor(dones), tensor(rewards))
        return ReplayBufferSamples(tensor(obs), tensor(actions), tensor(next_obs), tensor(dones), tensor(rewards))

    def _converter(self) -> Callable[[NDArray[Any]], th.Tensor]:
        """``to_torch`` without a copy, by the shortest way."""
        if self.device.type == "cpu" and type(self).to_torch is host.BaseBuffer.to_torch:
            return th.from_numpy
        return partial(self.to_torch, copy=False)


def _leaf(space: spaces.Space[Any], shape: Any) -> Leaf:
    return Leaf(np.dtype(space.dtype), tuple(shape), reshape=isinstance(space, spaces.Discrete))


class DictReplayBuffer(ReplayBuffer, host.DictReplayBuffer):
    """Stable-Baselines3's replay buffer of dict observations over the Rust engine; see :class:`ReplayBuffer`.

    :param buffer_size: see :class:`ReplayBuffer`, as are all the other arguments.
    :raises AssertionError: the observation space is no ``Dict``.
    """

    _dict_only = True
