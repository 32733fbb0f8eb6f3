from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import gymnasium as gym
import torch
from gymnasium.spaces import Box
from torch import nn

from rlfast.exploration import BaseNoise
from rlfast.policy.base import TLearningRateScheduler
from rlfast.policy.components.temperature import Alpha
from rlfast.policy.learners.soft_learner import SoftActorCritic
from rlfast.policy.modelfree.ddpg import DDPGPolicy, DDPGTrainingStats
from rlfast.utils.arguments.validation import PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.optim import OptimizerFactory


@dataclass(kw_only=True)
class REDQTrainingStats(DDPGTrainingStats):
    """The statistics of one update of REDQ: losses before their steps, and the temperature after its own."""

    actor_loss: float
    """Of the newest step of the actor; 0 before the first."""
    critic_loss: float
    alpha: float | None = None
    alpha_loss: float | None = None
    """Of its newest step; None before the first, and for a fixed temperature."""


TREDQTrainingStats = TypeVar("TREDQTrainingStats", bound=REDQTrainingStats)


@DDPGPolicy.register
class REDQPolicy(SoftActorCritic):
    r"""Randomized ensembled double Q-learning (Chen, Wang, Zhou and Ross, arXiv:2101.05982, algorithm 1).

    .. math::
        y &= \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k \Bigl(\min_{j \in \mathcal M} Q^-_j(s_{t+k}, a') -
            \alpha \log\pi(a' \mid s_{t+k})\Bigr), \quad a' \sim \pi \\
        L(Q) &= \frac1N \sum_{j=1}^N \frac1B \sum w\, \bigl(y - Q_j(s_t, a_t)\bigr)^2 \\
        L(\pi) &= \frac1B \sum \alpha \log\pi(a \mid s_t) - \frac1N \sum_{j=1}^N Q_j(s_t, a), \quad a \sim \pi

    with M critics of the N, drawn without replacement for each gradient step. The actor and the temperature move at
    every ``actor_delay``-th step. The paper does 20 gradient steps for each environment step (``update_per_step=20``).
    The critics are one ensemble, computed as one batched product, and targets take the time of M critics.

    :param actor: returns means and standard deviations before squashing, and the next hidden state; see
        :class:`SACPolicy`.
    :param actor_optim: an optimizer of ``actor``, or a factory such as :func:`rlfast.utils.optim.adam`; None, as for
        the critics', for a policy that only acts.
    :param critic: the ensemble, called as ``critic(obs, act)``; returns ``[ensemble_size, B, 1]``.
    :param critic_optim: an optimizer of ``critic``, or a factory.
    :param action_space: action space of one environment, a Box.
    :param ensemble_size: :math:`N`, 1 or more. Default: 10.
    :param subset_size: :math:`M`, from 1 to N. Default: 2.
    :param tau: share of the way that the target network goes in each step, in [0, 1]. Default: 0.005.
    :param gamma: discount of future rewards, in [0, 1]. Default: 0.99.
    :param alpha: :math:`\alpha`, fixed or learned, as :class:`SACPolicy` takes it. Default: 0.2.
    :param estimation_step: the largest k, the number of steps to sum rewards over. Default: 1.
    :param actor_delay: number of gradient steps of the critics for one of the actor. Default: 20.
    :param exploration_noise: noise that collectors add to actions; see :class:`SACPolicy`. Default: None.
    :param deterministic_eval: whether the policy takes its mean in evaluation mode. Default: True.
    :param target_mode: whether targets take the least value of the M critics, ``"min"`` (default), or the ``"mean"``.
    :param action_scaling: whether actions are stretched to the bounds of the Box. Default: True.
    :param action_bound_method: ``"clip"`` (default) or None, for actions that noise may have moved out of [-1, 1].
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param lr_scheduler: a schedule that takes a step after each update. Default: None.
    :param compile: whether a whole update is compiled into one graph; see :class:`DQNPolicy`. Default: False.
    :raises ValueError: for a value out of range, another kind of action space, or an ensemble of another size.

    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import EnsembleLinear, Net
    >>> from rlfast.utils.net.continuous import ActorProb, Critic
    >>> actor = ActorProb(Net(3, hidden_sizes=[64]), 1, unbounded=True, conditioned_sigma=True)
    >>> ten = {"linear_layer": lambda inputs, outputs: EnsembleLinear(10, inputs, outputs)}
    >>> critic = Critic(Net(3, 1, hidden_sizes=[64], concat=True, **ten), **ten, flatten_input=False)
    >>> optim = {"actor_optim": torch.optim.Adam, "critic_optim": torch.optim.Adam}
    >>> policy = REDQPolicy(actor=actor, critic=critic, **optim, action_space=Box(-2.0, 2.0))
    >>> policy(Batch(obs=torch.zeros(5, 3), info={})).act.shape
    torch.Size([5, 1])
    """

    stats_class = REDQTrainingStats

    @validate_arguments
    def __init__(
        self,
        *,
        actor: nn.Module,
        actor_optim: torch.optim.Optimizer | OptimizerFactory | None,
        critic: nn.Module,
        critic_optim: torch.optim.Optimizer | OptimizerFactory | None,
        action_space: "Box[Any]",
        ensemble_size: PositiveInt = 10,
        subset_size: PositiveInt = 2,
        tau: UnitFloat = 0.005,
        gamma: UnitFloat = 0.99,
        alpha: float | tuple[float, torch.Tensor, torch.optim.Optimizer] | Alpha = 0.2,
        estimation_step: PositiveInt = 1,
        actor_delay: PositiveInt = 20,
        exploration_noise: BaseNoise | Literal["default"] | None = None,
        deterministic_eval: bool = True,
        target_mode: Literal["min", "mean"] = "min",
        action_scaling: bool = True,
        action_bound_method: Literal["clip"] | None = "clip",
        observation_space: gym.Space[Any] | None = None,
        lr_scheduler: TLearningRateScheduler | None = None,
        compile: bool = False,
    ) -> None:
        if target_mode not in ("min", "mean"):
            raise ValueError(f'target_mode must be "min" or "mean", got {target_mode!r}')
        if subset_size > ensemble_size:
            raise ValueError(f"subset_size must be at most ensemble_size {ensemble_size}, got {subset_size}")
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
        self.add_ensemble(critic, critic_optim, ensemble_size)
        self.set_temperature(alpha)
        self.ensemble_size, self.subset_size = ensemble_size, subset_size
        self.actor_delay, self.target_mode, self.deterministic_eval = actor_delay, target_mode, deterministic_eval
        self._last_losses["actor_loss"] = 0.0
        self.compile_update(compile, actor, critic)

    @property
    def critic_gradient_step(self) -> int:
        """The number of gradient steps of the critics."""
        return self._iter

    def draw_next(self, rows: int) -> tuple[torch.Tensor, ...]:
        """Draw the noise of the targets' actions, and the critics that rate them."""
        return (*super().draw_next(rows), self._draw_members())

    def _draw_members(self) -> torch.Tensor:
        return torch.randperm(self.ensemble_size, generator=self._torch_rng)[: self.subset_size].to(self._device)

    def target_value(self, obs_next: Any, act: torch.Tensor, *draws: torch.Tensor) -> torch.Tensor:
        """Return the least value by M of the target critics, or the mean, ``[B]`` (line 6)."""
        q_MB = self.ensemble_values(obs_next, act, old=True, members=draws[0] if draws else self._draw_members())
        return q_MB.amin(dim=0) if self.target_mode == "min" else q_MB.mean(dim=0)

    def actor_value(self, obs: Any, act: torch.Tensor) -> torch.Tensor:
        """Return the mean value by all critics, ``[B]`` (line 10)."""
        return self.ensemble_values(obs, act).mean(dim=0)
