from dataclasses import dataclass
from typing import Any, Self, TypeVar, Unpack, cast

import torch
from torch import nn

from rlfast.data import ReplayBuffer
from rlfast.data.types import BatchWithReturnsProtocol, RolloutBatchProtocol
from rlfast.functional.losses import projected_distribution, softmax_cross_entropy
from rlfast.policy.components.return_scale import ReturnScale
from rlfast.policy.components.returns import Index
from rlfast.policy.critics import check_ensemble, ensemble_values
from rlfast.policy.replay import Losses, Sample, rows_of_both
from rlfast.policy.soft import EnsembleTrainingStats, SoftLearner, SoftOptions
from rlfast.utils.arguments.checks import ArgumentError
from rlfast.utils.arguments.validation import PositiveFloat, PositiveInt, TwoOrMore, validate_arguments
from rlfast.utils.net.common import device_of
from rlfast.utils.net.ensemble import project_weights
from rlfast.utils.optim import OptionalOptimizer, descend, make_optimizer
from rlfast.utils.torch_utils import torch_train_mode


@dataclass(kw_only=True)
class XQCTrainingStats(EnsembleTrainingStats):
    """The statistics of one update of XQC: each loss before its gradient step, alpha after it."""

    reward_divisor: float = 1.0
    """What rewards were divided by."""


TXQCTrainingStats = TypeVar("TXQCTrainingStats", bound=XQCTrainingStats)


class XQCPolicy(SoftLearner):
    r"""XQC (Palenicek et al., arXiv:2509.25174): soft actor-critic with critics that are easy to optimize, by batch
    normalization, weights of norm 1, and a cross-entropy loss of categorical returns.

    .. math::
        \begin{bmatrix} p_j \\ p'_j \end{bmatrix} &= P_j\left(\begin{bmatrix} s_t, a_t \\ s_{t+k}, a'
            \end{bmatrix}\right), \quad a' \sim \pi; \qquad p^- \text{ likewise, by the target critics} \\
        G_i &= \frac1c \sum_{l=0}^{k-1} \gamma^l r_{t+l} + \gamma^k \bigl(z_i - \alpha \log\pi(a' \mid s_{t+k})\bigr),
            \qquad m = \arg\min_j \sum_i z_i\, p'^-_{ji} \\
        L(P) &= -\frac1M \sum_{j=1}^M \frac1B \sum w \sum_i \bigl(\Phi\, p'^-_m\bigr)_i \log p_{ji} \\
        L(\pi) &= \frac1B \sum \alpha \log\pi(a \mid s_t) - \min_j \sum_i z_i\, p_{ji}(s_t, a), \quad a \sim \pi

    with N evenly spaced returns z in [-v_max, v_max], the projection :math:`\Phi` of
    :func:`rlfast.functional.losses.projected_distribution`, and the divisor c of rewards that fits returns into that
    interval (Lee et al., arXiv:2502.15280, section 4.2). Weights of each
    :class:`rlfast.utils.net.ensemble.UnitLinear` return to norm 1 after each step.

    Returns sum k rewards, at most ``estimation_step``; w are the importance weights of a prioritized buffer, else 1.

    As in CrossQ, both halves of the batch pass through the critics at once, so that the same statistics normalize them.
    The critics are in training mode in that pass, and the actor in its own step; everywhere else, and to act,
    normalization uses running averages. Actor and temperature move at every ``policy_delay``-th step.

    :param critic: the ensemble, called as ``critic(obs, act)``; returns the logits of categorical returns ``[M, B,
        num_atoms]``. The paper has two members with normalized inputs and four layers of unit weights, batch
        normalization and ReLU, in this order.
    :param critic_optim: an optimizer of ``critic``, or a factory.
    :param policy_delay: number of gradient steps of the critics for one of the actor. Default: 3.
    :param num_atoms: number of returns whose probabilities are learned, N, 2 or more. Default: 101.
    :param v_max: the largest of the scaled returns; the smallest is its negative. Default: 5.
    :param options: of :class:`~rlfast.policy.soft.SoftLearner`. With a ``tau`` of 1 there is no lag, as in CrossQ.
    :raises ValueError: for a value out of range, another kind of action space, or a critic of another number of atoms.

    >>> from gymnasium.spaces import Box
    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.net.continuous import ActorProb, Critic
    >>> from rlfast.utils.net.ensemble import BatchRenorm, UnitLinear
    >>> actor = ActorProb(Net(3, hidden_sizes=[64]), 1, unbounded=True, conditioned_sigma=True)
    >>> def layer(inputs: int, outputs: int) -> nn.Module:
    ...     return nn.Sequential(UnitLinear(inputs, outputs, 2), BatchRenorm(outputs, 2))
    >>> net = Net(3, 1, hidden_sizes=[64], concat=True, linear_layer=layer)
    >>> two = {"linear_layer": lambda inputs, outputs: UnitLinear(inputs, outputs, 2, bias=True)}
    >>> critic = Critic(net, **two, flatten_input=False, output_dim=101)
    >>> optim = {"actor_optim": torch.optim.Adam, "critic_optim": torch.optim.Adam}
    >>> policy = XQCPolicy(actor=actor, critic=critic, **optim, action_space=Box(-2.0, 2.0))
    >>> policy(Batch(obs=torch.zeros(5, 3), info={})).act.shape
    torch.Size([5, 1])
    """

    stats_class = XQCTrainingStats
    learns_from_returns = False

    @validate_arguments
    def __init__(
        self,
        *,
        critic: nn.Module,
        critic_optim: OptionalOptimizer,
        policy_delay: PositiveInt = 3,
        num_atoms: TwoOrMore = 101,
        v_max: PositiveFloat = 5.0,
        **options: Unpack[SoftOptions],
    ) -> None:
        check_ensemble(critic)
        if (found := getattr(critic, "output_dim", num_atoms)) != num_atoms:
            raise ArgumentError(
                f"num_atoms is {num_atoms}, but critic gives {found} numbers: give both the same number"
            )
        super().__init__(**options)
        self.critic, self.critic_optim = critic, make_optimizer(critic_optim, critic.parameters())
        self.add_targets("critic")
        self.policy_delay = policy_delay
        self.support = nn.Parameter(torch.linspace(-v_max, v_max, num_atoms, device=device_of(critic)), False)
        self.scale = ReturnScale(v_max, self.gamma)
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

    def process_fn(self, batch: RolloutBatchProtocol, buffer: ReplayBuffer, indices: Index) -> BatchWithReturnsProtocol:
        """Add scaled sums of rewards, and what follows them; see :meth:`ReplayLearner.process_fn`.

        :raises ValueError: if the buffer's unit sums rewards, as returns cannot be computed from such a sample.
        """
        if "last_index" in batch:
            raise ValueError(
                "XQC scales rewards by the returns of whole episodes, which a buffer with unit=NStep does not give: "
                "leave the unit out, and set estimation_step"
            )
        self.scale.update(buffer, indices)
        self._last_losses["reward_divisor"] = self.scale.divisor
        made = super().process_fn(batch, buffer, indices)
        cast("Any", made).reward_sum /= self.scale.divisor
        return made

    def next_value(self, obs_next: object, state: object = None, *draws: torch.Tensor) -> torch.Tensor:
        """Return the least soft value, ``[B]``, by running averages; gradient steps use those of the batch."""
        act, log_prob_B = self.sample(obs_next, draws[0], state)
        value_MB = self.means(ensemble_values(self.critic_old, obs_next, act))
        return value_MB.amin(dim=0) - self.temperature.value * log_prob_B

    def means(self, logits: torch.Tensor) -> torch.Tensor:
        """Return expected returns, ``[...]``, of categorical ones.

        :param logits: ``[..., N]``.
        """
        return torch.softmax(logits, dim=-1) @ self.support

    def target_distribution(self, sample: Sample, logits_MBN: torch.Tensor, log_prob_B: torch.Tensor) -> torch.Tensor:
        """Return the probabilities of the scaled soft returns, ``[B, N]``, by the critic with the least value.

        :param sample: the transitions.
        :param logits_MBN: those of the target critics for the next observations and the policy's actions there.
        :param log_prob_B: log-probabilities of these actions.
        """
        prob_MBN = torch.softmax(logits_MBN, dim=2)
        least_B = (prob_MBN @ self.support).argmin(dim=0)
        prob_BN = prob_MBN.gather(0, least_B[None, :, None].expand(1, *prob_MBN.shape[1:]))[0]
        value_BN = self.support - (self.temperature.value * log_prob_B)[:, None]
        return projected_distribution(sample.bootstrapped(value_BN), prob_BN, self.support)

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Do one step for the critics; if it is due, one for actor and temperature; and one of the target critics."""
        rows = len(sample.act)
        with torch.no_grad():
            act_next, log_prob_B = self.sample(sample.obs_next, sample.draws_next[0], sample.state_next)
            act_both = torch.cat([sample.act.reshape(act_next.shape), act_next])
            obs_both = rows_of_both(sample.obs, sample.obs_next)
            with torch_train_mode(self.critic_old):
                next_MBN = ensemble_values(self.critic_old, obs_both, act_both)[:, rows:]
            target_BN = self.target_distribution(sample, next_MBN, log_prob_B)
        with torch_train_mode(self.critic):
            logits_MBN = ensemble_values(self.critic, obs_both, act_both)[:, :rows]
        error_B = softmax_cross_entropy(target_BN, logits_MBN).mean(dim=0)
        critic_loss = (sample.weight * error_B).mean()
        descend(critic_loss, self.critic_optim)
        project_weights(self.critic)

        losses: dict[str, torch.Tensor] = {"critic_loss": critic_loss.detach()}
        if sample.is_due:
            with torch_train_mode(self.actor):
                act, log_prob_B = self.sample(sample.obs, sample.draws[0], sample.state, sample.batch)
            q_B = self.means(ensemble_values(self.critic, sample.obs, act)).amin(dim=0)
            actor_loss = (self.temperature.value * log_prob_B - q_B).mean()
            descend(actor_loss, self.actor_optim)
            project_weights(self.actor)
            losses |= {"actor_loss": actor_loss.detach(), **self.temperature.descend(log_prob_B)}
        losses["alpha"] = self.temperature.value.reshape(())
        self.sync_weight()
        return losses, error_B.detach()
