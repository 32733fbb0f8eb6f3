from dataclasses import dataclass
from typing import Literal, TypeVar, Unpack

import torch
from torch import nn

from rlfast.policy.critics import check_ensemble, ensemble_values
from rlfast.policy.modelfree.ddpg import DDPGPolicy, DDPGTrainingStats
from rlfast.policy.replay import Losses, Sample
from rlfast.policy.soft import SoftLearner, SoftOptions
from rlfast.utils.arguments.validation import PositiveInt, validate_arguments
from rlfast.utils.optim import OptionalOptimizer, descend, make_optimizer


@dataclass(kw_only=True)
class REDQTrainingStats(DDPGTrainingStats):
    """The statistics of one update of REDQ: each loss before its gradient step, alpha after it."""

    actor_loss: float
    """Of the newest step of the actor; 0 before the first."""
    critic_loss: float
    alpha: float | None = None
    alpha_loss: float | None = None
    """Of its newest step; None before the first, and for a fixed temperature."""


TREDQTrainingStats = TypeVar("TREDQTrainingStats", bound=REDQTrainingStats)


@DDPGPolicy.register
class REDQPolicy(SoftLearner):
    r"""Randomized ensembled double Q-learning (Chen, Wang, Zhou and Ross, arXiv:2101.05982, algorithm 1).

    .. math::
        y &= \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k \Bigl(\min_{j \in \mathcal M} Q^-_j(s_{t+k}, a') -
            \alpha \log\pi(a' \mid s_{t+k})\Bigr), \quad a' \sim \pi \\
        L(Q) &= \frac1N \sum_{j=1}^N \frac1B \sum w\, \bigl(y - Q_j(s_t, a_t)\bigr)^2 \\
        L(\pi) &= \frac1B \sum \alpha \log\pi(a \mid s_t) - \frac1N \sum_{j=1}^N Q_j(s_t, a), \quad a \sim \pi

    (algorithm 1, whose loss of the critics is their sum, here the mean) with M critics of the N, drawn without
    replacement for each gradient step. The actor and the temperature move at
    every ``actor_delay``-th step. The paper does 20 gradient steps for each environment step (``update_per_step=20``).
    The critics are one ensemble, computed as one batched product; targets compute only the M critics.

    With critics that have :class:`rlfast.utils.net.ensemble.EnsembleLayerNorm` after their hidden linear layers, and
    samples of a :class:`rlfast.data.MixedReplayBuffer` of data and of what is collected, this is RLPD (Ball, Smith,
    Kostrikov and Levine, arXiv:2302.02948, algorithm 1).

    Returns sum k rewards, at most ``estimation_step``; w are the importance weights of a prioritized buffer, else 1.

    :param critic: the ensemble, called as ``critic(obs, act)``; returns ``[ensemble_size, B, 1]``.
    :param critic_optim: an optimizer of ``critic``, or a factory.
    :param ensemble_size: :math:`N`, 1 or more. Default: 10.
    :param subset_size: :math:`M`, from 1 to N. Default: 2.
    :param actor_delay: number of gradient steps of the critics for one of the actor. Default: 20.
    :param target_mode: whether targets take the least value of the M critics, ``"min"`` (default, as in
        algorithm 1), or the ``"mean"``.
    :param backup_entropy: whether targets have the term of the entropy, :math:`\alpha \log\pi`. Default: True.
    :param options: of :class:`~rlfast.policy.soft.SoftLearner`.
    :raises ValueError: for a value out of range, another kind of action space, or an ensemble of another size.

    >>> from gymnasium.spaces import Box
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
        critic: nn.Module,
        critic_optim: OptionalOptimizer,
        ensemble_size: PositiveInt = 10,
        subset_size: PositiveInt = 2,
        actor_delay: PositiveInt = 20,
        target_mode: Literal["min", "mean"] = "min",
        backup_entropy: bool = True,
        **options: Unpack[SoftOptions],
    ) -> None:
        if target_mode not in ("min", "mean"):
            raise ValueError(f'target_mode must be "min" or "mean", got {target_mode!r}')
        if subset_size > ensemble_size:
            raise ValueError(f"subset_size must be at most ensemble_size {ensemble_size}, got {subset_size}")
        check_ensemble(critic, ensemble_size)
        super().__init__(**options)
        self.critic, self.critic_optim = critic, make_optimizer(critic_optim, critic.parameters())
        self.add_targets("critic")
        self.ensemble_size, self.subset_size = ensemble_size, subset_size
        self.actor_delay, self.target_mode, self.backup_entropy = actor_delay, target_mode, backup_entropy
        self._last_losses["actor_loss"] = 0.0

    @property
    def critic_gradient_step(self) -> int:
        """The number of gradient steps of the critics."""
        return self._iter

    def is_due(self) -> bool:
        """Return whether the actor and the temperature move in the next gradient step."""
        return self._iter % self.actor_delay == self.actor_delay - 1

    def draw_next(self, rows: int) -> tuple[torch.Tensor, ...]:
        """Draw the noise of the targets' actions, and the M critics that rate them."""
        noise = self.draw_noise(rows)
        members = torch.randperm(self.ensemble_size, generator=self._torch_rng)[: self.subset_size]
        return noise, members.to(self._device)

    def next_value(self, obs_next: object, state: object = None, *draws: torch.Tensor) -> torch.Tensor:
        """Return the least soft value by M of the target critics, or the mean, ``[B]`` (line 8)."""
        noise, members = draws
        act, log_prob_B = self.sample(obs_next, noise, state)
        q_MB = ensemble_values(self.critic_old, obs_next, act, members)
        q_B = q_MB.amin(dim=0) if self.target_mode == "min" else q_MB.mean(dim=0)
        return q_B - self.temperature.value * log_prob_B if self.backup_entropy else q_B

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Do one step for the critics; if it is due, one for actor and temperature; and one of the target critics."""
        error_NB = sample.returns - ensemble_values(self.critic, sample.obs, sample.act)
        critic_loss = (sample.weight * error_NB.square()).mean()  # line 10
        descend(critic_loss, self.critic_optim)

        losses: dict[str, torch.Tensor] = {"critic_loss": critic_loss.detach()}
        if sample.is_due:
            act, log_prob_B = self.sample(sample.obs, sample.draws[0], sample.state, sample.batch)
            q_B = ensemble_values(self.critic, sample.obs, act).mean(dim=0)
            actor_loss = (self.temperature.value * log_prob_B - q_B).mean()  # line 12
            descend(actor_loss, self.actor_optim)
            losses |= {"actor_loss": actor_loss.detach(), **self.temperature.descend(log_prob_B)}
        losses["alpha"] = self.temperature.value.reshape(())
        self.sync_weight()  # line 11
        return losses, error_NB.detach().mean(dim=0)
