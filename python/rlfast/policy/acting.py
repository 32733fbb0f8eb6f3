from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from numpy.typing import NDArray
from torch import nn

from rlfast.data import Batch, to_numpy
from rlfast.policy._replaced import Replaceable, stock
from rlfast.utils.seeding import SeededMixin

if TYPE_CHECKING:
    from rlfast.data.types import ActBatchProtocol, ObsBatchProtocol, arr_type

_COUNTED = (Discrete, MultiDiscrete)  # spaces whose actions are counted
_NUMBERS = frozenset({bool, int, float})
_BOUND_METHODS = ("clip", "tanh", None)
_ONE = 1 - float(np.finfo(np.float32).eps)  # the largest action whose inverse tanh is finite in float32


@stock("map_action", "map_action_inverse")
class ActingPolicy(Replaceable, SeededMixin, nn.Module, ABC):
    """What chooses actions: all that collectors and evaluators need of a policy.

    Actions have two forms. The policy's own form is what :meth:`forward` gives, buffers store and learning sees;
    :meth:`map_action` makes of it what the environment takes. For a Box, the policy's form is bounded to [-1, 1] first
    and then, with ``action_scaling``, stretched to the Box. For discrete spaces, a policy that
    :attr:`counts_from_zero` leaves out the space's ``start``, which the environment counts from.

    Random choices draw from streams of the policy's own after :meth:`seed`. Without it, those of NumPy's kind draw from
    :attr:`rng` all the same, and those of torch's kind from torch's global generator.

    :param action_space: of one environment: Box, Discrete, MultiDiscrete or MultiBinary.
    :param observation_space: of one environment, kept for reference; anything is taken. Default: None.
    :param action_scaling: whether actions in [-1, 1] are stretched to the bounds of the Box. Default: False.
    :param action_bound_method: how actions are brought into [-1, 1]: ``"clip"`` (default), ``"tanh"``, or None to leave
        them. Concerns a Box only.
    :raises ValueError: for another kind of space, another bound method, or scaling to anything but a Box with finite
        bounds.
    """

    counts_from_zero: ClassVar[bool] = False
    """Whether actions of discrete spaces are counted from 0 whatever the space's ``start``."""

    _torch_rng: torch.Generator | None = None

    def __init__(
        self,
        *,
        action_space: gym.Space[Any],
        observation_space: gym.Space[Any] | None = None,
        action_scaling: bool = False,
        action_bound_method: Literal["clip", "tanh"] | None = "clip",
    ) -> None:
        if action_bound_method not in _BOUND_METHODS:
            raise ValueError(f"action_bound_method must be one of {_BOUND_METHODS}, got {action_bound_method!r}")
        if not isinstance(action_space, Box | Discrete | MultiDiscrete | MultiBinary):
            raise ValueError(f"action_space must be a Box, Discrete, MultiDiscrete or MultiBinary, got {action_space}")
        if action_scaling and not (isinstance(action_space, Box) and _has_finite_width(action_space)):
            raise ValueError(f"action_scaling needs a Box with finite bounds, got {action_space}; leave it False")
        super().__init__()
        self.action_space = action_space
        self.observation_space = observation_space
        self.action_scaling = action_scaling
        self.action_bound_method = action_bound_method
        start = getattr(action_space, "start", 0)
        self._start: Any = start if np.any(start) else None  # where the environment counts from, unless from 0
        self.action_type: Literal["continuous", "discrete"] = (
            "continuous" if isinstance(action_space, Box) else "discrete"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; a number that takes the place of a number is not looked for among parameters and modules,
        which ``nn.Module`` takes as long for as a step of the environments.
        """
        if type(value) in _NUMBERS and name in self.__dict__:
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    @abstractmethod
    def forward(self, batch: "ObsBatchProtocol", state: Any = None, **kwargs: Any) -> "ActBatchProtocol":
        """Choose actions.

        :param batch: has ``obs``, ``[B, ...]``, and ``info``.
        :param state: hidden state of a recurrent policy, None at the start.
        :return: a ``Batch`` with ``act``, ``[B, ...]`` in the policy's form, and, where there is one, the next hidden
            ``state``. What it has under ``policy`` is stored with the transition.
        """

    def exploration_noise(
        self,
        act: NDArray[Any],
        batch: "ObsBatchProtocol",  # noqa: ARG002 (for those who explore by what they see)
    ) -> NDArray[Any]:
        """Add noise to actions while data are collected; none here.

        :param act: actions in the policy's form, ``[B, ...]``; not changed.
        :param batch: what they were chosen for.
        """
        return act

    def map_action(self, act: "arr_type") -> NDArray[Any]:
        """Make what the environment takes of actions in the policy's form.

        :param act: ``[..., *action_space.shape]``; not changed.
        :raises ValueError: if an action to be scaled is outside [-1, 1] and ``action_bound_method`` is None.
        """
        array = _as_array(act)
        space = self.action_space
        if isinstance(space, _COUNTED):
            return array + self._start if self._shifts else array
        if not isinstance(space, Box):
            return array
        if self.action_bound_method == "clip":
            array = np.clip(array, -1.0, 1.0)
        elif self.action_bound_method == "tanh":
            array = np.tanh(array)
        if self.action_scaling:
            if not (np.abs(array) <= 1).all():
                raise ValueError(
                    f"can only scale actions in [-1, 1], got {array.min()} to {array.max()}; set action_bound_method"
                )
            array = space.low + (space.high - space.low) * (array + 1.0) / 2.0
        return array

    def map_action_inverse(self, act: "arr_type") -> NDArray[Any]:
        """Bring the environment's actions into the policy's form, so that ``map_action`` would give them.

        :param act: ``[..., *action_space.shape]``, such as samples of the action space; not changed.
        """
        array = _as_array(act)
        space = self.action_space
        if isinstance(space, _COUNTED):
            return array - self._start if self._shifts else array
        if not isinstance(space, Box):
            return array
        if self.action_scaling:
            width = np.maximum(space.high - space.low, np.finfo(np.float32).eps)  # an axis may have one point only
            array = (array - space.low) * 2.0 / width - 1.0
        if self.action_bound_method == "tanh":
            array = np.arctanh(np.clip(array, -_ONE, _ONE))
        return array

    @property
    def _shifts(self) -> bool:
        """Whether the two forms of a discrete action differ. Who maps actions by a method of its own is left to it."""
        return (
            self._start is not None
            and self.counts_from_zero
            and not self.is_replaced("map_action", "map_action_inverse")
        )

    def seed(self, seed: int) -> None:
        """Restart the random streams.

        :param seed: any non-negative integer.
        """
        super().seed(seed)
        self._torch_rng = torch.Generator()
        self._torch_rng.manual_seed(int(np.random.SeedSequence([seed, 1]).generate_state(1, np.uint64)[0] >> 1))

    def draw_normal(self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """Draw standard normal numbers: from the stream that :meth:`seed` began, else from torch's."""
        if self._torch_rng is None:
            return torch.randn(shape, dtype=dtype, device=device)
        return torch.randn(shape, dtype=dtype, generator=self._torch_rng).to(device)

    @torch.no_grad()
    def compute_action(self, obs: Any, info: Mapping[str, Any] | None = None, state: Any = None) -> NDArray[Any] | int:
        """Choose the action for one observation of one environment.

        :param obs: as the environment gives it: a number, an array or a dict.
        :param info: as the environment gives it.
        :param state: hidden state for a batch of one.
        :return: what the environment's ``step`` takes: an int for Discrete, else an array of the space's shape.
        """
        batch: Any = Batch(obs=[obs], info=[info] if info else {})
        act = self.map_action(self(batch, state).act)[0]
        return int(act) if isinstance(self.action_space, Discrete) else act


def _has_finite_width(box: "Box[Any]") -> bool:
    with np.errstate(over="ignore"):
        return bool(np.isfinite(box.high - box.low).all())


def _as_array(act: "arr_type") -> NDArray[Any]:
    array = to_numpy(act)
    if not isinstance(array, np.ndarray):
        raise TypeError(f"actions must be an array or a tensor, got {type(act).__name__}")
    return array
