from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import gymnasium as gym
import torch
from gymnasium.spaces import Box
from torch import nn

from rlfast.exploration import BaseNoise
from rlfast.functional.losses import quantile_huber
from rlfast.policy.base import TLearningRateScheduler, TrainingStats
from rlfast.policy.components.temperature import Alpha
from rlfast.policy.learners.replay_learner import Sample
from rlfast.policy.learners.soft_learner import SoftActorCritic
from rlfast.utils.arguments.validation import NonNegativeInt, PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.optim import OptimizerFactory


@dataclass(kw_only=True)
class TQCTrainingStats(TrainingStats):
    """The statistics of one update of TQC: losses before their steps, and the temperature after its own."""

    actor_loss: float
    critic_loss: float
    alpha: float | None = None
    alpha_loss: float | None = None
    """Of its newest step; None before the first, and for a fixed temperature."""


TTQCTrainingStats = TypeVar("TTQCTrainingStats", bound=TQCTrainingStats)


class TQCPolicy(SoftActorCritic):
    r"""Truncated quantile critics (Kuznetsov, Shvechikov, Grishin and Vetrov, arXiv:2005.04269, algorithm 1).

    N critics give M quantiles each of the return. Targets are made of all NM of the target critics, without the
    greatest dN, which holds back the overestimation:

    .. math::
        y_i &= \sum_{l=0}^{k-1} \gamma^l r_{t+l} + \gamma^k \bigl(z_{(i)}(s_{t+k}, a') -
            \alpha \log\pi(a' \mid s_{t+k})\bigr), \quad a' \sim \pi, \quad i = 1, \dots, N(M - d) \\
        L(Z) &= \frac1{NMB} \sum_{n,m} \sum w\, \frac1{N(M - d)} \sum_i \bigl|\tau_m - \mathbb 1[u < 0]\bigr|\, h(u),
            \quad u = y_i - \theta_n^m(s_t, a_t) \\
        L(\pi) &= \frac1B \sum \alpha \log\pi(a \mid s_t) - \frac1{NM} \sum_{n,m} \theta_n^m(s_t, a), \quad a \sim \pi

    with Huber's function h and the quantiles' levels :math:`\tau_m = (2m - 1) / 2M`.

    :param actor: returns means and standard deviations before squashing, and the next hidden state; see
        :class:`SACPolicy`.
    :param actor_optim: an optimizer of ``actor``, or a factory such as :func:`rlfast.utils.optim.adam`; None, as for
        the critics', for a policy that only acts.
    :param critic: the ensemble, called as ``critic(obs, act)``; returns ``[N, B, M]``.
    :param critic_optim: an optimizer of ``critic``, or a factory.
    :param action_space: action space of one environment, a Box.
    :param top_quantiles_to_drop_per_net: d, less than M. Default: 2.
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
    >>> actor = ActorProb(Net(3, hidden_sizes=[64]), 1, unbounded=True, conditioned_sigma=True)
    >>> two = {"linear_layer": lambda inputs, outputs: EnsembleLinear(2, inputs, outputs)}
    >>> net = Net(3, 1, hidden_sizes=[64], concat=True, **two)
    >>> critic = Critic(net, **two, flatten_input=False, output_dim=25)
    >>> optim = {"actor_optim": torch.optim.Adam, "critic_optim": torch.optim.Adam}
    >>> policy = TQCPolicy(actor=actor, critic=critic, **optim, action_space=Box(-2.0, 2.0))
    >>> policy(Batch(obs=torch.zeros(5, 3), info={})).act.shape
    torch.Size([5, 1])
    """

    stats_class = TQCTrainingStats

    @validate_arguments
    def __init__(
        self,
        *,
        actor: nn.Module,
        actor_optim: torch.optim.Optimizer | OptimizerFactory | None,
        critic: nn.Module,
        critic_optim: torch.optim.Optimizer | OptimizerFactory | None,
        action_space: "Box[Any]",
        top_quantiles_to_drop_per_net: NonNegativeInt = 2,
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
        self.top_quantiles_to_drop_per_net, self.deterministic_eval = top_quantiles_to_drop_per_net, deterministic_eval
        self._check_quantiles(getattr(critic, "output_dim", top_quantiles_to_drop_per_net + 1))
        self.compile_update(compile, actor, critic)

    def target_value(self, obs_next: Any, act: torch.Tensor, *draws: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Return the smallest quantiles by the target critics, ``[B, N(M - d)]``."""
        z_BNM = self.quantiles(obs_next, act, old=True).transpose(0, 1)
        _, critics, number = z_BNM.shape
        self._check_quantiles(number)
        kept = critics * (number - self.top_quantiles_to_drop_per_net)
        return z_BNM.flatten(1).sort(dim=1).values[:, :kept]  # section 3, the truncated mixture

    def actor_value(self, obs: Any, act: torch.Tensor) -> torch.Tensor:
        """Return the mean of all quantiles, ``[B]``."""
        return self.quantiles(obs, act).mean(dim=(0, 2))

    def quantiles(self, obs: Any, act: torch.Tensor, *, old: bool = False) -> torch.Tensor:
        """Return the quantiles of returns by all critics, ``[N, B, M]``; those of the target network if ``old``.

        :param obs: observations.
        :param act: actions, ``[B, ...]``.
        :param old: whether to use the target network.
        """
        values = self.ensemble_values(obs, act, old=old)
        return values if values.dim() > 2 else values[:, :, None]

    def critic_step(self, sample: Sample) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        """Do one step for all critics towards the quantiles of the targets."""
        theta_NBM = self.quantiles(sample.obs, sample.act)
        critics, rows, number = theta_NBM.shape
        level_M = (torch.arange(number, dtype=theta_NBM.dtype, device=theta_NBM.device) + 0.5) / number
        target_BK = sample.returns.reshape(rows, -1).repeat(critics, 1)
        loss_NB, error_NB = quantile_huber(theta_NBM.flatten(0, 1), target_BK, level_M)
        loss_B, error_B = (rows_NB.view(critics, rows).mean(dim=0) / number for rows_NB in (loss_NB, error_NB))
        return {"critic_loss": self.descend_mean(loss_B, sample, self.critic_optim)}, error_B

    def _check_quantiles(self, number: int) -> None:
        if number <= self.top_quantiles_to_drop_per_net:
            raise ValueError(
                f"top_quantiles_to_drop_per_net is {self.top_quantiles_to_drop_per_net}, and critic has {number}"
            )
