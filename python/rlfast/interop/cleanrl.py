"""rlfast's buffers for CleanRL's scripts, of which only the import changes.

::

    - from cleanrl_utils.buffers import ReplayBuffer
    + from rlfast.interop.cleanrl import ReplayBuffer

:class:`PrioritizedReplayBuffer` replaces the one that CleanRL's Rainbow script defines.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlfast.interop._columns import Columns, Leaf
from rlfast.interop._hosts import missing
from rlfast.utils.runtime.extras import how_to_install
from rlfast.utils.runtime.seeding import draw_seed

try:
    import torch
    from gymnasium import spaces
except ImportError as error:
    raise missing(__name__, "CleanRL's scripts, which need PyTorch and Gymnasium", how_to_install("train")) from error

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["PrioritizedBatch", "PrioritizedReplayBuffer", "ReplayBuffer", "ReplayBufferSamples"]


class ReplayBufferSamples(NamedTuple):
    """A batch of transitions as tensors; actions are ``[B, dim]``, ``dones`` and ``rewards`` ``[B, 1]``."""

    observations: Tensor
    actions: Tensor
    next_observations: Tensor
    dones: Tensor
    rewards: Tensor


class ReplayBuffer:
    """CleanRL's replay buffer on the Rust engine, with the same arguments, draws and samples.

    Each observation is stored once, and the last observations of truncated episodes are stored too.

    :param buffer_size: the capacity in transitions, over all environments.
    :param observation_space: that of one environment: ``Box``, ``Discrete``, ``MultiDiscrete`` or ``MultiBinary``.
    :param action_space: that of one environment, of the same kinds.
    :param device: the device of the sampled tensors; the CPU if it is ``"auto"`` or a GPU, and there is none.
    :param n_envs: the number of environments that step together.
    :param optimize_memory_usage: accepted; memory is always saved.
    :param handle_timeout_termination: whether the ``dones`` that ``add`` is given include timeouts, which ``infos``
        mark by ``TimeLimit.truncated``, in one array or in a dict for each environment. CleanRL's scripts pass False,
        and ``terminations`` as ``dones``.
    :raises NotImplementedError: a space is of another kind.

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
        wanted = torch.device("cuda" if device == "auto" else device)
        absent = wanted.type == "cuda" and not torch.cuda.is_available()
        obs, act = _observation(observation_space), _action(action_space)
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.observation_space, self.action_space = observation_space, action_space
        self.obs_shape, self.action_dim = obs.shape, act.shape[0]
        self.device, self.n_envs = torch.device("cpu") if absent else wanted, n_envs
        self.optimize_memory_usage = optimize_memory_usage
        self.handle_timeout_termination = handle_timeout_termination
        self.full = False
        self._columns = Columns(self.buffer_size, n_envs, obs, act)

    @property
    def pos(self) -> int:
        """The step that is written next."""
        return self._columns.cursor

    def size(self) -> int:
        """Returns the number of transitions of each environment."""
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
        """Adds one transition of each environment.

        :param obs: observations ``[n_envs, ...]``.
        :param next_obs: the observations that the step led to; at the end of an episode, its last observation.
        :param action: actions ``[n_envs, ...]``.
        :param reward: rewards ``[n_envs]``.
        :param done: whether episodes ended, ``[n_envs]``.
        :param infos: the infos of the vector environment; only timeouts are read from them.
        :raises ValueError: a shape does not fit; nothing is written then.
        """
        timeouts = _timeouts(infos) if self.handle_timeout_termination else 0.0
        self._columns.add(obs, next_obs, action, reward, done, timeouts)
        self.full = self.full or self.pos == 0

    def extend(self, *columns: Any) -> None:
        """Adds several steps, one after the other.

        :param columns: the arguments of :meth:`add`, with the steps along a further first axis.
        """
        for step in zip(*columns, strict=True):
            self.add(*step)

    def reset(self) -> None:
        """Deletes all transitions."""
        self._columns.reset()
        self.full = False

    def sample(self, batch_size: int) -> ReplayBufferSamples:
        """Draws transitions uniformly and with replacement, by ``np.random``.

        :param batch_size: how many.
        :return: the transitions.
        :raises ValueError: the buffer is empty.
        """
        steps = self._columns.draw(batch_size, self.size(), skips_newest=self.optimize_memory_usage)
        fields = self._columns.take(self._columns.any_env(steps))
        arrays = (fields[key] for key in ("obs", "actions", "obs_next", "dones", "rewards"))
        return ReplayBufferSamples(*(_tensor(array, self.device) for array in arrays))


class PrioritizedBatch(NamedTuple):
    """A batch of n-step transitions as tensors, with the indices of their first rows and importance weights."""

    observations: Tensor
    actions: Tensor
    rewards: Tensor
    next_observations: Tensor
    dones: Tensor
    indices: NDArray[np.int64]
    weights: Tensor


class PrioritizedReplayBuffer:
    r"""The prioritized n-step buffer of CleanRL's Rainbow on the Rust engine, for one environment.

    Schaul et al. 2016, arXiv:1511.05952. Single steps are stored, and rewards are summed when a sample is drawn, so
    frames are stored once. The script's target discounts the next value by ``gamma**n_step``. Therefore a row can be
    drawn only if it has ``n_step`` rewards or its episode terminated within them; rows with fewer rewards before a
    truncation are not drawn. Draws are independent; the original divides the priorities into ``batch_size`` equal parts
    and draws one row from each.

    :param capacity: the capacity in rows, above ``n_step``.
    :param obs_shape: the shape of an observation, which is uint8.
    :param device: the device of the sampled tensors.
    :param n_step: the number of rewards of a transition, at least 1.
    :param gamma: the discount factor.
    :param alpha: the priority exponent, above 0.
    :param beta: the exponent of the importance weights, which the script increases during training.
    :param eps: added to priorities.
    :raises ValueError: ``n_step`` or ``capacity`` is too small, or ``alpha`` is not above 0.
    """

    def __init__(
        self,
        capacity: int,
        obs_shape: tuple[int, ...],
        device: torch.device | str,
        n_step: int,
        gamma: float,
        alpha: float = 0.6,
        beta: float = 0.4,
        eps: float = 1e-6,
    ) -> None:
        if n_step < 1 or capacity <= n_step:
            raise ValueError(f"n_step must be at least 1 and capacity above it, got {n_step} and {capacity}")
        if not alpha > 0.0:
            raise ValueError(f"alpha must be > 0, got {alpha}; for uniform sampling take ReplayBuffer")
        self.capacity, self.device, self.n_step, self.gamma = capacity, torch.device(device), n_step, gamma
        self.alpha, self.beta, self.eps = alpha, beta, eps
        frames, action = Leaf(np.dtype(np.uint8), tuple(obs_shape)), Leaf(np.dtype(np.int64), (1,), reshape=True)
        self._columns = Columns(capacity, 1, frames, action, alpha=alpha, seed=draw_seed(None))
        self._waiting: deque[int] = deque()  # rows of the running episode that do not have n_step rewards yet

    @property
    def pos(self) -> int:
        """The row that is written next."""
        return self._columns.cursor

    @property
    def size(self) -> int:
        """The number of rows, including those that cannot be drawn yet."""
        return len(self._columns.engine)

    def add(
        self, obs: NDArray[Any], action: ArrayLike, reward: ArrayLike, next_obs: NDArray[Any], done: ArrayLike
    ) -> None:
        """Adds one transition. All arguments have an environment axis of length 1.

        :param obs: the observation.
        :param action: the action.
        :param reward: the reward.
        :param next_obs: the next observation.
        :param done: whether the episode terminated.
        :raises ValueError: a shape does not fit; nothing is written then.
        """
        columns, waiting = self._columns, self._waiting
        engine, row = columns.engine, columns.cursor
        if not columns.add(obs, next_obs, action, reward, done, 0.0):
            waiting.clear()  # the previous episode is over
        waiting.append(row)
        tree = engine.tree
        tree[row] = 0.0
        ready = len(waiting) if np.asarray(done).any() else len(waiting) - self.n_step + 1
        for _ in range(ready):
            tree[waiting.popleft()] = engine.max_priority**self.alpha

    def sample(self, batch_size: int) -> PrioritizedBatch:
        """Draws transitions by priority and with replacement.

        :param batch_size: how many.
        :return: the transitions.
        :raises ValueError: there is no row that can be drawn.
        """
        engine = self._columns.engine
        engine.beta = self.beta
        rows = engine.draw(batch_size)
        next_obs: Any
        next_obs, rewards, dones, _ = self._columns.nstep(rows, self.n_step, self.gamma)
        fields = self._columns.take(rows, ("obs", "actions"))
        weights = engine.weights(rows, normalize=True).astype(np.float32)[:, None]
        arrays = (fields["obs"], fields["actions"], rewards, next_obs, dones, weights)
        obs, actions, returns, following, ends, scale = (_tensor(array, self.device) for array in arrays)
        return PrioritizedBatch(obs, actions, returns, following, ends, rows, scale)

    def update_priorities(self, indices: NDArray[np.int64], priorities: ArrayLike) -> None:
        """Sets the priorities of sampled rows, except for rows that were overwritten since.

        :param indices: the indices of a sample.
        :param priorities: one for each row; their absolute values are used.
        :raises ValueError: a priority is NaN or infinite, or there are not as many as rows; nothing is changed then.
        """
        values = np.abs(np.asarray(priorities, np.float64)).reshape(-1) + self.eps
        self._columns.engine.update_priority(indices, values)


def _tensor(array: NDArray[Any], device: torch.device) -> Tensor:
    tensor = torch.from_numpy(array)
    return tensor if device.type == "cpu" else tensor.to(device)


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
        f"the space must be a Box, Discrete, MultiDiscrete or MultiBinary, got {space}; "
        "rlfast.data.VectorReplayBuffer takes anything"
    )


def _action(space: spaces.Space[Any]) -> Leaf:
    leaf = _observation(space)
    dtype = np.dtype(np.float32) if leaf.dtype == np.float64 else leaf.dtype
    return Leaf(dtype, (int(np.prod(leaf.shape)),), reshape=True)
