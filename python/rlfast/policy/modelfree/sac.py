import math
import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Box
from numpy.typing import NDArray
from torch import nn

from rlfast.data import Batch, to_torch, to_torch_as
from rlfast.data.batch.batch import wrap
from rlfast.exploration import BaseNoise, GaussianNoise
from rlfast.functional.distributions import SquashedNormal
from rlfast.functional.losses import bootstrapped_return, soft_value, squared_loss
from rlfast.policy._alpha import Alpha, AutoAlpha, make_alpha
from rlfast.policy._checks import check_networks, check_output
from rlfast.policy._compiled import with_nstep_parts
from rlfast.policy._hidden import add_stored_state, stored_state
from rlfast.policy._replaced import stock
from rlfast.policy.base import BasePolicy, Index, TLearningRateScheduler, TrainingStats
from rlfast.utils.checks import check_function
from rlfast.utils.net.common import device_of, dtype_of
from rlfast.utils.optim import OptimizerFactory, clone_optimizer, descend, make_optimizer
from rlfast.utils.validation import PositiveInt, UnitFloat, validate_arguments

if TYPE_CHECKING:
    from rlfast.data import ReplayBuffer
    from rlfast.data.types import (
        BatchWithReturnsProtocol,
        DistLogProbBatchProtocol,
        ObsBatchProtocol,
        RolloutBatchProtocol,
    )


@dataclass(kw_only=True)
class SACTrainingStats(TrainingStats):
    """What one update of soft actor-critic tells: losses before their steps, and the temperature after its own."""

    actor_loss: float
    critic1_loss: float
    critic2_loss: float
    alpha: float | None = None
    alpha_loss: float | None = None
    """None for a fixed temperature."""


TSACTrainingStats = TypeVar("TSACTrainingStats", bound=SACTrainingStats)


@stock("__call__", "forward", "_target_q", "_mse_optimizer")
class SACPolicy(BasePolicy):
    r"""Soft actor-critic (Haarnoja et al., arXiv:1812.05905) with a squashed normal policy.

    .. math::
        y &= \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k \Bigl(\min_j Q^-_j(s_{t+k}, a') - \alpha \log\pi(a' \mid
            s_{t+k})\Bigr), \quad a' \sim \pi \\
        L(Q_j) &= \frac1B \sum w\, \bigl(y - Q_j(s_t, a_t)\bigr)^2 \\
        L(\pi) &= \frac1B \sum \alpha \log\pi(a \mid s_t) - \min_j Q_j(s_t, a), \quad a \sim \pi \\
        Q^-_j &\leftarrow Q^-_j + \tau\,(Q_j - Q^-_j)

    A subclass that overrides :meth:`forward`, ``_target_q(buffer, indices)`` or ``_mse_optimizer(batch, critic,
    optimizer)`` learns through them, and so does a policy to which hooks or a method of its own are given.

    :param actor: called as ``actor(obs, state=..., info=...)``; gives means and standard deviations before squashing,
        and the next hidden state, as :class:`rlfast.utils.net.continuous.ActorProb` with ``unbounded=True`` and
        ``conditioned_sigma=True`` does.
    :param actor_optim: optimizes ``actor``: an optimizer, or a factory such as :func:`rlfast.utils.optim.adam`; None,
        as for the critics', for a policy that only acts.
    :param critic: called as ``critic(obs, act)``; gives ``[B, 1]``.
    :param critic_optim: optimizes ``critic``, likewise.
    :param action_space: of one environment, a Box.
    :param critic2: the second critic; None for one like the first, with parameters of its own. Default: None.
    :param critic2_optim: optimizes ``critic2``; None for one like that of the first. Default: None.
    :param tau: :math:`\tau`, in [0, 1]. Default: 0.005.
    :param gamma: discount, in [0, 1]. Default: 0.99.
    :param alpha: :math:`\alpha`: a number, a triple ``(target_entropy, log_alpha, optim)`` for one that is learned, or
        a :class:`FixedAlpha` or :class:`AutoAlpha`. Default: 0.2.
    :param estimation_step: most steps to sum rewards over, k at most. Default: 1.
    :param exploration_noise: added to actions where collectors ask for noise; ``"default"`` for normal noise of 0.1.
        Default: None, as the policy explores by itself.
    :param deterministic_eval: whether the policy takes its mean in evaluation mode. Default: True.
    :param action_scaling: whether actions are stretched to the bounds of the Box. Default: True.
    :param action_bound_method: ``"clip"`` (default) or None, for actions that noise has moved out of [-1, 1].
    :param observation_space: of one environment, kept for reference. Default: None.
    :param lr_scheduler: takes a step after each update. Default: None.
    :param compile: whether a whole update becomes one graph; see :class:`DQNPolicy`. Default: False.
    :raises ValueError: for a value out of range, another kind of action space, an actor of another width, or an
        optimizer for a ``critic2`` that is not given.

    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.net.continuous import ActorProb, Critic
    >>> from rlfast.utils.optim import adam
    >>> policy = SACPolicy(
    ...     actor=ActorProb(Net(3, hidden_sizes=[64]), 1, unbounded=True, conditioned_sigma=True),
    ...     actor_optim=adam(3e-4),
    ...     critic=Critic(Net(3, 1, hidden_sizes=[64], concat=True)),
    ...     critic_optim=adam(3e-4),
    ...     action_space=Box(-2.0, 2.0),
    ...     alpha=AutoAlpha(target_entropy=-1.0, log_alpha=0.0, optim=adam(3e-4)),
    ... )
    >>> policy(Batch(obs=torch.zeros(5, 3), info={})).act.shape
    torch.Size([5, 1])
    """

    @validate_arguments
    def __init__(
        self,
        *,
        actor: nn.Module,
        actor_optim: torch.optim.Optimizer | OptimizerFactory | None,
        critic: nn.Module,
        critic_optim: torch.optim.Optimizer | OptimizerFactory | None,
        action_space: "Box[Any]",
        critic2: nn.Module | None = None,
        critic2_optim: torch.optim.Optimizer | OptimizerFactory | None = None,
        tau: UnitFloat = 0.005,
        gamma: UnitFloat = 0.99,
        alpha: float | tuple[float, torch.Tensor, torch.optim.Optimizer] | Alpha = 0.2,
        estimation_step: PositiveInt = 1,
        exploration_noise: BaseNoise | Literal["default"] | None = None,
        deterministic_eval: bool = True,
        action_scaling: bool = True,
        action_bound_method: Literal["clip"] | None = "clip",
        observation_space: gym.Space[Any] | None = None,
        lr_scheduler: TLearningRateScheduler | None = None,
        compile: bool = False,
    ) -> None:
        if not isinstance(action_space, Box):
            raise ValueError(f"SAC needs a Box action space, got {action_space}")
        if action_bound_method not in ("clip", None):
            raise ValueError(
                f'action_bound_method must be "clip" or None, got {action_bound_method!r}: SAC squashes actions itself'
            )
        check_networks(actor=actor, critic=critic, critic2=critic if critic2 is None else critic2)
        if critic2 is None and isinstance(critic2_optim, torch.optim.Optimizer):
            raise ValueError(
                "critic2_optim holds no parameters of the critic2 that is made here: give both, or neither"
            )
        check_output(actor, action_space)
        super().__init__(
            action_space=action_space,
            observation_space=observation_space,
            action_scaling=action_scaling,
            action_bound_method=action_bound_method,
            lr_scheduler=lr_scheduler,
        )
        self._act_shape = action_space.shape
        self.actor, self.critic = actor, critic
        self.actor_optim = make_optimizer(actor_optim, actor.parameters())
        self.critic_optim = make_optimizer(critic_optim, critic.parameters())
        self.critic2 = _another(critic) if critic2 is None else critic2
        if critic2_optim is None and self.critic_optim is not None:
            critic2_optim = clone_optimizer(self.critic_optim, self.critic2.parameters())
        self.critic2_optim = make_optimizer(critic2_optim, self.critic2.parameters())
        self.critic_old, self.critic2_old = self.lagged_copy(critic), self.lagged_copy(self.critic2)
        self.temperature = make_alpha(alpha)
        if isinstance(self.temperature, AutoAlpha):
            self.alpha_optim = self.temperature.optim
        self.tau = tau
        self.gamma = gamma
        self.estimation_step = estimation_step
        self.deterministic_eval = deterministic_eval
        self._compiled = self.compiled(self._whole_update, actor, critic, self.critic2) if compile else None
        self.set_exp_noise(GaussianNoise(sigma=0.1) if exploration_noise == "default" else exploration_noise)

    @property
    def alpha(self) -> float | torch.Tensor:
        """The temperature now: a number if it is fixed, a tensor like ``log_alpha`` if it is learned."""
        value = self.temperature.value
        return value if self.is_auto_alpha else value.item()

    @alpha.setter
    def alpha(self, value: float | torch.Tensor) -> None:
        self.temperature.assign(value)

    @property
    def is_auto_alpha(self) -> bool:
        """Whether the temperature is learned."""
        return isinstance(self.temperature, AutoAlpha)

    @property
    def log_alpha(self) -> torch.Tensor:
        """The logarithm of a learned temperature: the tensor that its optimizer holds."""
        return self._learned_alpha().log_alpha

    @property
    def target_entropy(self) -> float:
        """The entropy that a learned temperature aims at."""
        return self._learned_alpha().target_entropy

    @target_entropy.setter
    def target_entropy(self, value: float) -> None:
        self._learned_alpha().target_entropy = float(value)

    def _learned_alpha(self) -> AutoAlpha:
        if not isinstance(self.temperature, AutoAlpha):
            raise AttributeError("alpha is fixed: it has neither a logarithm nor a target")
        return self.temperature

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation mode for the trained networks; others that a subclass has keep theirs."""
        self.training = mode
        for network in (self.actor, self.critic, self.critic2):
            network.train(mode)
        return self

    def set_exp_noise(self, noise: Callable[[Sequence[int]], NDArray[Any]] | None) -> None:
        """Set what is added to actions where collectors ask for noise; None for nothing.

        :param noise: a :class:`rlfast.exploration.BaseNoise`, or any function of the actions' shape.
        """
        check_function("exploration_noise", noise, optional=True)
        self._exploration_noise = noise

    def sync_weight(self) -> None:
        """Move the target critics a step towards the trained ones."""
        self.soft_update(self.critic_old, self.critic, self.tau)
        self.soft_update(self.critic2_old, self.critic2, self.tau)

    # -- acting --------------------------------------------------------------------------------------------------------

    def forward(
        self,
        batch: "ObsBatchProtocol",
        state: Any = None,
        **kwargs: Any,  # noqa: ARG002 (given by callers that serve other policies as well)
    ) -> "DistLogProbBatchProtocol":
        """Choose actions: at random, or the mean in evaluation mode with ``deterministic_eval``.

        :param batch: has ``obs`` and ``info``.
        :param state: hidden state of the actor.
        :return: ``act``, ``[B, *shape]`` in [-1, 1]; ``log_prob``, ``[B, 1]``; ``dist``, the squashed normal
            distribution; ``logits``, means and deviations, ``[2, B, size]``; ``state``, the next hidden state.
        """
        logits, hidden = self.actor(batch.obs, state=state, info=batch.info)
        dist = SquashedNormal(*logits)
        zero = self.deterministic_eval and not self.training
        act, log_prob = dist.with_log_prob(torch.zeros_like(logits[0]) if zero else self._draw_like(logits[0]))
        act = act.reshape(len(act), *self._act_shape)
        fields = {
            "logits": torch.stack(logits),
            "act": act,
            "state": hidden,
            "dist": dist,
            "log_prob": log_prob[:, None],
        }
        return cast("DistLogProbBatchProtocol", wrap(fields))

    def exploration_noise(
        self,
        act: Any,
        batch: "ObsBatchProtocol",  # noqa: ARG002 (for those who explore by what they see)
    ) -> Any:
        """Add the noise that was set, if any; not changed is ``act`` itself.

        :param act: ``[B, *shape]``.
        :param batch: what they were chosen for.
        """
        if self._exploration_noise is None:
            return act
        if not isinstance(act, np.ndarray):
            warnings.warn(f"noise is added to arrays, not to a {type(act).__name__}: it is left out", stacklevel=2)
            return act
        noisy: NDArray[Any] = (act + self._exploration_noise(act.shape)).astype(act.dtype)
        return noisy

    # -- learning ------------------------------------------------------------------------------------------------------

    def process_fn(
        self, batch: "RolloutBatchProtocol", buffer: "ReplayBuffer", indices: Index
    ) -> "BatchWithReturnsProtocol":
        """Add n-step returns, ``[B, 1]``; see :meth:`BasePolicy.compute_nstep_return`."""
        if self._compiled is not None:
            self.check_graph_is_stock()
            return with_nstep_parts(batch, buffer, indices, self.gamma, self.estimation_step)
        add_stored_state(batch, buffer, indices)
        target_q = self._target_q if self.is_replaced("_target_q") else partial(self._value_after, batch)
        return self.compute_nstep_return(batch, buffer, indices, target_q, self.gamma, self.estimation_step)

    def _target_q(self, buffer: "ReplayBuffer", indices: Index) -> torch.Tensor:
        """Rate the observation after each of some rows, ``[B]``; the method that subclasses override."""
        return self._value_after(None, buffer, indices)

    def _value_after(self, batch: "RolloutBatchProtocol | None", buffer: "ReplayBuffer", last: Index) -> torch.Tensor:
        """Rate the observation after each of some rows, ``[B]``.

        :param batch: the sample that the rows belong to, whose next observations spare looking for them.
        """
        rows: Any = buffer[last] if batch is None else batch
        obs_next = rows.obs_next if batch is None or self.estimation_step == 1 else buffer.get(last, "obs_next")
        state = stored_state(rows, buffer, last, after=self._state_after)
        if self._asks_itself():
            act, log_prob_B = self._asked_act(Batch(obs=obs_next, info=[None] * len(last)), state)
            return self._soft_value(self.critic_old, self.critic2_old, obs_next, act, log_prob_B)
        return self._next_value(self._inputs(obs_next), self._draw(len(last)), state)

    def learn(self, batch: "RolloutBatchProtocol", *args: Any, **kwargs: Any) -> SACTrainingStats:  # noqa: ARG002
        """Do one gradient step for each network, and one for the target critics.

        :param batch: a sample with ``returns``; ``td_error``, ``[B]``, the mean of both critics', is added to it.
        """
        device = self._device
        obs, act = self._inputs(batch.obs), to_torch(batch.act, self._dtype, device)
        weight_B = to_torch(batch.weight, torch.float32, device) if "weight" in batch else None
        if self._compiled is not None:
            parts = [to_torch(batch[name], device=device) for name in ("obs_next", "reward_sum", "discount")]
            noise_next, noise = self._draw(len(act)), self._draw(len(act))  # in the order of process_fn and learn
            losses, batch.td_error = self._compiled(obs, act, *parts, weight_B, noise_next, noise)
        else:
            losses, batch.td_error = self._learn_step_by_step(batch, obs, act, weight_B)
        batch.weight = -batch.td_error  # under the name, and with the sign, that Tianshou gives errors
        actor_loss, critic1_loss, critic2_loss, alpha, *alpha_loss = torch.stack(losses).tolist()
        return SACTrainingStats(
            actor_loss=actor_loss,
            critic1_loss=critic1_loss,
            critic2_loss=critic2_loss,
            alpha=alpha,
            alpha_loss=alpha_loss[0] if alpha_loss else None,
        )

    def _learn_step_by_step(
        self, batch: Any, obs: Any, act: torch.Tensor, weight_B: torch.Tensor | None
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        asked = self._asks_itself()
        noise = None if asked else self._draw(len(act))
        if self.is_replaced("_mse_optimizer"):
            td1, critic1_loss = self._mse_optimizer(batch, self.critic, self.critic_optim)
            td2, critic2_loss = self._mse_optimizer(batch, self.critic2, self.critic2_optim)
            critic_losses, error_B = [critic1_loss.detach(), critic2_loss.detach()], -(td1 + td2).detach().flatten() / 2
        else:
            returns_B = to_torch(batch.returns, self._dtype, self._device).flatten()
            critic_losses, error_B = self._critic_steps(obs, act, returns_B, weight_B)
        state = batch.get("state")
        new_act, log_prob_B = self._asked_act(batch, state) if noise is None else self._act(obs, noise, state)
        return self._actor_steps(obs, new_act, log_prob_B, critic_losses), error_B

    @staticmethod
    def _mse_optimizer(
        batch: Any, critic: nn.Module, optimizer: torch.optim.Optimizer
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Do one gradient step for a critic; the method that subclasses override.

        :return: the errors, value minus return, ``[B]``, and the loss before the step.
        """
        value = critic(batch.obs, batch.act).flatten()
        error = value - to_torch_as(batch.returns, value).flatten()
        weight = to_torch_as(batch.weight, value) if "weight" in batch else None
        loss = squared_loss(error, weight)
        descend(loss, optimizer)
        return error, loss

    def _critic_steps(
        self, obs: Any, act: torch.Tensor, returns_B: torch.Tensor, weight_B: torch.Tensor | None
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        td1_B = returns_B - self.critic(obs, act).flatten()
        critic1_loss = squared_loss(td1_B, weight_B)
        descend(critic1_loss, self.critic_optim)
        td2_B = returns_B - self.critic2(obs, act).flatten()
        critic2_loss = squared_loss(td2_B, weight_B)
        descend(critic2_loss, self.critic2_optim)
        return [critic1_loss.detach(), critic2_loss.detach()], (td1_B + td2_B).detach() / 2

    def _actor_steps(
        self, obs: Any, new_act: torch.Tensor, log_prob_B: torch.Tensor, critic_losses: list[torch.Tensor]
    ) -> list[torch.Tensor]:
        actor_loss = -self._soft_value(self.critic, self.critic2, obs, new_act, log_prob_B).mean()
        descend(actor_loss, self.actor_optim)
        alpha_loss = self.temperature.learn(log_prob_B)
        self.sync_weight()
        losses = [actor_loss.detach(), *critic_losses, self.temperature.value.reshape(())]
        return losses if alpha_loss is None else [*losses, alpha_loss]

    def _whole_update(
        self,
        obs: torch.Tensor,
        act: torch.Tensor,
        obs_next: torch.Tensor,
        reward_sum_B: torch.Tensor,
        discount_B: torch.Tensor,
        weight_B: torch.Tensor | None,
        noise_next: torch.Tensor,
        noise: torch.Tensor,
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Do as one graph what :meth:`process_fn` and :meth:`learn` do in turn."""
        with torch.no_grad():
            value_B = self._next_value(obs_next, noise_next, None)
            returns_B = bootstrapped_return(reward_sum_B.to(value_B.dtype), discount_B.to(value_B.dtype), value_B)
        critic_losses, error_B = self._critic_steps(obs, act, returns_B, weight_B)
        new_act, log_prob_B = self._act(obs, noise, None)
        return self._actor_steps(obs, new_act, log_prob_B, critic_losses), error_B

    def _next_value(self, obs_next: Any, noise: torch.Tensor, state: Any) -> torch.Tensor:
        """Rate the observation after the last reward, ``[B]``."""
        act, log_prob_B = self._act(obs_next, noise, state)
        return self._soft_value(self.critic_old, self.critic2_old, obs_next, act, log_prob_B)

    def _state_after(self, obs: Any, state: Any) -> Any:
        return self.actor(self._inputs(obs), state=state, info={})[1]

    def _act(self, obs: Any, noise: torch.Tensor, state: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Give random actions, in evaluation mode as well, and their log-probabilities."""
        logits, _ = self.actor(obs, state=state, info={})
        act, log_prob_B = SquashedNormal(*logits).with_log_prob(noise)
        return act.reshape(len(act), *self._act_shape), log_prob_B

    def _asked_act(self, batch: Any, state: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Give actions and their log-probabilities through :meth:`forward`."""
        result: Any = self(batch, state)
        return result.act, result.log_prob.flatten()

    def _soft_value(
        self, critic: nn.Module, critic2: nn.Module, obs: Any, act: torch.Tensor, log_prob_B: torch.Tensor
    ) -> torch.Tensor:
        q1_B, q2_B = critic(obs, act).flatten(), critic2(obs, act).flatten()
        return soft_value(q1_B, q2_B, log_prob_B, self.temperature.value)

    def _inputs(self, obs: Any) -> Any:
        """Give observations as the networks take them: those of others are written for what buffers give."""
        known = self._compiled is not None or self._known_networks(self.actor, self.critic, self.critic2)
        return to_torch(obs, device=self._device) if known else obs

    def _draw(self, rows: int) -> torch.Tensor:
        """Draw the noise that makes actions of means and deviations."""
        return self.draw_normal((rows, math.prod(self._act_shape)), self._dtype, self._device)

    def _draw_like(self, mean: torch.Tensor) -> torch.Tensor:
        return self.draw_normal(tuple(mean.shape), mean.dtype, mean.device)

    @property
    def _device(self) -> torch.device:
        return device_of(self.actor) or torch.device("cpu")

    @property
    def _dtype(self) -> torch.dtype:
        return dtype_of(self.actor)


def _another(critic: nn.Module) -> nn.Module:
    """Give a critic of the same structure with new parameters: twins that begin equal would stay equal."""
    other = deepcopy(critic)
    for layer in other.modules():
        if callable(reset := getattr(layer, "reset_parameters", None)):
            reset()
    return other
