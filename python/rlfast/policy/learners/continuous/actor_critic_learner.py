"""The template of algorithms with an actor for continuous actions, and critics."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self, cast

import numpy as np
import torch
from gymnasium.spaces import Box
from numpy.typing import NDArray
from torch import nn

from rlfast.data import to_torch
from rlfast.exploration import BaseNoise, GaussianNoise
from rlfast.policy.components.memory.sequences import Sequences
from rlfast.policy.components.network_checks import check_networks, check_output
from rlfast.policy.components.overrides import replaceable
from rlfast.policy.learners.critics import Critics
from rlfast.policy.learners.replay_learner import ReplayLearner
from rlfast.utils.arguments.checks import ArgumentError, check_function
from rlfast.utils.net.common import dtype_of
from rlfast.utils.optim import OptimizerFactory, make_optimizer
from rlfast.utils.runtime.native import NotNativeError


@replaceable("_target_q")
class ActorCriticLearner(Critics, ReplayLearner):
    """A learner of critics that estimate the values of continuous actions, and of an actor that chooses actions.

    A subclass of an algorithm that overrides :meth:`forward`, ``_target_q(buffer, indices)`` or ``_mse_optimizer(batch,
    critic, optimizer)`` learns through them, and so does a policy to which hooks or a method of its own are given. An
    algorithm with a ``forward`` of its own is decorated by :func:`rlfast.policy.components.overrides.replaceable`, and
    makes its critics and their target networks after this constructor.

    :param actor: called as ``actor(obs, state=..., info=...)``.
    :param actor_optim: optimizes ``actor``: an optimizer, a factory, or None for a policy that only acts.
    :param action_space: of one environment, a Box.
    :param tau: size of the steps of target networks towards the trained ones, in [0, 1].
    :param gamma: discount of future rewards, in [0, 1].
    :param estimation_step: the largest number of steps to sum rewards over.
    :param exploration_noise: added to actions where collectors ask for noise; ``"default"`` for normal noise of 0.1.
    :param action_bound_method: ``"clip"`` or None.
    :param options: of :class:`rlfast.policy.BasePolicy`.
    :raises ValueError: for another kind of action space, or another ``action_bound_method``.
    """

    def __init__(
        self,
        *,
        actor: nn.Module,
        actor_optim: torch.optim.Optimizer | OptimizerFactory | None,
        action_space: "Box[Any]",
        tau: float,
        gamma: float,
        estimation_step: int,
        exploration_noise: BaseNoise | Literal["default"] | None,
        action_bound_method: Literal["clip"] | None,
        **options: Any,
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
            action_bound_method=action_bound_method,
            **options,
        )
        self._act_shape = action_space.shape
        self.actor = actor
        self.actor_optim = make_optimizer(actor_optim, actor.parameters())
        self.tau = tau
        self.set_exp_noise(GaussianNoise(sigma=0.1) if exploration_noise == "default" else exploration_noise)

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation mode for the trained networks; others that a subclass has keep theirs."""
        self.training = mode
        for network in (self.actor, *self.critics):
            network.train(mode)
        return self

    # -- exploration ---------------------------------------------------------------------------------------------------

    def set_exp_noise(self, noise: Callable[[Sequence[int]], NDArray[Any]] | None) -> None:
        """Set the exploration noise, which collectors with noise add to actions; None for no noise.

        :param noise: a :class:`rlfast.exploration.BaseNoise`, or any function of the actions' shape.
        """
        check_function("exploration_noise", noise, optional=True)
        self._exploration_noise = noise

    def exploration_noise(
        self,
        act: Any,
        batch: Any,  # noqa: ARG002 (for overrides that depend on observations)
    ) -> Any:
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
        """Return None for no noise; see :meth:`rlfast.policy.ActingPolicy.native_exploration`.

        :raises NotNativeError: there is noise.
        """
        replaced = type(self).exploration_noise is not ActorCriticLearner.exploration_noise
        if self._exploration_noise is not None or replaced or "exploration_noise" in vars(self):
            raise NotNativeError("noise is added to actions in Python")

    def start_episodes(self, rows: NDArray[np.bool_]) -> None:
        """Let the noise start anew in rows whose next action is the first of an episode; collectors call this.

        :param rows: ``[B]``, for the rows of the last call of :meth:`exploration_noise`.
        """
        if isinstance(self._exploration_noise, BaseNoise):
            self._exploration_noise.start_episodes(rows)

    # -- learning ------------------------------------------------------------------------------------------------------

    @property
    def acting_network(self) -> nn.Module:
        """The actor."""
        return self.actor

    def inputs(self, obs: Any) -> Any:
        """Return observations as tensors; foreign networks get them as buffers return them."""
        if isinstance(obs, Sequences):
            return obs
        known = self._compiled is not None or self._known_networks(self.actor, *self.critics)
        return to_torch(obs, device=self._device) if known else obs

    def actions(self, act: Any, device: torch.device) -> torch.Tensor:
        """Return stored actions as tensors of the actor's dtype."""
        return cast("torch.Tensor", to_torch(act, self._dtype, device))

    def _set_td_error(self, batch: Any, error_B: torch.Tensor) -> None:
        """Set ``td_error`` for priorities, and ``weight``, which is its name in Tianshou, with Tianshou's sign."""
        batch.td_error, batch.weight = error_B, -error_B

    @property
    def _dtype(self) -> torch.dtype:
        return dtype_of(self.actor)
