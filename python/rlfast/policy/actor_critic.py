"""The base class of algorithms with an actor for continuous actions, and critics."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, Required, Unpack, cast

import numpy as np
import torch
from gymnasium.spaces import Box
from numpy.typing import NDArray
from torch import nn

from rlfast.data import to_torch
from rlfast.data.batch.batch import wrap
from rlfast.data.forms import Form
from rlfast.data.types import ActStateBatchProtocol, ObsBatchProtocol
from rlfast.exploration import BaseNoise, GaussianNoise
from rlfast.policy.components.batches import info_of
from rlfast.policy.components.memory.sequences import actor_output
from rlfast.policy.components.network_checks import check_networks, check_output
from rlfast.policy.components.shortcuts import instead_of_forward
from rlfast.policy.critics import critic_step
from rlfast.policy.native.choosers import Chooser
from rlfast.policy.native.continuous import ContinuousChooser
from rlfast.policy.replay import ReplayLearner, ReplayOptions
from rlfast.utils.arguments.checks import ArgumentError, check_function
from rlfast.utils.arguments.validation import PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.net.common import dtype_of
from rlfast.utils.optim import OptionalOptimizer, make_optimizer
from rlfast.utils.runtime.native import NotNativeError


class OnlineOptions(ReplayOptions, total=False):
    """The arguments of :class:`ActorCriticLearner` for an algorithm without target networks."""

    actor: Required[nn.Module]
    actor_optim: Required[OptionalOptimizer]
    action_space: Required[Any]
    gamma: float
    estimation_step: int
    action_scaling: bool
    action_bound_method: Literal["clip"] | None


class ActorCriticOptions(OnlineOptions, total=False):
    """The arguments of :class:`ActorCriticLearner`, which its algorithms pass on."""

    tau: float


class ExploringOptions(ActorCriticOptions, total=False):
    """All arguments of :class:`ActorCriticLearner`."""

    exploration_noise: BaseNoise | Literal["default"] | None


class ActorCriticLearner(ReplayLearner):
    """A learner of critics that estimate the values of continuous actions, and of an actor that chooses actions.

    The actor is deterministic, unless a subclass overrides :meth:`forward` and defines what learning calls instead.

    A subclass of an algorithm may override :meth:`forward`, ``_target_q(buffer, indices)`` and, where the algorithm has
    it, ``_mse_optimizer(batch, critic, optimizer)``.

    :param actor: called as ``actor(obs, state=..., info=...)``; returns actions ``[B, size]`` and the next hidden
        state, as :class:`rlfast.utils.net.continuous.Actor` does.
    :param actor_optim: an optimizer of ``actor``, or a factory such as :func:`rlfast.utils.optim.adam`; None, as for
        the critics', for a policy that only acts.
    :param action_space: action space of one environment, a Box.
    :param tau: size of the steps of target networks towards the trained ones, in [0, 1]. Default: 0.005.
    :param gamma: discount of future rewards, in [0, 1]. Default: 0.99.
    :param estimation_step: the largest number of steps to sum rewards over. Default: 1.
    :param exploration_noise: noise that collectors add to actions on request; ``"default"`` for normal noise of 0.1.
        Default: None.
    :param action_scaling: whether actions are stretched from [-1, 1] to the bounds of the Box. Default: True.
    :param action_bound_method: ``"clip"`` (default) or None, for actions that noise may have moved out of [-1, 1].
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param lr_scheduler: a schedule that takes a step after each update. Default: None.
    :param compile: whether a whole update is compiled into one graph, which is up to twice as fast after some ten
        seconds; see :class:`DQNPolicy`. Default: False.
    :raises ValueError: for a value out of range, another kind of action space, or another ``action_bound_method``.
    """

    actor_old: nn.Module
    critic: nn.Module
    critic_old: nn.Module
    critic2: nn.Module
    critic2_old: nn.Module

    @validate_arguments
    def __init__(
        self,
        *,
        actor: nn.Module,
        actor_optim: OptionalOptimizer,
        action_space: object,
        tau: UnitFloat = 0.005,
        gamma: UnitFloat = 0.99,
        estimation_step: PositiveInt = 1,
        exploration_noise: BaseNoise | Literal["default"] | None = None,
        action_scaling: bool = True,
        action_bound_method: Literal["clip"] | None = "clip",
        **options: Unpack[ReplayOptions],
    ) -> None:
        name = type(self).__name__.removesuffix("Policy")
        if not isinstance(action_space, Box):
            raise ValueError(f"{name} needs a Box action space, got {action_space}")
        if action_bound_method not in ("clip", None):
            raise ArgumentError(
                f'action_bound_method must be "clip" or None, got {action_bound_method!r}: {name} squashes actions '
                "itself"
            )
        check_networks(actor=actor)
        check_output(actor, action_space)
        super().__init__(
            gamma=gamma,
            n_step=estimation_step,
            action_space=action_space,
            action_scaling=action_scaling,
            action_bound_method=action_bound_method,
            **options,
        )
        self._act_shape = action_space.shape
        self.actor = actor
        self.actor_optim = make_optimizer(actor_optim, actor.parameters())
        self.tau = tau
        self.set_exp_noise(GaussianNoise(sigma=0.1) if exploration_noise == "default" else exploration_noise)

    # -- acting --------------------------------------------------------------------------------------------------------

    def forward(
        self,
        batch: ObsBatchProtocol,
        state: object = None,
        model: Literal["actor", "actor_old"] = "actor",
        **kwargs: Any,
    ) -> ActStateBatchProtocol:
        """Choose actions by the actor.

        :param batch: a batch with ``obs`` and ``info``.
        :param state: hidden state of the actor.
        :param model: name of the actor, the trained one or its target network.
        :param kwargs: ignored.
        :return: ``act``, ``[B, *shape]``; ``state``, the next hidden state.
        """
        act, hidden = getattr(self, model)(batch.obs, state=state, info=batch.info)
        return cast(ActStateBatchProtocol, wrap({"act": act.reshape(len(act), *self._act_shape), "state": hidden}))

    def _make_chooser(self, form: Form) -> Chooser:
        return ContinuousChooser(self, form, self._act_shape)

    @instead_of_forward(lambda result: result.act)
    def act(
        self, obs: object, state: object = None, batch: object = None, model: Literal["actor", "actor_old"] = "actor"
    ) -> torch.Tensor:
        """Return the actions of an actor, ``[B, *shape]``.

        :param obs: observations.
        :param state: hidden state before them.
        :param batch: the sample that they belong to, if any.
        :param model: name of the actor, the trained one or its target network.
        """
        act = actor_output(getattr(self, model), obs, state, info_of(batch))
        return cast("torch.Tensor", act.reshape(len(act), *self._act_shape))

    # -- exploration ---------------------------------------------------------------------------------------------------

    def set_exp_noise(self, noise: Callable[[Sequence[int]], NDArray[Any]] | None) -> None:
        """Set the exploration noise, which collectors with noise add to actions; None for no noise.

        :param noise: a :class:`rlfast.exploration.BaseNoise`, or any function of the actions' shape.
        """
        check_function("exploration_noise", noise, optional=True)
        self._exploration_noise = noise

    def exploration_noise(self, act: object, batch: object) -> Any:
        """Return actions with the exploration noise, if any.

        :param act: ``[B, *shape]``; not changed.
        :param batch: the observations that they were chosen for.
        """
        if self._exploration_noise is None:
            return act
        if not isinstance(act, np.ndarray):
            warnings.warn(f"noise is added to arrays, not to a {type(act).__name__}: it is left out", stacklevel=2)
            return act
        noisy: NDArray[Any] = (act + self._exploration_noise(act.shape)).astype(act.dtype)
        return noisy

    def native_exploration(self) -> None:
        """Return None for no noise; see :meth:`rlfast.policy.BasePolicy.native_exploration`.

        :raises NotNativeError: there is noise.
        """
        if self._exploration_noise is not None:
            raise NotNativeError("noise is added to actions in Python")

    def start_episodes(self, rows: NDArray[np.bool_]) -> None:
        """Let the noise start anew in rows whose next action is the first of an episode; collectors call this.

        :param rows: ``[B]``, for the rows of the last call of :meth:`exploration_noise`.
        """
        if isinstance(self._exploration_noise, BaseNoise):
            self._exploration_noise.start_episodes(rows)

    # -- learning ------------------------------------------------------------------------------------------------------

    @staticmethod
    def _mse_optimizer(
        batch: Any, critic: nn.Module, optimizer: torch.optim.Optimizer
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Do one gradient step for a critic towards the returns; see :func:`critic_step`."""
        return critic_step(critic, optimizer, batch, batch.returns.flatten())

    def actions(self, act: object, device: torch.device) -> torch.Tensor:
        """Return stored actions as tensors of the actor's dtype."""
        return cast("torch.Tensor", to_torch(act, self._dtype, device))

    def _set_td_error(self, batch: Any, error_B: torch.Tensor) -> None:
        """Set ``td_error`` for priorities, and ``weight``, the errors with the opposite sign."""
        batch.td_error, batch.weight = error_B, -error_B

    @property
    def _dtype(self) -> torch.dtype:
        return dtype_of(self.actor)
