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
from rlfast.env.spaces.actions import check_shape, fitted_actions, into_box, ranges, within
from rlfast.policy.components.network_checks import acting_error
from rlfast.policy.components.overrides import Replaceable, replaceable
from rlfast.policy.native.choosers import Chooser, current_chooser
from rlfast.utils.arguments.checks import ArgumentError, NonFiniteError
from rlfast.utils.runtime.native import NotNativeError
from rlfast.utils.runtime.seeding import SeededMixin
from rlfast.utils.torch_utils import running_statistics

if TYPE_CHECKING:
    from rlfast.data.types import ActBatchProtocol, ObsBatchProtocol, arr_type

_COUNTED = (Discrete, MultiDiscrete)  # spaces whose actions are integers that may begin at ``start``
_NUMBERS = frozenset({bool, int, float})
_BOUND_METHODS = ("clip", "tanh", None)
_ONE = 1 - float(np.finfo(np.float32).eps)  # the largest action whose inverse tanh is finite in float32


@replaceable("map_action", "map_action_inverse")
class ActingPolicy(Replaceable, SeededMixin, nn.Module, ABC):
    """A policy that chooses actions, with everything that collectors and evaluators need of it.

    Actions have two forms. :meth:`forward` returns the policy's form, which buffers store and algorithms learn from;
    :meth:`map_action` converts it into the environment's form, which has the dtype of the action space. For a Box, it
    first bounds actions to [-1, 1] and then, with ``action_scaling``, stretches them to the bounds of the Box. Bounded
    or stretched actions are within the Box, and those of a Box of integers are rounded. For discrete spaces, the
    environment's actions begin at the ``start`` of the space, and those of a policy with :attr:`counts_from_zero` at 0.

    After :meth:`seed`, random choices draw from the policy's own streams. Before it, choices with NumPy draw from
    :attr:`rng`, and choices with torch from torch's global generator.

    :param action_space: action space of one environment: Box, Discrete, MultiDiscrete or MultiBinary.
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param action_scaling: whether actions in [-1, 1] are stretched to the bounds of the Box. Default: False.
    :param action_bound_method: how the actions of a Box are bounded to [-1, 1]: by ``"clip"`` (default), by ``"tanh"``,
        or not at all, with None.
    :raises ValueError: for another type of space, another bound method, or ``action_scaling`` without a Box with finite
        bounds.
    """

    counts_from_zero: ClassVar[bool] = False
    """Whether the policy's actions of discrete spaces begin at 0, whatever the space's ``start``."""

    _torch_rng: torch.Generator | None = None
    _ranges: "tuple[Box[Any], NDArray[Any], NDArray[Any]] | None" = None  # of the Box, as map_action needs them

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
        start = getattr(action_space, "start", None)
        self._start: Any = start if np.any(start) else None  # the environment's first action, None for 0
        self.action_type: Literal["continuous", "discrete"] = (
            "continuous" if isinstance(action_space, Box) else "discrete"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute. A number that replaces a number bypasses ``nn.Module``'s search among parameters and
        modules, which takes as long as a step of the environments.
        """
        if type(value) in _NUMBERS and name in self.__dict__:
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    def __call__(self, batch: Any, *args: Any, **kwargs: Any) -> Any:
        """Call :meth:`forward`, with its hooks.

        :raises ObservationError: the networks cannot take the observations.
        :raises NonFiniteError: weights are NaN, and the distribution of actions cannot be made of them.
        """
        try:
            return super().__call__(batch, *args, **kwargs)
        except (RuntimeError, ValueError) as error:
            if (better := acting_error(self, error, batch.obs)) is error:
                raise
            raise better from error

    @abstractmethod
    def forward(self, batch: "ObsBatchProtocol", state: Any = None, **kwargs: Any) -> "ActBatchProtocol":
        """Choose actions.

        :param batch: a batch with ``obs``, ``[B, ...]``, and ``info``.
        :param state: hidden state of a recurrent policy, None at the start.
        :return: a ``Batch`` with ``act``, ``[B, ...]`` in the policy's form, and for a recurrent policy the next hidden
            ``state``. Its field ``policy``, if any, is stored with the transition.
        """

    def exploration_noise(
        self,
        act: NDArray[Any],
        batch: "ObsBatchProtocol",  # noqa: ARG002 (for overrides that depend on observations)
    ) -> NDArray[Any]:
        """Return actions with exploration noise, during collection. This one adds none.

        :param act: actions in the policy's form, ``[B, ...]``; not changed.
        :param batch: the observations that they were chosen for.
        :return: actions, ``[B, ...]``.
        """
        return act

    def map_action(self, act: "arr_type") -> NDArray[Any]:
        """Convert actions from the policy's form into the environment's.

        :param act: ``[..., *action_space.shape]``; not changed.
        :return: an array of the same shape, with the dtype of the action space.
        :raises ValueError: if the actions do not have the shape of the action space, an action to be scaled is outside
            [-1, 1] and ``action_bound_method`` is None, or an action is no number of the dtype of the action space.
        :raises NonFiniteError: if an action to be scaled is NaN.
        :raises TypeError: if ``act`` is neither an array nor a tensor.
        """
        array = _as_array(act)
        space = self.action_space
        check_shape(array, space)
        if isinstance(space, Box):
            array = self._bounded(array, space)
        elif self._shifts:
            array = array + self._start
        fitting = fitted_actions(array, space)
        if fitting is None:
            raise ArgumentError(f"the actions {array} are no numbers of dtype {space.dtype}, for {space}")
        return fitting

    def _bounded(self, array: NDArray[Any], box: "Box[Any]") -> NDArray[Any]:
        """Bound and stretch the actions of a Box as :meth:`map_action` does."""
        if self.action_bound_method == "clip":
            array = within(array, -1.0, 1.0)
        elif self.action_bound_method == "tanh":
            array = np.tanh(array)
        if self.action_scaling:
            if not (np.abs(array) <= 1).all():
                if np.isnan(array).any():
                    raise NonFiniteError(
                        f"can only scale actions in [-1, 1], but {type(self).__name__} chose NaN: its observations or "
                        "weights are not finite"
                    )
                raise ArgumentError(
                    f"can only scale actions in [-1, 1], got {array.min()} to {array.max()}; set action_bound_method"
                )
            if self._ranges is None or self._ranges[0] is not box:
                self._ranges = (box, *ranges(box))
            _, low, width = self._ranges
            array = low + width * ((array + 1.0) * 0.5)  # may leave the range by rounding
        elif self.action_bound_method is None:
            return array
        return into_box(array, box)

    def map_action_inverse(self, act: "arr_type") -> NDArray[Any]:
        """Convert actions from the environment's form into the policy's: the inverse of :meth:`map_action`.

        :param act: ``[..., *action_space.shape]``, such as samples of the action space; not changed.
        :return: an array of the same shape.
        :raises TypeError: if ``act`` is neither an array nor a tensor.
        """
        array = _as_array(act)
        space = self.action_space
        if isinstance(space, _COUNTED):
            return array - self._start if self._shifts else array
        if not isinstance(space, Box):
            return array
        if self.action_scaling:
            low, width = ranges(space)
            array = (array - low) / np.where(width > 0, width, 1.0) * 2.0 - 1.0  # bounds may be equal
        if self.action_bound_method == "tanh":
            array = array.astype(np.result_type(array.dtype, np.float32), copy=False)  # float16 would round _ONE to 1
            array = np.arctanh(np.clip(array, -_ONE, _ONE))
        return array

    @property
    def _shifts(self) -> bool:
        """Whether discrete actions must be shifted by ``start``; never in a policy that maps actions by its own
        methods.
        """
        return (
            self._start is not None
            and self.counts_from_zero
            and not self.is_replaced("map_action", "map_action_inverse")
        )

    def seed(self, seed: int) -> None:
        """Restart the policy's random streams.

        :param seed: a non-negative integer.
        """
        super().seed(seed)
        self._torch_rng = torch.Generator()
        self._torch_rng.manual_seed(int(np.random.SeedSequence([seed, 1]).generate_state(1, np.uint64)[0]) >> 1)

    def draw_normal(self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """Draw standard normal numbers from the policy's stream, or before :meth:`seed` from torch's global generator.

        :param shape: shape of the result.
        :param dtype: dtype of the result.
        :param device: device of the result.
        :return: a tensor.
        """
        if self._torch_rng is None:
            return torch.randn(shape, dtype=dtype, device=device)
        return torch.randn(shape, dtype=dtype, generator=self._torch_rng).to(device)

    # -- acting without torch ------------------------------------------------------------------------------------------

    def native_chooser(self) -> Chooser:
        """Return what chooses this policy's actions in Rust: the same as :meth:`forward` chooses, continuous ones but
        for rounding.

        :raises NotNativeError: it cannot, for the reason in the text.
        """
        return current_chooser(self, self._make_chooser)

    def _make_chooser(self) -> Chooser:
        """Make what chooses actions in Rust, in a policy that has an ``acting_network``."""
        raise NotNativeError(f"{type(self).__name__} does not act in Rust")

    def native_exploration(self) -> tuple[float, int, Any] | None:
        """Return what :meth:`exploration_noise` does, for actions that are chosen in Rust.

        :return: the probability of random actions, their number, and the bit generator; None for no noise.
        :raises NotNativeError: the noise is of another kind.
        """
        if "exploration_noise" in vars(self) or type(self).exploration_noise is not ActingPolicy.exploration_noise:
            raise NotNativeError(f"{type(self).__name__} has exploration noise of its own")
        return None

    @property
    def maps_no_action(self) -> bool:
        """Whether the policy's actions are those of the environment, for a ``Discrete`` space."""
        return isinstance(self.action_space, Discrete) and not self._shifts and not self.is_replaced("map_action")

    def native_map(self) -> tuple[bool, bool, tuple[NDArray[np.float32], NDArray[np.float32]] | None]:
        """Return how :meth:`map_action` maps actions, for whole collects in Rust.

        :return: whether they are clipped to [-1, 1], whether they are then stretched to the bounds of the Box, and
            these bounds, within which they are kept; None for actions as they are.
        :raises NotNativeError: they are mapped in another way.
        """
        space = self.action_space
        if self.maps_no_action:
            return False, False, None
        if not isinstance(space, Box) or space.dtype != np.float32 or self.is_replaced("map_action"):
            raise NotNativeError("the policy maps actions")
        if self.action_bound_method == "tanh":
            raise NotNativeError("the policy maps actions by the hyperbolic tangent")
        clips = self.action_bound_method == "clip"
        bounds = (space.low.ravel(), space.high.ravel()) if clips or self.action_scaling else None
        return clips, self.action_scaling, bounds

    # -- one action ----------------------------------------------------------------------------------------------------

    def compute_action(self, obs: Any, info: Mapping[str, Any] | None = None, state: Any = None) -> NDArray[Any] | int:
        """Choose the action for one observation of one environment.

        :param obs: the observation as the environment returns it: a number, an array or a dict.
        :param info: the info dict of the environment.
        :param state: hidden state for a batch of one row.
        :return: the action in the environment's form: an int for Discrete, otherwise an array of the space's shape.
        """
        if state is None and not info and (self.maps_no_action or self.action_type == "continuous"):
            try:
                chosen = self.native_chooser().choose_one(obs)
            except NotNativeError:
                chosen = None
            if chosen is not None:
                return self.map_action(chosen[None])[0] if self.action_type == "continuous" else int(chosen)
        return self._computed_action(obs, info, state)

    @torch.no_grad()
    def _computed_action(self, obs: Any, info: Mapping[str, Any] | None, state: Any) -> NDArray[Any] | int:
        batch: Any = Batch(obs=[obs], info=[info] if info else {})
        with running_statistics(self):
            act = self.map_action(self(batch, state).act)[0]
        return int(act) if isinstance(self.action_space, Discrete) else act


def _has_finite_width(box: "Box[Any]") -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(ranges(box)[1]).all())


def _as_array(act: "arr_type") -> NDArray[Any]:
    array = to_numpy(act)
    if not isinstance(array, np.ndarray):
        raise ArgumentError(f"actions must be an array or a tensor, got {type(act).__name__}")
    return array
