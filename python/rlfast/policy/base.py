import re
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping
from copy import deepcopy
from types import FunctionType
from typing import Any, ClassVar, Literal, NoReturn, Self, TypeAlias, TypedDict, TypeVar, cast

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from numpy.typing import NDArray
from torch import nn

from rlfast.data import Batch, ReplayBuffer, to_numpy
from rlfast.data.forms import Form
from rlfast.data.types import ActBatchProtocol, ObsBatchProtocol, RolloutBatchProtocol, arr_type
from rlfast.env.spaces.actions import check_shape, fitted_actions, into_box, ranges, within
from rlfast.policy.compile.compiled_update import CompiledUpdate, check_compilable
from rlfast.policy.components import lagged_networks, returns, training_state
from rlfast.policy.components.network_checks import acting_error, check_losses, update_error
from rlfast.policy.components.options import full_signature
from rlfast.policy.components.returns import Index, episode_mc_return_to_go
from rlfast.policy.components.shortcuts import Shortcut, Shortcuts, drop_overridden, overridden_by, overrides
from rlfast.policy.native.choosers import Chooser, current_chooser, forget
from rlfast.policy.native.described import Described
from rlfast.policy.stats import TrainingStats, TrainingStatsWrapper, as_stats
from rlfast.utils import MultipleLRSchedulers
from rlfast.utils.arguments.checks import ArgumentError, NonFiniteError
from rlfast.utils.lr_scheduler import check_scheduler
from rlfast.utils.runtime.native import NotNativeError
from rlfast.utils.runtime.seeding import generator, stream_of
from rlfast.utils.torch_utils import Acting
from rlfast.utils.warning import warn_user

__all__ = [
    "ActingPolicy",
    "BasePolicy",
    "Index",
    "TLearningRateScheduler",
    "TTrainingStats",
    "TrainingStats",
    "TrainingStatsWrapper",
    "episode_mc_return_to_go",
]

TTrainingStats = TypeVar("TTrainingStats", bound=TrainingStats)
LearnsFrom: TypeAlias = Literal["rollouts", "transitions"]
TLearningRateScheduler: TypeAlias = torch.optim.lr_scheduler.LRScheduler | MultipleLRSchedulers

_COUNTED = (Discrete, MultiDiscrete)  # spaces whose actions are integers that may begin at ``start``
_NUMBERS = frozenset({bool, int, float})
_LEARNED_THROUGH = ("__call__", "forward", "_target_q", "_mse_optimizer")
"""Methods whose overrides a graph of the algorithm would not call."""
_BOUND_METHODS = ("clip", "tanh", None)
_ONE = 1 - float(np.finfo(np.float32).eps)  # the largest action whose inverse tanh is finite in float32


class PolicyOptions(TypedDict, total=False):
    """The arguments of :class:`BasePolicy` that algorithms pass on."""

    observation_space: gym.Space[Any] | None
    lr_scheduler: TLearningRateScheduler | None


class BasePolicy(nn.Module, ABC):
    """A policy that acts, and learns: :meth:`update` is sample, :meth:`process_fn`, :meth:`learn`,
    :meth:`post_process_fn`.

    A subclass may override these, :meth:`forward`, :meth:`exploration_noise`, :meth:`map_action` and
    :meth:`map_action_inverse`; the library calls them. Methods that are assigned to an object, or to a class after it
    was made, are not noticed everywhere.

    Actions have two forms. :meth:`forward` returns the policy's form, which buffers store and algorithms learn from;
    :meth:`map_action` converts it into the environment's form, which has the dtype of the action space. For a Box, it
    first bounds actions to [-1, 1] and then, with ``action_scaling``, stretches them to the bounds of the Box. Bounded
    or stretched actions are within the Box, and those of a Box of integers are rounded. For discrete spaces, the
    environment's actions begin at the ``start`` of the space, and those of a policy with :attr:`counts_from_zero` at 0.

    After :meth:`seed`, random choices draw from the policy's own streams. Before it, choices with NumPy draw from
    :attr:`rng`, and choices with torch from torch's global generator.

    Its ``state_dict`` holds everything that is needed to continue training: the weights of the networks and, under
    ``_extra_state``, the random streams, the state of every optimizer, schedule, normaliser, exploration noise and
    network in a list, and the numbers, arrays and tensors that have changed since the policy was made. These are found
    in attributes of the policy, of its submodules and of objects that it holds, and in lists and dicts of them. A
    ``state_dict`` with weights alone can be loaded, too, with a warning.

    :param action_space: action space of one environment: Box, Discrete, MultiDiscrete or MultiBinary.
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param action_scaling: whether actions in [-1, 1] are stretched to the bounds of the Box. Default: False.
    :param action_bound_method: how the actions of a Box are bounded to [-1, 1]: by ``"clip"`` (default), by ``"tanh"``,
        or not at all, with None.
    :param lr_scheduler: an object with a method ``step``, which is called after each update. Default: None.
    :raises ValueError: for another type of space, another bound method, or ``action_scaling`` without a Box with finite
        bounds.
    :raises TypeError: if ``lr_scheduler`` has no method ``step`` that can be called without arguments, as that of
        ``ReduceLROnPlateau`` cannot.
    """

    counts_from_zero: ClassVar[bool] = False
    """Whether the policy's actions of discrete spaces begin at 0, whatever the space's ``start``."""
    shortcuts: ClassVar[Shortcuts] = {
        "_make_chooser": Shortcut(("__call__", "forward", "draw_normal"), "_no_chooser"),
        "native_exploration": Shortcut(("exploration_noise",), "_no_native_exploration"),
        "_maps_by_space": Shortcut(("map_action", "map_action_inverse"), "_maps_itself"),
    }
    """What a class does quicker, as long as it does not override certain methods; see :mod:`.shortcuts`."""
    acting_facts: ClassVar[tuple[str, ...]] = ()
    """Names of attributes on which :meth:`native_chooser` depends, besides the networks."""
    _refused_options: ClassVar[frozenset[str]] = frozenset()  # arguments of base classes that the algorithm lacks
    _learns_by_own_methods: ClassVar[bool] = True
    _maps_by_space: ClassVar[bool] = True
    _maps_itself: ClassVar[bool] = False

    _rng: np.random.Generator | None = None
    _torch_rng: torch.Generator | None = None
    _ranges: "tuple[Box[Any], NDArray[Any], NDArray[Any]] | None" = None  # of the Box, as map_action needs them

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        drop_overridden(cls)
        cls._learns_by_own_methods = not overrides(cls, _LEARNED_THROUGH, "gradient_step")
        if "__init__" in vars(cls):
            cls.__init__ = training_state.records_initial_values(cls.__init__)  # type: ignore[method-assign]
        cls.__signature__, cls._refused_options = full_signature(cls)  # type: ignore[attr-defined]

    @training_state.records_initial_values
    def __init__(
        self,
        *,
        action_space: gym.Space[Any],
        observation_space: gym.Space[Any] | None = None,
        action_scaling: bool = False,
        action_bound_method: Literal["clip", "tanh"] | None = "clip",
        lr_scheduler: TLearningRateScheduler | None = None,
    ) -> None:
        if action_bound_method not in _BOUND_METHODS:
            raise ValueError(f"action_bound_method must be one of {_BOUND_METHODS}, got {action_bound_method!r}")
        if not isinstance(action_space, Box | Discrete | MultiDiscrete | MultiBinary):
            raise ValueError(f"action_space must be a Box, Discrete, MultiDiscrete or MultiBinary, got {action_space}")
        if action_scaling and not (isinstance(action_space, Box) and _has_finite_width(action_space)):
            raise ValueError(f"action_scaling needs a Box with finite bounds, got {action_space}; leave it False")
        super().__init__()
        self.action_space, self.observation_space = action_space, observation_space
        self.action_scaling, self.action_bound_method = action_scaling, action_bound_method
        start = getattr(action_space, "start", None)
        self._start: Any = start if np.any(start) else None  # the environment's first action, None for 0
        self.action_type: Literal["continuous", "discrete"] = (
            "continuous" if isinstance(action_space, Box) else "discrete"
        )
        self.lr_scheduler = lr_scheduler
        self.agent_id = 0
        self.updating = False
        self._lagged: list[nn.Module] = []
        self._sampled_weight: Any = None  # while an update runs
        self.register_load_state_dict_post_hook(_accept_weights_alone)  # type: ignore[no-untyped-call]

    def completed(self) -> None:
        """Finish the construction: called after the constructor of the outermost class."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute. A number that replaces a number bypasses ``nn.Module``'s search among parameters and
        modules, which takes as long as a step of the environments. A method that is assigned overrides the class's.

        :raises TypeError: ``lr_scheduler`` cannot step without arguments.
        """
        if type(value) in _NUMBERS and name in self.__dict__:
            object.__setattr__(self, name, value)
            return
        if name == "lr_scheduler" and value is not None:
            check_scheduler(value)
        if isinstance(getattr(type(self), name, None), FunctionType) and name not in self.__dict__:
            self.__class__ = overridden_by(self, name)
            forget(self)
        super().__setattr__(name, value)

    def __class_getitem__(cls, _: object) -> type[Self]:
        """Return the class itself, for ``BasePolicy[MyStats]`` in annotations."""
        return cls

    def set_agent_id(self, agent_id: int) -> None:
        """Set the number of this agent, where several agents learn in one environment.

        :param agent_id: the number.
        """
        self.agent_id = agent_id

    # -- acting --------------------------------------------------------------------------------------------------------

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
    def forward(self, batch: ObsBatchProtocol, state: Any = None, **kwargs: Any) -> ActBatchProtocol:
        """Choose actions.

        :param batch: a batch with ``obs``, ``[B, ...]``, and ``info``.
        :param state: hidden state of a recurrent policy, None at the start.
        :return: a ``Batch`` with ``act``, ``[B, ...]`` in the policy's form, and for a recurrent policy the next hidden
            ``state``, whose entry ``exploration``, if any, is for acting alone and not stored. Its field ``policy``, if
            any, is stored with the transition.
        """

    def exploration_noise(self, act: NDArray[Any], batch: ObsBatchProtocol) -> NDArray[Any]:
        """Return actions with exploration noise, during collection. This one adds none.

        :param act: actions in the policy's form, ``[B, ...]``; not changed.
        :param batch: the observations that they were chosen for.
        :return: actions, ``[B, ...]``.
        """
        return act

    def map_action(self, act: arr_type) -> NDArray[Any]:
        """Convert actions from the policy's form into the environment's.

        :param act: ``[..., *action_space.shape]``; not changed.
        :return: an array of the same shape, with the dtype of the action space.
        :raises ValueError: if the actions do not have the shape of the action space, an action to be scaled is outside
            [-1, 1] and ``action_bound_method`` is None, or an action is no number of the dtype of the action space.
        :raises NonFiniteError: if an action to be scaled is NaN.
        :raises TypeError: if ``act`` is neither an array nor a tensor.
        """
        array = act if isinstance(act, np.ndarray) else _as_array(act)
        space = self.action_space
        check_shape(array, space)
        if isinstance(space, Box):
            array = self._bounded(array, space)
        elif self._start is not None and self._shifts:
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

    def map_action_inverse(self, act: arr_type) -> NDArray[Any]:
        """Convert actions from the environment's form into the policy's: the inverse of :meth:`map_action`.

        :param act: ``[..., *action_space.shape]``, such as samples of the action space; not changed.
        :return: an array of the same shape.
        :raises TypeError: if ``act`` is neither an array nor a tensor.
        """
        array = act if isinstance(act, np.ndarray) else _as_array(act)
        space = self.action_space
        if isinstance(space, _COUNTED):
            return array - self._start if self._start is not None and self._shifts else array
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
        """Whether discrete actions must be shifted by ``start``; never in a policy with methods of its own for that."""
        return self._start is not None and self.counts_from_zero and self._maps_by_space

    # -- one action ----------------------------------------------------------------------------------------------------

    def compute_action(
        self, obs: object, info: Mapping[str, Any] | None = None, state: object = None
    ) -> NDArray[Any] | int:
        """Choose the action for one observation of one environment.

        :param obs: the observation as the environment returns it: a number, an array or a dict.
        :param info: the info dict of the environment.
        :param state: hidden state for a batch of one row.
        :return: the action in the environment's form: an int for Discrete, otherwise an array of the space's shape.
        """
        if state is None and not info and (self.maps_no_action or self.action_type == "continuous"):
            try:
                chosen = self.native_chooser(Form.of(obs)).choose_one(obs)
            except NotNativeError:
                chosen = None
            if chosen is not None:
                return self.map_action(chosen[None])[0] if self.action_type == "continuous" else int(chosen)
        return self._computed_action(obs, info, state)

    def _computed_action(self, obs: object, info: Mapping[str, Any] | None, state: object) -> NDArray[Any] | int:
        batch: Any = Batch(obs=[obs], info=[info] if info else {})
        with Acting(self):
            act = self.map_action(self(batch, state).act)[0]
        return int(act) if isinstance(self.action_space, Discrete) else act

    # -- acting without torch ------------------------------------------------------------------------------------------

    def native_chooser(self, shape: tuple[int, ...] | Form) -> Chooser:
        """Return what chooses this policy's actions in Rust: the same as :meth:`forward` chooses, continuous ones but
        for rounding.

        :param shape: the form of one observation, or the shape of an array of floats.
        :raises NotNativeError: it cannot, for the reason in the text.
        """
        return current_chooser(self, shape, self._make_chooser)

    def _make_chooser(self, form: Form) -> Chooser:
        """Make what chooses actions in Rust; a policy defines it to say what its network and its choice are."""
        return self._no_chooser(form)

    def _no_chooser(self, form: Form) -> NoReturn:
        raise NotNativeError(f"{type(self).__name__} does not act in Rust: it chooses actions by a method of its own")

    def described(self, shape: tuple[int, ...] | Form) -> Described:
        """Return how this policy computes its actions, in its own form, for :mod:`rlfast.export`.

        :param shape: the form of one observation, or the shape of an array of floats.
        :raises NotNativeError: they are not computed by a network and a choice that are known.
        """
        return self.native_chooser(shape).described()

    def native_exploration(self) -> tuple[float, int, Any] | None:
        """Return what :meth:`exploration_noise` does, for actions that are chosen in Rust.

        :return: the probability of random actions, their number, and the bit generator; None for no noise.
        :raises NotNativeError: the noise is of another kind.
        """
        return None

    def _no_native_exploration(self) -> tuple[float, int, Any] | None:
        raise NotNativeError(f"{type(self).__name__} has exploration noise of its own")

    @property
    def maps_by_space(self) -> bool:
        """Whether :meth:`map_action` depends on the action space and on the arguments for it alone."""
        return self._maps_by_space

    @property
    def maps_no_action(self) -> bool:
        """Whether the policy's actions are those of the environment, for a ``Discrete`` space."""
        return isinstance(self.action_space, Discrete) and not self._shifts and self._maps_by_space

    def native_map(self) -> tuple[bool, bool, tuple[NDArray[np.float32], NDArray[np.float32]] | None]:
        """Return how :meth:`map_action` maps actions, for whole collects in Rust.

        :return: whether they are clipped to [-1, 1], whether they are then stretched to the bounds of the Box, and
            these bounds, within which they are kept; None for actions as they are.
        :raises NotNativeError: they are mapped in another way.
        """
        space = self.action_space
        if self.maps_no_action:
            return False, False, None
        if not isinstance(space, Box) or space.dtype != np.float32 or not self._maps_by_space:
            raise NotNativeError("the policy maps actions")
        if self.action_bound_method == "tanh":
            raise NotNativeError("the policy maps actions by the hyperbolic tangent")
        clips = self.action_bound_method == "clip"
        bounds = (space.low.ravel(), space.high.ravel()) if clips or self.action_scaling else None
        return clips, self.action_scaling, bounds

    # -- random streams ------------------------------------------------------------------------------------------------

    @property
    def rng(self) -> np.random.Generator:
        """NumPy's random generator; without :meth:`seed`, it is seeded from NumPy's global one at its first use."""
        if self._rng is None:
            self._rng = generator()
        return self._rng

    @rng.setter
    def rng(self, value: np.random.Generator) -> None:
        self._rng = value

    def seed(self, seed: int) -> None:
        """Restart the policy's random streams.

        :param seed: a non-negative integer.
        """
        self._rng = generator(seed)
        self._torch_rng = torch.Generator()
        self._torch_rng.manual_seed(int(np.random.SeedSequence([seed, 1]).generate_state(1, np.uint64)[0]) >> 1)

    def random_state(self) -> dict[str, Any] | None:
        """Return the state of :attr:`rng`, for a checkpoint; None before its first use."""
        return None if self._rng is None else dict(self._rng.bit_generator.state)

    def set_random_state(self, state: dict[str, Any] | None) -> None:
        """Restore the state of :attr:`rng`.

        :param state: the return value of :meth:`random_state`.
        :raises ValueError: the state is damaged.
        """
        self._rng = None if state is None else stream_of(state)

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

    # -- one update ----------------------------------------------------------------------------------------------------

    @property
    def learns_from(self) -> LearnsFrom | None:
        """What an update learns from: ``"rollouts"`` that are then discarded, ``"transitions"`` that are sampled, or
        None for either. Trainers refuse a policy that learns from the other.
        """
        return None

    def process_buffer(self, buffer: ReplayBuffer) -> ReplayBuffer:
        """Prepare a buffer once, before offline training from it begins. This one changes nothing.

        :param buffer: the buffer with the data.
        :return: the buffer to sample from.
        """
        return buffer

    def process_fn(self, batch: RolloutBatchProtocol, buffer: ReplayBuffer, indices: Index) -> RolloutBatchProtocol:
        """Add to a sample what :meth:`learn` needs, such as returns. This one adds nothing.

        :param batch: a sample of B rows.
        :param buffer: the buffer that it was drawn from.
        :param indices: indices of the rows in the buffer, ``[B]``.
        :return: the sample for :meth:`learn`.
        """
        return batch

    @abstractmethod
    def learn(self, batch: RolloutBatchProtocol, *args: Any, **kwargs: Any) -> TrainingStats:
        """Train the networks on a processed sample.

        It may set ``batch.td_error``, ``[B]``, whose absolute values become the priorities of the rows in a prioritized
        buffer; or it may replace ``batch.weight`` instead.

        :param batch: the result of :meth:`process_fn`; a sample of a prioritized buffer has ``weight``, ``[B]``.
        :param args: further arguments of an algorithm.
        :param kwargs: further arguments of an algorithm.
        :return: the losses.
        """

    def post_process_fn(self, batch: RolloutBatchProtocol, buffer: ReplayBuffer, indices: Index) -> None:
        """Update the priorities of the rows in a prioritized buffer, which is one with a method ``update_weight``.

        :param batch: the sample after :meth:`learn`. Without ``td_error`` or a new ``weight``, priorities stay as they
            are, with a warning.
        :param buffer: the buffer that it was drawn from.
        :param indices: indices of the rows in the buffer, ``[B]``; the buffer ignores rows that were overwritten since.
        """
        if not hasattr(buffer, "update_weight"):
            return
        error = batch.get("td_error")
        if error is None:
            error = self._replaced_weight(batch, buffer, indices)
        if error is None:
            warn_user(
                f"the buffer is prioritized, but {type(self).__name__}.learn sets no batch.td_error: priorities stay"
            )
            return
        buffer.update_weight(indices, error)

    def _replaced_weight(self, batch: Any, buffer: ReplayBuffer, indices: Index) -> Any:
        """Return the ``weight`` that ``learn`` has set; None if the sample still has its importance weights."""
        weight = batch.get("weight")
        if weight is None or weight is self._sampled_weight:
            return None
        before = np.asarray(buffer[indices].weight)
        now = to_numpy(weight)
        return None if now.shape == before.shape and np.allclose(now, before, rtol=1e-5, atol=0) else weight

    def update(self, sample_size: int | None, buffer: ReplayBuffer | None, **kwargs: Any) -> TrainingStats:
        """Learn from one sample: sample, process, learn, update priorities, step the learning-rate schedule.

        :param sample_size: number of rows to draw; 0 for all rows in order of time, None to draw as many rows as there
            are.
        :param buffer: the buffer to sample from; None to learn nothing.
        :param kwargs: passed to :meth:`learn`.
        :return: the statistics of ``learn``, with ``train_time`` and ``sample_time``.
        :raises ValueError: ``sample_size`` is negative; nothing is changed then.
        :raises ObservationError: the networks cannot take the observations.
        :raises NonFiniteError: a loss is infinite, or it is NaN and so are weights, or the sample has NaN that the
            networks do not take. The weights may have changed then.
        """
        if buffer is None:
            return TrainingStats()
        if sample_size is not None and sample_size < 0:
            raise ArgumentError(f"sample_size must not be negative, got {sample_size}; 0 is all rows")
        sample: Any
        start = time.perf_counter()
        sample, indices = buffer.sample(sample_size)
        sampled, gradients = time.perf_counter(), torch.is_grad_enabled()
        try:
            self.updating = True
            batch = self.process_fn(sample, buffer, indices)
            vars(self)["_sampled_weight"] = batch.get("weight")  # spares nn.Module's search among parameters
            stats: TrainingStats = as_stats(self.learn(batch, **kwargs), type(self).__name__)
            check_losses(self, stats, batch, buffer, indices)
            self.post_process_fn(batch, buffer, indices)
            if self.lr_scheduler is not None:
                self.lr_scheduler.step()
        except (RuntimeError, ValueError) as error:
            if (better := update_error(self, error, sample, buffer, indices)) is error:
                raise
            raise better from error
        except BaseException:
            torch.set_grad_enabled(gradients)  # Ctrl-C may have kept a torch.no_grad() from ending
            raise
        finally:
            self.updating = False
            vars(self)["_sampled_weight"] = None
        stats.train_time, stats.sample_time = time.perf_counter() - start, sampled - start
        return stats

    # -- target networks and returns -----------------------------------------------------------------------------------

    def lagged_copy(self, source: nn.Module) -> nn.Module:
        """Make a target network: a copy without gradients that stays in evaluation mode.

        :param source: the trained network.
        :return: the copy.
        """
        target = deepcopy(source).eval().requires_grad_(False)
        self._lagged.append(target)
        return target

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation mode, except for the target networks.

        :param mode: True for training mode.
        :return: this policy.
        """
        super().train(mode)
        for target in self._lagged:
            target.eval()
        return self

    soft_update = staticmethod(lagged_networks.soft_update)
    value_mask = staticmethod(returns.value_mask)
    compute_episodic_return = staticmethod(returns.compute_episodic_return)
    compute_nstep_return = staticmethod(returns.compute_nstep_return)

    # -- state ---------------------------------------------------------------------------------------------------------

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Restore the result of ``state_dict``, also of a policy whose networks were compiled where these are not, or
        the other way round; see ``torch.nn.Module.load_state_dict``.

        :param state_dict: weights and the rest by name. ``torch.compile`` adds ``_orig_mod.`` to the names of weights.
        """
        if any(_COMPILED in f"{name}." for name in (*state_dict, *dict(self.named_modules()))):
            own = {name.replace(_COMPILED, ""): name for name in self.state_dict()}
            named = {own.get(name.replace(_COMPILED, ""), name): value for name, value in state_dict.items()}
            state_dict = OrderedDict(named)
        return super().load_state_dict(state_dict, *args, **kwargs)

    def get_extra_state(self) -> dict[str, Any]:
        """Return the part of ``state_dict`` besides weights."""
        found = training_state.find(self)
        scheduler = getattr(self.lr_scheduler, "state_dict", None)
        return {
            "optimizers": {name: optim.state_dict() for name, optim in found.optimizers.items()},
            "lr_scheduler": None if scheduler is None else scheduler(),
            "random": self.random_state(),
            "torch_random": None if self._torch_rng is None else self._torch_rng.get_state(),
            "parts": {name: part.state_dict() for name, part in found.parts.items()},
            "values": training_state.values_of(self),
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restore the result of :meth:`get_extra_state`.

        A policy without optimizers, which only acts, leaves out optimizers, schedules and parts that it does not have.

        :param state: the result.
        :raises ValueError: if this policy has other optimizers, parts or schedules. Nothing is changed then.
        """
        found = training_state.find(self)
        if not found.optimizers:
            parts = {name: part for name, part in state["parts"].items() if name in found.parts}
            scheduler = state["lr_scheduler"] if hasattr(self.lr_scheduler, "state_dict") else None
            state = {**state, "optimizers": {}, "parts": parts, "lr_scheduler": scheduler}
        if found.optimizers.keys() != state["optimizers"].keys():
            raise ValueError(
                f"got the state of optimizers {[*state['optimizers']]}, this policy has {[*found.optimizers]}"
            )
        if hasattr(self.lr_scheduler, "state_dict") is (state["lr_scheduler"] is None):
            raise ValueError("lr_scheduler: either the policy or the saved state has one, but not both")
        if found.parts.keys() != state["parts"].keys():
            raise ValueError(f"got the state of {[*state['parts']]}, this policy has {[*found.parts]}")
        for name, optim in found.optimizers.items():
            optim.load_state_dict(deepcopy(state["optimizers"][name]))  # optimizers keep the tensors they are given
        if self.lr_scheduler is not None and state["lr_scheduler"] is not None:
            self.lr_scheduler.load_state_dict(deepcopy(state["lr_scheduler"]))
        self.set_random_state(state["random"])
        self._torch_rng = None
        if state["torch_random"] is not None:
            self._torch_rng = torch.Generator()
            self._torch_rng.set_state(state["torch_random"].cpu())
        for name, part in found.parts.items():
            part.load_state_dict(state["parts"][name])
        training_state.set_values(self, state["values"])

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        """Move parameters to another device or dtype, and the states of optimizers with them."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for optim in training_state.find(self).optimizers.values():
            if optim.state:
                optim.load_state_dict(optim.state_dict())
        return self

    def compiled(self, update: Callable[..., Any], *networks: nn.Module) -> CompiledUpdate:
        """Return an update as one graph, for policies with ``compile=True``.

        :param update: a method that takes and returns tensors.
        :param networks: the networks that it uses.
        :return: a function like ``update``.
        :raises ValueError: for a recurrent network, an unknown optimizer, or an overridden method of the algorithm.
        """
        if not self._learns_by_own_methods:
            raise ValueError(
                f"compile=True makes one graph of the algorithm's own methods, and {type(self).__name__} overrides "
                "forward, _target_q or _mse_optimizer: leave compile at False"
            )
        check_compilable(*networks)
        device = cast("Any", self)._device  # noqa: SLF001
        if device.type != "cpu":
            self.to(device)  # a number on the CPU, such as a temperature, would be a constant of a CUDA graph
        return CompiledUpdate(update, self._all_optimizers, self)

    def _all_optimizers(self) -> list[torch.optim.Optimizer]:
        return [value for value in vars(self).values() if isinstance(value, torch.optim.Optimizer)]


class ActingPolicy(BasePolicy):
    """A policy that acts and does not learn: a subclass defines :meth:`forward`. See :class:`BasePolicy`."""

    def learn(self, batch: RolloutBatchProtocol, *args: Any, **kwargs: Any) -> TrainingStats:
        """Refuse to learn.

        :raises TypeError: always.
        """
        raise TypeError(f"{type(self).__name__} acts and does not learn")


_COMPILED = "_orig_mod."
"""What ``torch.compile`` puts before the names of a module's weights."""
_STAYS = re.compile(r"(.+\.)?(_extra_state|temperature\.log_alpha|cql_log_alpha)")
_UNUSED = re.compile(r"(policy\.)*(_actor_critic\..+|actor_old\..+|tau_hat)")
"""Copies of other weights, and weights that nothing uses."""


def _accept_weights_alone(policy: nn.Module, incompatible: Any) -> None:
    missing, unexpected = incompatible.missing_keys, incompatible.unexpected_keys
    if not any(key.endswith("_extra_state") for key in missing):
        return
    missing[:] = [key for key in missing if not _STAYS.fullmatch(key)]
    unexpected[:] = [key for key in unexpected if not _UNUSED.fullmatch(key)]
    warn_user(
        f"only weights were loaded into {type(policy).__name__}: optimizers, schedulers, temperatures and random "
        "streams stay"
    )


def _has_finite_width(box: "Box[Any]") -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(ranges(box)[1]).all())


def _as_array(act: arr_type) -> NDArray[Any]:
    array = to_numpy(act)
    if not isinstance(array, np.ndarray):
        raise ArgumentError(f"actions must be an array or a tensor, got {type(act).__name__}")
    return array
