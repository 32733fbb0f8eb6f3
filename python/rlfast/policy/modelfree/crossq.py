from dataclasses import dataclass
from typing import Self, TypeVar, Unpack

import torch
from torch import nn

from rlfast.policy.critics import check_ensemble, ensemble_values
from rlfast.policy.replay import Losses, Sample, rows_of_both
from rlfast.policy.soft import EnsembleTrainingStats, OnlineSoftOptions, SoftLearner
from rlfast.utils.arguments.validation import PositiveInt, validate_arguments
from rlfast.utils.optim import OptionalOptimizer, descend, make_optimizer
from rlfast.utils.torch_utils import torch_train_mode


@dataclass(kw_only=True)
class CrossQTrainingStats(EnsembleTrainingStats):
    """The statistics of one update of CrossQ: each loss before its gradient step, alpha after it."""


TCrossQTrainingStats = TypeVar("TCrossQTrainingStats", bound=CrossQTrainingStats)


class CrossQPolicy(SoftLearner):
    r"""CrossQ (Bhatt et al., arXiv:1902.05605): batch normalization in the critics, and no target networks.

    .. math::
        \begin{bmatrix} q_j \\ q'_j \end{bmatrix} &= Q_j\left(\begin{bmatrix} s_t, a_t \\ s_{t+k}, a'
            \end{bmatrix}\right), \quad a' \sim \pi \\
        y &= \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k \Bigl(\min_j q'_j - \alpha \log\pi(a' \mid s_{t+k})\Bigr) \\
        L(Q) &= \frac1M \sum_{j=1}^M \frac1B \sum w\, (y - q_j)^2 \\
        L(\pi) &= \frac1B \sum \alpha \log\pi(a \mid s_t) - \min_j Q_j(s_t, a), \quad a \sim \pi

    Returns sum k rewards, at most ``estimation_step``; w are the importance weights of a prioritized buffer, else 1.

    Both halves of the batch pass through the critics at once, so that the same statistics normalize them; no gradient
    flows through y. The critics are in training mode in that pass, and the actor in its own step; everywhere else, and
    to act, normalization uses running averages. Actor and temperature move at every ``policy_delay``-th step.

    :param critic: the ensemble, called as ``critic(obs, act)``; returns ``[M, B, 1]``. The paper has two members with a
        :class:`rlfast.utils.net.ensemble.BatchRenorm` before each linear layer.
    :param critic_optim: an optimizer of ``critic``, or a factory; the paper's is Adam with ``betas=(0.5, 0.999)``.
    :param policy_delay: number of gradient steps of the critics for one of the actor. Default: 3.
    :param options: of :class:`~rlfast.policy.soft.SoftLearner`.
    :raises ValueError: for a value out of range, or another kind of action space.

    >>> from gymnasium.spaces import Box
    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import EnsembleLinear, Net
    >>> from rlfast.utils.net.continuous import ActorProb, Critic
    >>> from rlfast.utils.net.ensemble import BatchRenorm
    >>> actor = ActorProb(Net(3, hidden_sizes=[64]), 1, unbounded=True, conditioned_sigma=True)
    >>> two = {"linear_layer": lambda inputs, outputs: EnsembleLinear(2, inputs, outputs)}
    >>> def layer(inputs: int, outputs: int) -> nn.Module:
    ...     return nn.Sequential(BatchRenorm(inputs, 2), EnsembleLinear(2, inputs, outputs))
    >>> net = Net(3, 1, hidden_sizes=[64], concat=True, linear_layer=layer)
    >>> critic = Critic(net, **two, flatten_input=False)
    >>> optim = {"actor_optim": torch.optim.Adam, "critic_optim": torch.optim.Adam}
    >>> policy = CrossQPolicy(actor=actor, critic=critic, **optim, action_space=Box(-2.0, 2.0))
    >>> policy(Batch(obs=torch.zeros(5, 3), info={})).act.shape
    torch.Size([5, 1])
    """

    stats_class = CrossQTrainingStats
    learns_from_returns = False

    @validate_arguments
    def __init__(
        self,
        *,
        critic: nn.Module,
        critic_optim: OptionalOptimizer,
        policy_delay: PositiveInt = 3,
        **options: Unpack[OnlineSoftOptions],
    ) -> None:
        check_ensemble(critic)
        super().__init__(**options)
        self.critic, self.critic_optim = critic, make_optimizer(critic_optim, critic.parameters())
        self.policy_delay = policy_delay
        self._last_losses["actor_loss"] = 0.0
        self.train(self.training)

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation mode of the policy; its networks stay in evaluation mode between their steps."""
        super().train(False)
        self.training = mode
        return self

    def is_due(self) -> bool:
        """Return whether the actor and the temperature move in the next gradient step."""
        return self._iter % self.policy_delay == self.policy_delay - 1

    def next_value(self, obs_next: object, state: object = None, *draws: torch.Tensor) -> torch.Tensor:
        """Return the least soft value, ``[B]``, by running averages; gradient steps use those of the batch."""
        act, log_prob_B = self.sample(obs_next, draws[0], state)
        return ensemble_values(self.critic, obs_next, act).amin(dim=0) - self.temperature.value * log_prob_B

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Do one step for the critics and, if it is due, one for actor and temperature (algorithm 1)."""
        with torch.no_grad():
            act_next, log_prob_B = self.sample(sample.obs_next, sample.draws_next[0], sample.state_next)
        obs_both, act_both = rows_of_both(sample.obs, sample.obs_next), torch.cat([self._like(sample.act), act_next])
        with torch_train_mode(self.critic):
            q_both_MB = ensemble_values(self.critic, obs_both, act_both)
        q_MB, next_MB = q_both_MB.chunk(2, dim=1)
        next_B = next_MB.detach().amin(dim=0) - self.temperature.value * log_prob_B
        error_MB = sample.bootstrapped(next_B) - q_MB
        critic_loss = (sample.weight * error_MB.square()).mean()
        descend(critic_loss, self.critic_optim)

        losses: dict[str, torch.Tensor] = {"critic_loss": critic_loss.detach()}
        if sample.is_due:
            with torch_train_mode(self.actor):
                act, log_prob_B = self.sample(sample.obs, sample.draws[0], sample.state, sample.batch)
                q_B = ensemble_values(self.critic, sample.obs, act).amin(dim=0)
            actor_loss = (self.temperature.value * log_prob_B - q_B).mean()
            descend(actor_loss, self.actor_optim)
            losses |= {"actor_loss": actor_loss.detach(), **self.temperature.descend(log_prob_B)}
        losses["alpha"] = self.temperature.value.reshape(())
        return losses, error_MB.detach().mean(dim=0)

    def _like(self, act: torch.Tensor) -> torch.Tensor:
        return act.reshape(len(act), *self._act_shape)
