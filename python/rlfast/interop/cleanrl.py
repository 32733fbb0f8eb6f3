"""rlfast's buffer in CleanRL's scripts: the import changes, and nothing else.

::

    - from cleanrl_utils.buffers import ReplayBuffer
    + from rlfast.interop.cleanrl import ReplayBuffer

:class:`PrioritizedReplayBuffer` takes the place of the one that its Rainbow defines.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlfast.data.buffer.config import draw_seed
from rlfast.interop._columns import Columns, Leaf, draw
from rlfast.interop._hosts import missing

try:
    import torch
    from gymnasium import spaces
except ImportError as error:
    raise missing(__name__, "CleanRL's scripts, which need PyTorch and Gymnasium", "rlfast[train]") from error

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["PrioritizedBatch", "PrioritizedReplayBuffer", "ReplayBuffer", "ReplayBufferSamples"]


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
            steps = draw(size, batch_size)
        envs = None if self.n_envs == 1 else draw(self.n_envs, batch_size)
        fields = self._columns.take(self._columns.rows(steps, envs))
        arrays = (fields[key] for key in ("obs", "actions", "obs_next", "dones", "rewards"))
        return ReplayBufferSamples(*(_tensor(array, self.device) for array in arrays))


class PrioritizedBatch(NamedTuple):
    """A batch of n-step transitions as tensors, with the rows they start from and their importance weights."""

    observations: Tensor
    actions: Tensor
    rewards: Tensor
    next_observations: Tensor
    dones: Tensor
    indices: NDArray[np.int64]
    weights: Tensor


class PrioritizedReplayBuffer:
    r"""The prioritized n-step buffer of CleanRL's Rainbow over the Rust engine, for one environment.

    Schaul et al. 2016, arXiv:1511.05952. Rows are stored as they come and rewards are summed when they are drawn, so
    frames are kept once. The script's target discounts the next value by ``gamma**n_step``: a row is drawn once it has
    ``n_step`` rewards, or the episode terminated on the way; what a truncation cuts shorter is not drawn. Draws are
    independent, where the original draws one from each of ``batch_size`` equal parts of the priorities.

    :param capacity: rows at most, above ``n_step``.
    :param obs_shape: of an observation; uint8.
    :param device: of the sampled tensors.
    :param n_step: rewards of a transition, >= 1.
    :param gamma: discount factor.
    :param alpha: how much priorities count, > 0.
    :param beta: how much of the bias the weights take back; the script raises it as it goes.
    :param eps: added to priorities.
    :raises ValueError: ``n_step`` or ``capacity`` too small, or ``alpha`` not above 0.
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
        self._waiting: deque[int] = deque()  # rows of the running episode that have too few rewards yet

    @property
    def pos(self) -> int:
        """The row that is written next."""
        return self._columns.cursor

    @property
    def size(self) -> int:
        """Rows, those included that are not drawn yet."""
        return len(self._columns.engine)

    def add(self, obs: Any, action: Any, reward: Any, next_obs: Any, done: Any) -> None:
        """One transition, with its environment axis of length 1.

        :param done: whether the episode terminated.
        :raises ValueError: a shape that does not fit; nothing is written then.
        """
        columns, waiting = self._columns, self._waiting
        engine, row = columns.engine, columns.cursor
        if not columns.add(obs, next_obs, action, reward, done, 0.0):
            waiting.clear()  # cut off there, or over
        waiting.append(row)
        tree = engine.tree
        tree[row] = 0.0
        ready = len(waiting) if np.asarray(done).any() else len(waiting) - self.n_step + 1
        for _ in range(ready):
            tree[waiting.popleft()] = engine.max_priority**self.alpha

    def sample(self, batch_size: int) -> PrioritizedBatch:
        """Transitions drawn by priority, with replacement.

        :param batch_size: how many.
        :raises ValueError: there is none to draw yet.
        """
        engine = self._columns.engine
        engine.beta = self.beta
        rows = engine.draw(batch_size)
        next_obs, rewards, dones, _ = self._columns.nstep(rows, self.n_step, self.gamma)
        fields = self._columns.take(rows, ("obs", "actions"))
        weights = engine.weights(rows, normalize=True).astype(np.float32)[:, None]
        arrays = (fields["obs"], fields["actions"], rewards, next_obs, dones, weights)
        obs, actions, returns, following, ends, scale = (_tensor(array, self.device) for array in arrays)
        return PrioritizedBatch(obs, actions, returns, following, ends, rows, scale)

    def update_priorities(self, indices: NDArray[np.int64], priorities: ArrayLike) -> None:
        """Sets priorities; those of rows that were overwritten since are left alone.

        :param indices: what ``sample`` gave.
        :param priorities: one for each row; their absolute values count.
        :raises ValueError: NaN or infinity, or another number of them than rows; nothing is changed then.
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
        f"a Box, Discrete, MultiDiscrete or MultiBinary space is wanted, got {space}; "
        "rlfast.data.VectorReplayBuffer takes anything"
    )


def _action(space: spaces.Space[Any]) -> Leaf:
    leaf = _observation(space)
    dtype = np.dtype(np.float32) if leaf.dtype == np.float64 else leaf.dtype
    return Leaf(dtype, (int(np.prod(leaf.shape)),), reshape=True)
