import math
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import gymnasium as gym
import torch
from gymnasium.spaces import Box
from numpy.typing import NDArray
from torch import nn

from rlfast.data import to_torch
from rlfast.data.batch import wrap
from rlfast.exploration import BaseNoise, GaussianNoise
from rlfast.functional.distributions import SquashedNormal
from rlfast.functional.losses import bootstrapped_return, soft_value, squared_loss
from rlfast.policy._alpha import Alpha, AutoAlpha, make_alpha
from rlfast.policy._checks import check_gamma, check_networks, check_output
from rlfast.policy._compiled import with_nstep_parts
from rlfast.policy._hidden import add_stored_state, stored_state
from rlfast.policy.base import BasePolicy, Index, TLearningRateScheduler, TrainingStats
from rlfast.utils.checks import check_instance, check_integer, check_number
from rlfast.utils.net.common import device_of
from rlfast.utils.optim import OptimizerFactory, clone_optimizer, make_optimizer, optim_step

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


class SACPolicy(BasePolicy):
    r"""Soft actor-critic (Haarnoja et al., arXiv:1812.05905) with a squashed normal policy.

    .. math::
        y &= \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k \Bigl(\min_j Q^-_j(s_{t+k}, a') - \alpha \log\pi(a' \mid
            s_{t+k})\Bigr), \quad a' \sim \pi \\
        L(Q_j) &= \frac1B \sum w\, \bigl(y - Q_j(s_t, a_t)\bigr)^2 \\
        L(\pi) &= \frac1B \sum \alpha \log\pi(a \mid s_t) - \min_j Q_j(s_t, a), \quad a \sim \pi \\
        Q^-_j &\leftarrow Q^-_j + \tau\,(Q_j - Q^-_j)

    :param actor: called as ``actor(obs, state=..., info=...)``; gives means and standard deviations before squashing,
        and the next hidden state, as :class:`rlfast.utils.net.continuous.ActorProb` with ``unbounded=True`` and
        ``conditioned_sigma=True`` does.
    :param actor_optim: optimizes ``actor``: an optimizer, or a factory such as :func:`rlfast.utils.optim.adam`.
    :param critic: called as ``critic(obs, act)``; gives ``[B, 1]``.
    :param critic_optim: optimizes ``critic``, likewise.
    :param action_space: of one environment, a Box.
    :param critic2: the second critic; None for one like the first, with parameters of its own. Default: None.
    :param critic2_optim: optimizes ``critic2``; None, without a ``critic2``, for one like that of the first.
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
    :raises ValueError: for a value out of range, another kind of action space, an actor of another width, or one of
        ``critic2`` and ``critic2_optim`` without the other.

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

    def __init__(
        self,
        *,
        actor: nn.Module,
        actor_optim: torch.optim.Optimizer | OptimizerFactory,
        critic: nn.Module,
        critic_optim: torch.optim.Optimizer | OptimizerFactory,
        action_space: "Box[Any]",
        critic2: nn.Module | None = None,
        critic2_optim: torch.optim.Optimizer | OptimizerFactory | None = None,
        tau: float = 0.005,
        gamma: float = 0.99,
        alpha: float | tuple[float, torch.Tensor, torch.optim.Optimizer] | Alpha = 0.2,
        estimation_step: int = 1,
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
        check_number("tau", tau)
        check_integer("estimation_step", estimation_step)
        if not 0 <= tau <= 1:
            raise ValueError(f"tau must be in [0, 1], got {tau}")
        if estimation_step < 1:
            raise ValueError(f"estimation_step must be 1 or more, got {estimation_step}")
        if (critic2 is None) != (critic2_optim is None):
            raise ValueError("give critic2 and critic2_optim together, or neither for a critic like the first")
        check_gamma("gamma", gamma)
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
        if critic2_optim is None:
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
    def alpha(self) -> float:
        """The temperature now."""
        return self.temperature.value.item()

    @property
    def is_auto_alpha(self) -> bool:
        """Whether the temperature is learned."""
        return isinstance(self.temperature, AutoAlpha)

    def set_exp_noise(self, noise: BaseNoise | None) -> None:
        """Set what is added to actions where collectors ask for noise; None for nothing."""
        check_instance("exploration_noise", noise, BaseNoise, optional=True)
        self._noise = noise

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
            distribution; ``logits``, what the actor gave; ``state``, the next hidden state.
        """
        logits, hidden = self.actor(batch.obs, state=state, info=batch.info)
        dist = SquashedNormal(*logits)
        zero = self.deterministic_eval and not self.training
        act, log_prob = dist.with_log_prob(torch.zeros_like(logits[0]) if zero else torch.randn_like(logits[0]))
        act = act.reshape(len(act), *self._act_shape)
        fields = {"logits": logits, "act": act, "state": hidden, "dist": dist, "log_prob": log_prob[:, None]}
        return cast("DistLogProbBatchProtocol", wrap(fields))

    def exploration_noise(
        self,
        act: NDArray[Any],
        batch: "ObsBatchProtocol",  # noqa: ARG002 (for those who explore by what they see)
    ) -> NDArray[Any]:
        """Add the noise that was set, if any; not changed is ``act`` itself.

        :param act: ``[B, *shape]``.
        :param batch: what they were chosen for.
        """
        return act if self._noise is None else (act + self._noise(act.shape)).astype(act.dtype)

    # -- learning ------------------------------------------------------------------------------------------------------

    def process_fn(
        self, batch: "RolloutBatchProtocol", buffer: "ReplayBuffer", indices: Index
    ) -> "BatchWithReturnsProtocol":
        """Add n-step returns, ``[B, 1]``; see :meth:`BasePolicy.compute_nstep_return`."""

        def target_q(buffer: "ReplayBuffer", last: Index) -> torch.Tensor:
            obs_next = batch.obs_next if self.estimation_step == 1 else buffer.get(last, "obs_next")
            state = stored_state(batch, buffer, last, after=self._state_after)
            return self._next_value(to_torch(obs_next, device=self._device), self._draw(len(last)), state)

        if self._compiled is not None:
            return with_nstep_parts(batch, buffer, indices, self.gamma, self.estimation_step)
        add_stored_state(batch, buffer, indices)
        return self.compute_nstep_return(batch, buffer, indices, target_q, self.gamma, self.estimation_step)

    def learn(self, batch: "RolloutBatchProtocol", *args: Any, **kwargs: Any) -> SACTrainingStats:  # noqa: ARG002
        """Do one gradient step for each network, and one for the target critics.

        :param batch: a sample with ``returns``; ``td_error``, ``[B]``, the mean of both critics', is added to it.
        """
        device = self._device
        obs, act = to_torch(batch.obs, device=device), to_torch(batch.act, torch.float32, device)
        weight_B = to_torch(batch.weight, torch.float32, device) if "weight" in batch else None
        if self._compiled is not None:
            parts = [to_torch(batch[name], device=device) for name in ("obs_next", "reward_sum", "discount")]
            noise_next, noise = self._draw(len(act)), self._draw(len(act))  # in the order of process_fn and learn
            losses, batch.td_error = self._compiled(obs, act, *parts, weight_B, noise_next, noise)
        else:
            returns_B, noise = to_torch(batch.returns, torch.float32, device).flatten(), self._draw(len(act))
            losses, batch.td_error = self._gradient_steps(obs, batch.get("state"), act, returns_B, weight_B, noise)
        actor_loss, critic1_loss, critic2_loss, alpha, *alpha_loss = torch.stack(losses).tolist()
        return SACTrainingStats(
            actor_loss=actor_loss,
            critic1_loss=critic1_loss,
            critic2_loss=critic2_loss,
            alpha=alpha,
            alpha_loss=alpha_loss[0] if alpha_loss else None,
        )

    def _gradient_steps(
        self,
        obs: Any,
        state: Any,
        act: torch.Tensor,
        returns_B: torch.Tensor,
        weight_B: torch.Tensor | None,
        noise: torch.Tensor,
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        td1_B = returns_B - self.critic(obs, act).flatten()
        critic1_loss = squared_loss(td1_B, weight_B)
        optim_step(critic1_loss, self.critic_optim)
        td2_B = returns_B - self.critic2(obs, act).flatten()
        critic2_loss = squared_loss(td2_B, weight_B)
        optim_step(critic2_loss, self.critic2_optim)

        new_act, log_prob_B = self._act(obs, noise, state)
        actor_loss = -self._soft_value(self.critic, self.critic2, obs, new_act, log_prob_B).mean()
        optim_step(actor_loss, self.actor_optim)

        alpha_loss = self.temperature.learn(log_prob_B)
        self.sync_weight()
        losses = [actor_loss, critic1_loss, critic2_loss, self.temperature.value.reshape(())]
        losses += [] if alpha_loss is None else [alpha_loss]
        return [loss.detach() for loss in losses], (td1_B + td2_B).detach() / 2

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
        return self._gradient_steps(obs, None, act, returns_B, weight_B, noise)

    def _next_value(self, obs_next: Any, noise: torch.Tensor, state: Any) -> torch.Tensor:
        """Rate the observation after the last reward, ``[B]``."""
        act, log_prob_B = self._act(obs_next, noise, state)
        return self._soft_value(self.critic_old, self.critic2_old, obs_next, act, log_prob_B)

    def _state_after(self, obs: Any, state: Any) -> Any:
        return self.actor(to_torch(obs, device=self._device), state=state, info={})[1]

    def _act(self, obs: Any, noise: torch.Tensor, state: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Give random actions, in evaluation mode as well, and their log-probabilities."""
        logits, _ = self.actor(obs, state=state, info={})
        act, log_prob_B = SquashedNormal(*logits).with_log_prob(noise)
        return act.reshape(len(act), *self._act_shape), log_prob_B

    def _soft_value(
        self, critic: nn.Module, critic2: nn.Module, obs: Any, act: torch.Tensor, log_prob_B: torch.Tensor
    ) -> torch.Tensor:
        q1_B, q2_B = critic(obs, act).flatten(), critic2(obs, act).flatten()
        return soft_value(q1_B, q2_B, log_prob_B, self.temperature.value)

    def _draw(self, rows: int) -> torch.Tensor:
        """Draw the noise that makes actions of means and deviations."""
        return torch.randn(rows, math.prod(self._act_shape), device=self._device)

    @property
    def _device(self) -> torch.device:
        return device_of(self.actor) or torch.device("cpu")


def _another(critic: nn.Module) -> nn.Module:
    """Give a critic of the same structure with new parameters: twins that begin equal would stay equal."""
    other = deepcopy(critic)
    for layer in other.modules():
        if callable(reset := getattr(layer, "reset_parameters", None)):
            reset()
    return other
