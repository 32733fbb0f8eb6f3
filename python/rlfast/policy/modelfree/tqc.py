from dataclasses import dataclass
from typing import TypeVar, Unpack

import torch
from torch import nn

from rlfast.functional.losses import quantile_huber
from rlfast.policy.critics import check_ensemble, ensemble_values
from rlfast.policy.replay import Losses, Sample
from rlfast.policy.soft import EnsembleTrainingStats, SoftLearner, SoftOptions
from rlfast.utils.arguments.validation import NonNegativeInt, validate_arguments
from rlfast.utils.optim import OptionalOptimizer, descend, make_optimizer


@dataclass(kw_only=True)
class TQCTrainingStats(EnsembleTrainingStats):
    """The statistics of one update of TQC: each loss before its gradient step, alpha after it."""


TTQCTrainingStats = TypeVar("TTQCTrainingStats", bound=TQCTrainingStats)


class TQCPolicy(SoftLearner):
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

    Returns sum k rewards, at most ``estimation_step``; w are the importance weights of a prioritized buffer, else 1.

    :param critic: the ensemble, called as ``critic(obs, act)``; returns ``[N, B, M]``.
    :param critic_optim: an optimizer of ``critic``, or a factory.
    :param top_quantiles_to_drop_per_net: d, less than M. Default: 2.
    :param options: of :class:`~rlfast.policy.soft.SoftLearner`.
    :raises ValueError: for a value out of range, or another kind of action space.

    >>> from gymnasium.spaces import Box
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
        critic: nn.Module,
        critic_optim: OptionalOptimizer,
        top_quantiles_to_drop_per_net: NonNegativeInt = 2,
        **options: Unpack[SoftOptions],
    ) -> None:
        check_ensemble(critic)
        super().__init__(**options)
        self.critic, self.critic_optim = critic, make_optimizer(critic_optim, critic.parameters())
        self.add_targets("critic")
        self.top_quantiles_to_drop_per_net = top_quantiles_to_drop_per_net
        self._check_quantiles(getattr(critic, "output_dim", top_quantiles_to_drop_per_net + 1))

    def next_value(self, obs_next: object, state: object = None, *draws: torch.Tensor) -> torch.Tensor:
        """Return the smallest soft quantiles by the target critics, ``[B, N(M - d)]`` (section 3)."""
        act, log_prob_B = self.sample(obs_next, draws[0], state)
        z_BNM = self.quantiles(self.critic_old, obs_next, act).transpose(0, 1)
        _, critics, number = z_BNM.shape
        self._check_quantiles(number)
        kept = critics * (number - self.top_quantiles_to_drop_per_net)
        z_BK = z_BNM.flatten(1).sort(dim=1).values[:, :kept]  # the truncated mixture
        return z_BK - self.temperature.value * log_prob_B[:, None]

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Do one step for all critics, one for the actor, the temperature, and the target critics."""
        theta_NBM = self.quantiles(self.critic, sample.obs, sample.act)
        critics, rows, number = theta_NBM.shape
        level_M = (torch.arange(number, dtype=theta_NBM.dtype, device=theta_NBM.device) + 0.5) / number
        target_BK = sample.returns.reshape(rows, -1).repeat(critics, 1)
        loss_NB, error_NB = quantile_huber(theta_NBM.flatten(0, 1), target_BK, level_M)  # equation 11
        loss_B, error_B = (rows_NB.view(critics, rows).mean(dim=0) / number for rows_NB in (loss_NB, error_NB))
        critic_loss = (sample.weight * loss_B).mean()
        descend(critic_loss, self.critic_optim)

        act, log_prob_B = self.sample(sample.obs, sample.draws[0], sample.state, sample.batch)
        z_B = self.quantiles(self.critic, sample.obs, act).mean(dim=(0, 2))
        actor_loss = (self.temperature.value * log_prob_B - z_B).mean()  # equation 13
        descend(actor_loss, self.actor_optim)

        losses = {"actor_loss": actor_loss.detach(), "critic_loss": critic_loss.detach()}
        losses |= self.temperature.descend(log_prob_B)
        losses["alpha"] = self.temperature.value.reshape(())
        self.sync_weight()
        return losses, error_B

    @staticmethod
    def quantiles(critic: nn.Module, obs: object, act: torch.Tensor) -> torch.Tensor:
        """Return the quantiles of returns by all critics, ``[N, B, M]``.

        :param critic: the ensemble.
        :param obs: observations.
        :param act: actions, ``[B, ...]``.
        """
        values = ensemble_values(critic, obs, act)
        return values if values.dim() > 2 else values[:, :, None]

    def _check_quantiles(self, number: int) -> None:
        if number <= self.top_quantiles_to_drop_per_net:
            raise ValueError(
                f"top_quantiles_to_drop_per_net is {self.top_quantiles_to_drop_per_net}, and critic has {number}"
            )
