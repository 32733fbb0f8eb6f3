from dataclasses import dataclass
from typing import Self, TypeVar, Unpack

import torch
from torch import nn

from rlfast.policy.critics import check_ensemble, ensemble_values
from rlfast.policy.replay import Losses, Sample
from rlfast.policy.soft import EnsembleTrainingStats, SoftLearner, SoftOptions
from rlfast.utils.arguments.validation import PositiveInt, validate_arguments
from rlfast.utils.optim import OptionalOptimizer, descend, make_optimizer


@dataclass(kw_only=True)
class DroQTrainingStats(EnsembleTrainingStats):
    """The statistics of one update of DroQ: each loss before its gradient step, alpha after it."""


TDroQTrainingStats = TypeVar("TDroQTrainingStats", bound=DroQTrainingStats)


class DroQPolicy(SoftLearner):
    r"""Dropout Q-functions (Hiraoka et al., arXiv:2110.02034, algorithm 2).

    .. math::
        y &= \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k \Bigl(\min_j Q^-_j(s_{t+k}, a') -
            \alpha \log\pi(a' \mid s_{t+k})\Bigr), \quad a' \sim \pi \\
        L(Q) &= \frac1M \sum_{j=1}^M \frac1B \sum w\, \bigl(y - Q_j(s_t, a_t)\bigr)^2 \\
        L(\pi) &= \frac1B \sum \alpha \log\pi(a \mid s_t) - \frac1M \sum_{j=1}^M Q_j(s_t, a), \quad a \sim \pi

    Returns sum k rewards, at most ``estimation_step``; w are the importance weights of a prioritized buffer, else 1.

    Critics have dropout and layer normalization in their hidden layers, which takes the place of REDQ's many critics;
    dropout stays on in the target network. The actor and the temperature move at every ``actor_delay``-th step. The
    paper does 20 gradient steps for each environment step (``update_per_step=20``).

    :param critic: the ensemble, called as ``critic(obs, act)``; returns ``[M, B, 1]``. The paper has two members, whose
        hidden layers are linear, dropout, :class:`rlfast.utils.net.ensemble.EnsembleLayerNorm` and ReLU.
    :param critic_optim: an optimizer of ``critic``, or a factory.
    :param actor_delay: number of gradient steps of the critics for one of the actor. Default: 20.
    :param options: of :class:`~rlfast.policy.soft.SoftLearner`.
    :raises ValueError: for a value out of range, or another kind of action space.

    >>> from gymnasium.spaces import Box
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
        critic: nn.Module,
        critic_optim: OptionalOptimizer,
        actor_delay: PositiveInt = 20,
        **options: Unpack[SoftOptions],
    ) -> None:
        check_ensemble(critic)
        super().__init__(**options)
        self.critic, self.critic_optim = critic, make_optimizer(critic_optim, critic.parameters())
        self.add_targets("critic")
        self.critic_old.train()
        self.actor_delay = actor_delay
        self._last_losses["actor_loss"] = 0.0

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation mode of the actor; all critics stay in training mode, for their dropout."""
        super().train(mode)
        self.critic.train()
        self.critic_old.train()
        return self

    def is_due(self) -> bool:
        """Return whether the actor and the temperature move in the next gradient step."""
        return self._iter % self.actor_delay == self.actor_delay - 1

    def next_value(self, obs_next: object, state: object = None, *draws: torch.Tensor) -> torch.Tensor:
        """Return the least soft value by the target critics, ``[B]``."""
        act, log_prob_B = self.sample(obs_next, draws[0], state)
        q_B = ensemble_values(self.critic_old, obs_next, act).amin(dim=0)
        return q_B - self.temperature.value * log_prob_B

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Do one step for the critics; if it is due, one for actor and temperature; and one of the target critics."""
        error_NB = sample.returns - ensemble_values(self.critic, sample.obs, sample.act)
        critic_loss = (sample.weight * error_NB.square()).mean()
        descend(critic_loss, self.critic_optim)

        losses: dict[str, torch.Tensor] = {"critic_loss": critic_loss.detach()}
        if sample.is_due:
            act, log_prob_B = self.sample(sample.obs, sample.draws[0], sample.state, sample.batch)
            q_B = ensemble_values(self.critic, sample.obs, act).mean(dim=0)
            actor_loss = (self.temperature.value * log_prob_B - q_B).mean()
            descend(actor_loss, self.actor_optim)
            losses |= {"actor_loss": actor_loss.detach(), **self.temperature.descend(log_prob_B)}
        losses["alpha"] = self.temperature.value.reshape(())
        self.sync_weight()
        return losses, error_NB.detach().mean(dim=0)
