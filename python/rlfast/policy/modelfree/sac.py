from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import gymnasium as gym
import torch
from gymnasium.spaces import Box
from torch import nn

from rlfast.exploration import BaseNoise
from rlfast.policy.base import TLearningRateScheduler, TrainingStats
from rlfast.policy.components.temperature import Alpha
from rlfast.policy.learners.soft_learner import SoftActorCritic
from rlfast.policy.modelfree.ddpg import DDPGPolicy
from rlfast.utils.arguments.validation import PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.optim import OptimizerFactory


@dataclass(kw_only=True)
class SACTrainingStats(TrainingStats):
    """The statistics of one update of SAC: losses before their steps, and the temperature after its own."""

    actor_loss: float
    critic1_loss: float
    critic2_loss: float
    alpha: float | None = None
    alpha_loss: float | None = None
    """None for a fixed temperature."""


TSACTrainingStats = TypeVar("TSACTrainingStats", bound=SACTrainingStats)


@DDPGPolicy.register
class SACPolicy(SoftActorCritic):
    r"""Soft actor-critic (Haarnoja et al., arXiv:1812.05905) with a squashed normal policy.

    .. math::
        y &= \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k \Bigl(\min_j Q^-_j(s_{t+k}, a') - \alpha \log\pi(a' \mid
            s_{t+k})\Bigr), \quad a' \sim \pi \\
        L(Q_j) &= \frac1B \sum w\, \bigl(y - Q_j(s_t, a_t)\bigr)^2 \\
        L(\pi) &= \frac1B \sum \alpha \log\pi(a \mid s_t) - \min_j Q_j(s_t, a), \quad a \sim \pi \\
        Q^-_j &\leftarrow Q^-_j + \tau\,(Q_j - Q^-_j)

    If a subclass or an assignment replaces :meth:`forward`, ``_target_q(buffer, indices)`` or ``_mse_optimizer(batch,
    critic, optimizer)``, or there are hooks, learning calls these methods.

    :param actor: called as ``actor(obs, state=..., info=...)``; returns means and standard deviations before squashing,
        and the next hidden state, as :class:`rlfast.utils.net.continuous.ActorProb` with ``unbounded=True`` and
        ``conditioned_sigma=True`` does.
    :param actor_optim: an optimizer of ``actor``, or a factory such as :func:`rlfast.utils.optim.adam`; None, as for
        the critics', for a policy that only acts.
    :param critic: called as ``critic(obs, act)``; returns ``[B, 1]``.
    :param critic_optim: an optimizer of ``critic``, or a factory.
    :param action_space: action space of one environment, a Box.
    :param critic2: the second critic; None for a copy of the first with new parameters. Default: None.
    :param critic2_optim: an optimizer of ``critic2``; None for one like that of the first. Default: None.
    :param tau: :math:`\tau`, the size of the steps of target networks, in [0, 1]. Default: 0.005.
    :param gamma: discount of future rewards, in [0, 1]. Default: 0.99.
    :param alpha: :math:`\alpha`: a number, a triple ``(target_entropy, log_alpha, optim)`` for one that is learned, or
        a :class:`FixedAlpha` or :class:`AutoAlpha`. Default: 0.2.
    :param estimation_step: the largest k, the number of steps to sum rewards over. Default: 1.
    :param exploration_noise: noise that collectors add to actions on request; ``"default"`` for normal
        noise of 0.1. Default: None, as its random actions explore.
    :param deterministic_eval: whether the policy takes its mean in evaluation mode. Default: True.
    :param action_scaling: whether actions are stretched to the bounds of the Box. Default: True.
    :param action_bound_method: ``"clip"`` (default) or None, for actions that noise may have moved out of [-1, 1].
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param lr_scheduler: a schedule that takes a step after each update. Default: None.
    :param compile: whether a whole update is compiled into one graph; see :class:`DQNPolicy`. Default: False.
    :raises ValueError: for a value out of range, another kind of action space, an actor of another width, or an
        optimizer for a ``critic2`` that is not given.

    >>> from rlfast.data import Batch
    >>> from rlfast.policy import AutoAlpha
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.net.continuous import ActorProb, Critic
    >>> from rlfast.utils.optim import adam
    >>> actor = ActorProb(Net(3, hidden_sizes=[64]), 1, unbounded=True, conditioned_sigma=True)
    >>> critic, optim = Critic(Net(3, 1, hidden_sizes=[64], concat=True)), adam(3e-4)
    >>> nets = {"actor": actor, "critic": critic, "actor_optim": optim, "critic_optim": optim}
    >>> policy = SACPolicy(**nets, action_space=Box(-2.0, 2.0), alpha=AutoAlpha(-1.0, 0.0, optim))
    >>> policy(Batch(obs=torch.zeros(5, 3), info={})).act.shape
    torch.Size([5, 1])
    """

    stats_class = SACTrainingStats
    learns_from_sequences = True
    critic_names = lagged_names = ("critic", "critic2")

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
        super().__init__(
            actor=actor,
            actor_optim=actor_optim,
            action_space=action_space,
            tau=tau,
            gamma=gamma,
            estimation_step=estimation_step,
            exploration_noise=exploration_noise,
            action_scaling=action_scaling,
            action_bound_method=action_bound_method,
            observation_space=observation_space,
            lr_scheduler=lr_scheduler,
        )
        self.add_critics(critic, critic_optim, critic2, critic2_optim)
        self.set_temperature(alpha)
        self.deterministic_eval = deterministic_eval
        self.compile_update(compile, actor, critic, self.critic2)

    def target_value(self, obs_next: Any, act: torch.Tensor, *draws: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Return the smaller value by the target critics, ``[B]``."""
        return torch.minimum(*self.critic_values(obs_next, act, old=True))

    def actor_value(self, obs: Any, act: torch.Tensor) -> torch.Tensor:
        """Return the smaller value by both critics, ``[B]``."""
        return torch.minimum(*self.critic_values(obs, act))
