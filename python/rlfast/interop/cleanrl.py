"""rlfast's buffer in CleanRL's scripts: the import changes, and nothing else.

::

    - from cleanrl_utils.buffers import ReplayBuffer
    + from rlfast.interop.cleanrl import ReplayBuffer
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlfast.interop._columns import Columns, Leaf
from rlfast.interop._hosts import missing

try:
    import torch
    from gymnasium import spaces
except ImportError as error:
    raise missing(__name__, "CleanRL's scripts, which need PyTorch and Gymnasium", "rlfast[train]") from error

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ReplayBuffer", "ReplayBufferSamples"]


class ReplayBufferSamples(NamedTuple):
    """A batch of transitions as tensors; actions, ``dones`` and ``rewards`` are ``[B, dim]`` and ``[B, 1]``."""

    observations: Tensor
    actions: Tensor
    next_observations: Tensor
    dones: Tensor
    rewards: Tensor


class ReplayBuffer:
    """CleanRL's replay buffer over the Rust engine: the same arguments, draws and samples.

    Each observation is kept once, and none is lost where an episode is cut off.

    :param buffer_size: transitions at most, over all environments.
    :param observation_space: of one environment: ``Box``, ``Discrete``, ``MultiDiscrete`` or ``MultiBinary``.
    :param action_space: of one environment, any of these.
    :param device: of the sampled tensors; ``"auto"`` is the GPU if there is one.
    :param n_envs: environments that step together.
    :param optimize_memory_usage: accepted; memory is always saved.
    :param handle_timeout_termination: whether ``dones`` passed to ``add`` include timeouts, which ``infos`` tell by
        ``TimeLimit.truncated``: an array by that name, or a dict for each environment. CleanRL's scripts pass
        ``terminations``, and False.
    :raises NotImplementedError: another space.

    >>> import numpy as np
    >>> from gymnasium.spaces import Box, Discrete
    >>> rb = ReplayBuffer(10, Box(-1, 1, (2,)), Discrete(3), "cpu", handle_timeout_termination=False)
    >>> rb.add(np.zeros((1, 2)), np.ones((1, 2)), np.array([2]), np.array([0.5]), np.array([False]), {})
    >>> data = rb.sample(4)
    >>> data.next_observations.shape, data.actions[0], data.rewards[0]
    (torch.Size([4, 2]), tensor([2]), tensor([0.5000]))
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
    ) -> None:
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.observation_space, self.action_space = observation_space, action_space
        self.device, self.n_envs = torch.device(device), n_envs
        self.optimize_memory_usage = optimize_memory_usage
        self.handle_timeout_termination = handle_timeout_termination
        self.full = False
        self._columns = Columns(self.buffer_size, n_envs, _observation(observation_space), _action(action_space))

    @property
    def pos(self) -> int:
        """The step that is written next."""
        return self._columns.cursor

    def size(self) -> int:
        """Transitions of each environment."""
        return self.buffer_size if self.full else self.pos

    def add(
        self,
        obs: NDArray[Any],
        next_obs: NDArray[Any],
        action: NDArray[Any],
        reward: NDArray[Any],
        done: NDArray[Any],
        infos: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    ) -> None:
        """One transition of each environment.

        :param obs: ``[n_envs, ...]``.
        :param next_obs: what the step led to: at the end of an episode its last observation.
        :param infos: a vector environment's; read for timeouts alone.
        :raises ValueError: a shape that does not fit; nothing is written then.
        """
        timeouts = _timeouts(infos) if self.handle_timeout_termination else 0.0
        self._columns.add(obs, next_obs, action, reward, done, timeouts)
        self.full = self.full or self.pos == 0

    def reset(self) -> None:
        """Forgets all transitions."""
        self._columns.reset()
        self.full = False

    def sample(self, batch_size: int) -> ReplayBufferSamples:
        """Transitions drawn uniformly, with replacement, by ``np.random``.

        :param batch_size: how many.
        :raises ValueError: there is no transition yet.
        """
        size = self.size()
        if size == 0:
            raise ValueError("there is nothing to sample: no transition has been added yet")
        if self.optimize_memory_usage and self.full and size > 1:  # the host's draw, which spares its lost row
            steps = (np.random.randint(1, size, size=batch_size) + self.pos) % size
        else:
            steps = np.random.randint(0, size, size=batch_size)
        envs = None if self.n_envs == 1 else np.random.randint(0, self.n_envs, size=batch_size)
        fields = self._columns.take(self._columns.rows(steps, envs))
        dones = fields["dones"] * (1 - fields["timeouts"])
        numbers = (dones.reshape(-1, 1), fields["rewards"].reshape(-1, 1))
        arrays = (fields["obs"], fields["actions"], fields["obs_next"], *numbers)
        return ReplayBufferSamples(*map(self._tensor, arrays))

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        tensor = torch.from_numpy(array)
        return tensor if self.device.type == "cpu" else tensor.to(self.device)


def _timeouts(infos: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Any:
    if isinstance(infos, Mapping):
        return infos.get("TimeLimit.truncated", 0.0)
    return [info.get("TimeLimit.truncated", False) for info in infos]


def _observation(space: spaces.Space[Any]) -> Leaf:
    if isinstance(space, spaces.Discrete):
        return Leaf(np.dtype(space.dtype), (1,), reshape=True)
    if isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        return Leaf(np.dtype(space.dtype), tuple(space.shape))
    raise NotImplementedError(
        f"a Box, Discrete, MultiDiscrete or MultiBinary space is wanted, got {space}; "
        "rlfast.data.VectorReplayBuffer takes anything"
    )


def _action(space: spaces.Space[Any]) -> Leaf:
    leaf = _observation(space)
    dtype = np.dtype(np.float32) if leaf.dtype == np.float64 else leaf.dtype
    return Leaf(dtype, (int(np.prod(leaf.shape)),), reshape=True)
