from dataclasses import dataclass
from typing import TypeVar, Unpack

import torch
from torch import nn

from rlfast.policy.base import TrainingStats
from rlfast.policy.critics import q_values, twin_critics
from rlfast.policy.modelfree.ddpg import DDPGPolicy
from rlfast.policy.replay import Losses, Sample
from rlfast.policy.soft import SoftLearner, SoftOptions
from rlfast.utils.optim import OptionalOptimizer, descend


@dataclass(kw_only=True)
class SACTrainingStats(TrainingStats):
    """The statistics of one update of SAC: each loss before its gradient step, alpha after it."""

    actor_loss: float
    critic1_loss: float
    critic2_loss: float
    alpha: float | None = None
    alpha_loss: float | None = None
    """None for a fixed temperature."""


TSACTrainingStats = TypeVar("TSACTrainingStats", bound=SACTrainingStats)


@DDPGPolicy.register
class SACPolicy(SoftLearner):
    r"""Soft actor-critic (Haarnoja et al., arXiv:1812.05905) with a squashed normal policy.

    .. math::
        y &= \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k \Bigl(\min_j Q^-_j(s_{t+k}, a') - \alpha \log\pi(a' \mid
            s_{t+k})\Bigr), \quad a' \sim \pi \\
        L(Q_j) &= \frac1B \sum w\, \bigl(y - Q_j(s_t, a_t)\bigr)^2 \\
        L(\pi) &= \frac1B \sum \alpha \log\pi(a \mid s_t) - \min_j Q_j(s_t, a), \quad a \sim \pi \\
        L(\alpha) &= -\frac1B \sum \log\alpha\, \bigl(\log\pi(a \mid s_t) + \bar{\mathcal H}\bigr) \\
        Q^-_j &\leftarrow Q^-_j + \tau\,(Q_j - Q^-_j)

    Returns sum k rewards, at most ``estimation_step``; w are the importance weights of a prioritized buffer, else 1.

    :param critic: called as ``critic(obs, act)``; returns ``[B, 1]``.
    :param critic_optim: an optimizer of ``critic``, or a factory.
    :param critic2: the second critic; None for a copy of the first with new parameters. Default: None.
    :param critic2_optim: an optimizer of ``critic2``; None for one like that of the first. Default: None.
    :param options: of :class:`~rlfast.policy.soft.SoftLearner`.
    :raises ValueError: for a value out of range, another kind of action space, an actor of another width, or an
        optimizer for a ``critic2`` that is not given.

    >>> from gymnasium.spaces import Box
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

    def __init__(
        self,
        *,
        critic: nn.Module,
        critic_optim: OptionalOptimizer,
        critic2: nn.Module | None = None,
        critic2_optim: OptionalOptimizer = None,
        **options: Unpack[SoftOptions],
    ) -> None:
        super().__init__(**options)
        twins = twin_critics(critic, critic_optim, critic2, critic2_optim)
        self.critic, self.critic_optim, self.critic2, self.critic2_optim = twins
        self.add_targets("critic", "critic2")

    def next_value(self, obs_next: object, state: object = None, *draws: torch.Tensor) -> torch.Tensor:
        """Return the soft value of the observation after the last reward, ``[B]`` (equation 3)."""
        (noise,) = draws
        act, log_prob_B = self.sample(obs_next, noise, state)
        q_B = torch.minimum(q_values(self.critic_old, obs_next, act), q_values(self.critic2_old, obs_next, act))
        return q_B - self.temperature.value * log_prob_B

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Do one step for each critic, the actor, the temperature, and the target critics (algorithm 1)."""
        # Equation 5, without its factor 1/2.
        error1_B, critic1_loss = self._mse_optimizer(sample, self.critic, self.critic_optim)
        error2_B, critic2_loss = self._mse_optimizer(sample, self.critic2, self.critic2_optim)

        (noise,) = sample.draws
        act, log_prob_B = self.sample(sample.obs, noise, sample.state, sample.batch)
        q_B = torch.minimum(q_values(self.critic, sample.obs, act), q_values(self.critic2, sample.obs, act))
        actor_loss = (self.temperature.value * log_prob_B - q_B).mean()  # equation 7
        descend(actor_loss, self.actor_optim)

        losses = {"actor_loss": actor_loss.detach(), "critic1_loss": critic1_loss, "critic2_loss": critic2_loss}
        losses |= self.temperature.descend(log_prob_B)  # equation 18, with log(alpha) for alpha
        losses["alpha"] = self.temperature.value.reshape(())
        self.sync_weight()
        return losses, -(error1_B + error2_B) / 2
