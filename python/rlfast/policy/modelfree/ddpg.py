from dataclasses import dataclass
from typing import Literal, TypeVar, Unpack

import torch
from torch import nn

from rlfast.exploration import BaseNoise
from rlfast.policy.actor_critic import ActorCriticLearner, ActorCriticOptions
from rlfast.policy.base import TrainingStats
from rlfast.policy.components.network_checks import check_networks, check_stretching
from rlfast.policy.critics import check_single, q_values
from rlfast.policy.replay import Losses, Sample
from rlfast.utils.optim import OptionalOptimizer, descend, make_optimizer


@dataclass(kw_only=True)
class DDPGTrainingStats(TrainingStats):
    """The statistics of one update of DDPG: each loss before its gradient step."""

    actor_loss: float
    critic_loss: float


TDDPGTrainingStats = TypeVar("TDDPGTrainingStats", bound=DDPGTrainingStats)


class DDPGPolicy(ActorCriticLearner):
    r"""Deep deterministic policy gradient (Lillicrap et al., arXiv:1509.02971, algorithm 1).

    .. math::
        y &= \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k\, Q^-\bigl(s_{t+k}, \mu^-(s_{t+k})\bigr) \\
        L(Q) &= \frac1B \sum w\, \bigl(y - Q(s_t, a_t)\bigr)^2, \qquad
        L(\mu) = -\frac1B \sum Q\bigl(s_t, \mu(s_t)\bigr) \\
        Q^- &\leftarrow Q^- + \tau\,(Q - Q^-), \qquad \mu^- \leftarrow \mu^- + \tau\,(\mu - \mu^-)

    Returns sum k rewards, at most ``estimation_step``; w are the importance weights of a prioritized buffer, else 1.

    :param critic: called as ``critic(obs, act)``; returns ``[B, 1]``.
    :param critic_optim: an optimizer of ``critic``, or a factory.
    :param exploration_noise: noise that collectors add to actions on request; ``"default"`` (default) for
        normal noise of 0.1, None for none.
    :param options: of :class:`~rlfast.policy.actor_critic.ActorCriticLearner`.
    :raises ValueError: for a value out of range, or another kind of action space.

    >>> from gymnasium.spaces import Box
    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.net.continuous import Actor, Critic
    >>> from rlfast.utils.optim import adam
    >>> critic, optim = Critic(Net(3, 1, hidden_sizes=[64], concat=True)), adam(1e-3)
    >>> nets = {"actor": Actor(Net(3, hidden_sizes=[64]), 1), "critic": critic}
    >>> policy = DDPGPolicy(**nets, actor_optim=optim, critic_optim=optim, action_space=Box(-2.0, 2.0))
    >>> policy(Batch(obs=torch.zeros(5, 3), info={})).act.shape
    torch.Size([5, 1])
    """

    stats_class = DDPGTrainingStats
    learns_from_sequences = True

    def __init__(
        self,
        *,
        critic: nn.Module,
        critic_optim: OptionalOptimizer,
        exploration_noise: BaseNoise | Literal["default"] | None = "default",
        **options: Unpack[ActorCriticOptions],
    ) -> None:
        check_networks(critic=critic)
        check_single(critic)
        super().__init__(exploration_noise=exploration_noise, **options)
        check_stretching(self.actor, action_scaling=self.action_scaling)
        self.critic, self.critic_optim = critic, make_optimizer(critic_optim, critic.parameters())
        self.add_targets("actor", "critic")

    def next_value(self, obs_next: object, state: object = None, *draws: torch.Tensor) -> torch.Tensor:
        """Return the value of the observation after the last reward, ``[B]``, by the target networks (equation 5)."""
        return q_values(self.critic_old, obs_next, self.act(obs_next, state, model="actor_old"))

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Do one step for the critic, one for the actor, and one of the target networks."""
        error_B, critic_loss = self._mse_optimizer(sample, self.critic, self.critic_optim)  # equation 4
        act = self.act(sample.obs, sample.state, sample.batch)
        actor_loss = -q_values(self.critic, sample.obs, act).mean()  # its gradient is equation 6
        descend(actor_loss, self.actor_optim)
        self.sync_weight()
        return {"actor_loss": actor_loss.detach(), "critic_loss": critic_loss}, -error_B
