from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar

import gymnasium as gym
import torch
from gymnasium.spaces import Box
from torch import nn

from rlfast.exploration import BaseNoise
from rlfast.policy.base import TLearningRateScheduler, TrainingStats
from rlfast.policy.components.temperature import Alpha
from rlfast.policy.learners.soft_learner import SoftActorCritic
from rlfast.utils.arguments.validation import PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.optim import OptimizerFactory


@dataclass(kw_only=True)
class DroQTrainingStats(TrainingStats):
    """The statistics of one update of DroQ: losses before their steps, and the temperature after its own."""

    actor_loss: float
    """Of the newest step of the actor; 0 before the first."""
    critic_loss: float
    alpha: float | None = None
    alpha_loss: float | None = None
    """Of its newest step; None before the first, and for a fixed temperature."""


TDroQTrainingStats = TypeVar("TDroQTrainingStats", bound=DroQTrainingStats)


class DroQPolicy(SoftActorCritic):
    r"""Dropout Q-functions (Hiraoka et al., arXiv:2110.02034, algorithm 2).

    .. math::
        y &= \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k \Bigl(\min_j Q^-_j(s_{t+k}, a') -
            \alpha \log\pi(a' \mid s_{t+k})\Bigr), \quad a' \sim \pi \\
        L(Q) &= \frac1M \sum_{j=1}^M \frac1B \sum w\, \bigl(y - Q_j(s_t, a_t)\bigr)^2 \\
        L(\pi) &= \frac1B \sum \alpha \log\pi(a \mid s_t) - \frac1M \sum_{j=1}^M Q_j(s_t, a), \quad a \sim \pi

    Critics have dropout and layer normalization in their hidden layers, which takes the place of REDQ's many critics;
    dropout stays on in the target network. The actor and the temperature move at every ``actor_delay``-th step. The
    paper does 20 gradient steps for each environment step (``update_per_step=20``).

    :param actor: returns means and standard deviations before squashing, and the next hidden state; see
        :class:`SACPolicy`.
    :param actor_optim: an optimizer of ``actor``, or a factory such as :func:`rlfast.utils.optim.adam`; None, as for
        the critics', for a policy that only acts.
    :param critic: the ensemble, called as ``critic(obs, act)``; returns ``[M, B, 1]``. The paper has two members, whose
        hidden layers are linear, dropout, :class:`rlfast.utils.net.ensemble.EnsembleLayerNorm` and ReLU.
    :param critic_optim: an optimizer of ``critic``, or a factory.
    :param action_space: action space of one environment, a Box.
    :param actor_delay: number of gradient steps of the critics for one of the actor. Default: 20.
    :param tau: share of the way that the target network goes in each step, in [0, 1]. Default: 0.005.
    :param gamma: discount of future rewards, in [0, 1]. Default: 0.99.
    :param alpha: :math:`\alpha`, fixed or learned, as :class:`SACPolicy` takes it. Default: 0.2.
    :param estimation_step: the largest k, the number of steps to sum rewards over. Default: 1.
    :param exploration_noise: noise that collectors add to actions; see :class:`SACPolicy`. Default: None.
    :param deterministic_eval: whether the policy takes its mean in evaluation mode. Default: True.
    :param action_scaling: whether actions are stretched to the bounds of the Box. Default: True.
    :param action_bound_method: ``"clip"`` (default) or None, for actions that noise may have moved out of [-1, 1].
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param lr_scheduler: a schedule that takes a step after each update. Default: None.
    :param compile: whether a whole update is compiled into one graph; see :class:`DQNPolicy`. Default: False.
    :raises ValueError: for a value out of range, or another kind of action space.

    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import EnsembleLinear, Net
    >>> from rlfast.utils.net.continuous import ActorProb, Critic
    >>> from rlfast.utils.net.ensemble import EnsembleLayerNorm
    >>> actor = ActorProb(Net(3, hidden_sizes=[64]), 1, unbounded=True, conditioned_sigma=True)
    >>> two = {"linear_layer": lambda inputs, outputs: EnsembleLinear(2, inputs, outputs)}
    >>> def layer(inputs: int, outputs: int) -> nn.Module:
    ...     return nn.Sequential(EnsembleLinear(2, inputs, outputs), nn.Dropout(0.01), EnsembleLayerNorm(2, outputs))
    >>> net = Net(3, 1, hidden_sizes=[64], concat=True, linear_layer=layer)
    >>> critic = Critic(net, **two, flatten_input=False)
    >>> optim = {"actor_optim": torch.optim.Adam, "critic_optim": torch.optim.Adam}
    >>> policy = DroQPolicy(actor=actor, critic=critic, **optim, action_space=Box(-2.0, 2.0))
    >>> policy(Batch(obs=torch.zeros(5, 3), info={})).act.shape
    torch.Size([5, 1])
    """

    stats_class = DroQTrainingStats

    @validate_arguments
    def __init__(
        self,
        *,
        actor: nn.Module,
        actor_optim: torch.optim.Optimizer | OptimizerFactory | None,
        critic: nn.Module,
        critic_optim: torch.optim.Optimizer | OptimizerFactory | None,
        action_space: "Box[Any]",
        actor_delay: PositiveInt = 20,
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
        self.add_ensemble(critic, critic_optim)
        self.set_temperature(alpha)
        self.critic_old.train()  # dropout belongs to learning, and no critic acts
        self.actor_delay, self.deterministic_eval = actor_delay, deterministic_eval
        self._last_losses["actor_loss"] = 0.0
        self.compile_update(compile, actor, critic)

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation mode of the actor; the critics stay in training mode, for their dropout."""
        super().train(mode)
        self.critic.train()
        return self

    def target_value(self, obs_next: Any, act: torch.Tensor, *draws: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Return the least value by the target critics, ``[B]`` (line 6)."""
        return self.ensemble_values(obs_next, act, old=True).amin(dim=0)

    def actor_value(self, obs: Any, act: torch.Tensor) -> torch.Tensor:
        """Return the mean value by all critics, ``[B]`` (line 10)."""
        return self.ensemble_values(obs, act).mean(dim=0)
