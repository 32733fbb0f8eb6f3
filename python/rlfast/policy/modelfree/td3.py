from dataclasses import dataclass
from typing import Literal, Required, TypeVar, Unpack

import torch
from torch import nn

from rlfast.exploration import BaseNoise
from rlfast.functional.losses import smoothed_action
from rlfast.policy.actor_critic import ActorCriticLearner, ActorCriticOptions, ExploringOptions
from rlfast.policy.base import TrainingStats
from rlfast.policy.components.network_checks import check_stretching
from rlfast.policy.critics import q_values, twin_critics
from rlfast.policy.modelfree.ddpg import DDPGPolicy
from rlfast.policy.replay import Losses, Sample
from rlfast.utils.arguments.validation import NonNegativeFloat, PositiveInt, validate_arguments
from rlfast.utils.optim import OptionalOptimizer, descend


@dataclass(kw_only=True)
class TD3TrainingStats(TrainingStats):
    """The statistics of one update of TD3: each loss before its gradient step."""

    actor_loss: float
    """Of the newest step of the actor."""
    critic1_loss: float
    critic2_loss: float


TTD3TrainingStats = TypeVar("TTD3TrainingStats", bound=TD3TrainingStats)


class TD3Options(ExploringOptions, total=False):
    """The arguments of :class:`TD3Policy`."""

    critic: Required[nn.Module]
    critic_optim: Required[OptionalOptimizer]
    critic2: nn.Module | None
    critic2_optim: OptionalOptimizer
    policy_noise: float
    update_actor_freq: int
    noise_clip: float


@DDPGPolicy.register
class TD3Policy(ActorCriticLearner):
    r"""Twin delayed deep deterministic policy gradient (Fujimoto, van Hoof and Meger, arXiv:1802.09477, algorithm 1).

    .. math::
        \tilde a &= \mu^-(s_{t+k}) + \mathrm{clip}(\epsilon, -c, c), \qquad
        \epsilon \sim \mathcal N(0, \tilde\sigma^2) \\
        y &= \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k \min_j Q^-_j(s_{t+k}, \tilde a), \qquad
        L(Q_j) = \frac1B \sum w\, \bigl(y - Q_j(s_t, a_t)\bigr)^2 \\
        L(\mu) &= -\frac1B \sum Q_1\bigl(s_t, \mu(s_t)\bigr)

    Returns sum k rewards, at most ``estimation_step``; w are the importance weights of a prioritized buffer, else 1.

    The actor and all target networks move at every ``update_actor_freq``-th gradient step, the first one included.

    :param critic: called as ``critic(obs, act)``; returns ``[B, 1]``.
    :param critic_optim: an optimizer of ``critic``, or a factory.
    :param critic2: the second critic; None for a copy of the first with new parameters. Default: None.
    :param critic2_optim: an optimizer of ``critic2``; None for one like that of the first. Default: None.
    :param exploration_noise: noise that collectors add to actions on request; ``"default"`` (default) for
        normal noise of 0.1, None for none.
    :param policy_noise: :math:`\tilde\sigma`, 0 or more, in units in which actions range from -1 to 1. Default: 0.2.
    :param update_actor_freq: number of gradient steps of the critics for one of the actor. Default: 2.
    :param noise_clip: :math:`c`; 0 for no limit. Default: 0.5.
    :param options: of :class:`~rlfast.policy.actor_critic.ActorCriticLearner`.
    :raises ValueError: for a value out of range, another kind of action space, or an optimizer for a ``critic2`` that
        is not given.

    >>> from gymnasium.spaces import Box
    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.net.continuous import Actor, Critic
    >>> from rlfast.utils.optim import adam
    >>> critic, optim = Critic(Net(3, 1, hidden_sizes=[64], concat=True)), adam(1e-3)
    >>> nets = {"actor": Actor(Net(3, hidden_sizes=[64]), 1), "critic": critic}
    >>> policy = TD3Policy(**nets, actor_optim=optim, critic_optim=optim, action_space=Box(-2.0, 2.0))
    >>> policy(Batch(obs=torch.zeros(5, 3), info={})).act.shape
    torch.Size([5, 1])
    """

    stats_class = TD3TrainingStats
    learns_from_sequences = True

    @validate_arguments
    def __init__(
        self,
        *,
        critic: nn.Module,
        critic_optim: OptionalOptimizer,
        critic2: nn.Module | None = None,
        critic2_optim: OptionalOptimizer = None,
        exploration_noise: BaseNoise | Literal["default"] | None = "default",
        policy_noise: NonNegativeFloat = 0.2,
        update_actor_freq: PositiveInt = 2,
        noise_clip: NonNegativeFloat = 0.5,
        **options: Unpack[ActorCriticOptions],
    ) -> None:
        super().__init__(exploration_noise=exploration_noise, **options)
        check_stretching(self.actor, action_scaling=self.action_scaling)
        twins = twin_critics(critic, critic_optim, critic2, critic2_optim)
        self.critic, self.critic_optim, self.critic2, self.critic2_optim = twins
        self.add_targets("actor", "critic", "critic2")
        self.policy_noise, self.noise_clip = policy_noise, noise_clip
        self.update_actor_freq = update_actor_freq

    def is_due(self) -> bool:
        """Return whether the actor and the target networks move in the next gradient step."""
        return self._iter % self.update_actor_freq == 0

    def draw_next(self, rows: int) -> tuple[torch.Tensor, ...]:
        """Draw the noise that smooths the targets."""
        return (self.draw_normal((rows, *self._act_shape), self._dtype, self._device),)

    def smoothed_actions(self, obs: object, state: object, noise: torch.Tensor) -> torch.Tensor:
        """Return actions of the target actor with noise (section 5.3), ``[B, *shape]``.

        :param obs: observations.
        :param state: hidden state before them, or None.
        :param noise: standard normal numbers.
        """
        act = self.act(obs, state, model="actor_old")
        return smoothed_action(act, noise, self.policy_noise, self.noise_clip)

    def next_value(self, obs_next: object, state: object = None, *draws: torch.Tensor) -> torch.Tensor:
        """Return the smaller value of the observation after the last reward (equation 10), ``[B]``."""
        act = self.smoothed_actions(obs_next, state, *draws)
        return torch.minimum(q_values(self.critic_old, obs_next, act), q_values(self.critic2_old, obs_next, act))

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Do one step for each critic and, if it is due, one for the actor and one of the target networks."""
        error1_B, critic1_loss = self._mse_optimizer(sample, self.critic, self.critic_optim)
        error2_B, critic2_loss = self._mse_optimizer(sample, self.critic2, self.critic2_optim)
        losses = {"critic1_loss": critic1_loss, "critic2_loss": critic2_loss}
        if sample.is_due:
            actor_loss = self.actor_loss(sample)
            descend(actor_loss, self.actor_optim)
            losses["actor_loss"] = actor_loss.detach()
            self.sync_weight()
        return losses, -(error1_B + error2_B) / 2

    def actor_loss(self, sample: Sample) -> torch.Tensor:
        """Return the loss of the actor, a scalar: minus the mean value of its actions by the first critic.

        :param sample: the sample.
        """
        return -q_values(self.critic, sample.obs, self.act(sample.obs, sample.state, sample.batch)).mean()
