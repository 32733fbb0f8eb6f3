from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, Unpack, cast

import torch
from gymnasium.spaces import Discrete
from torch import nn

from rlfast.data.batch.batch import wrap
from rlfast.data.types import DistBatchProtocol, ObsBatchProtocol
from rlfast.functional.distributions import Categorical
from rlfast.policy.components.action_masks import action_mask, legal_logits
from rlfast.policy.components.batches import as_batch, info_of
from rlfast.policy.components.network_checks import check_networks, check_output
from rlfast.policy.components.shortcuts import Shortcut, Shortcuts
from rlfast.policy.components.temperature import Alpha, AutoAlpha, OfTemperature, make_alpha
from rlfast.policy.critics import twin_critics
from rlfast.policy.modelfree.sac import SACPolicy, SACTrainingStats
from rlfast.policy.native.choosers import Chooser, ClockChooser
from rlfast.policy.q_learner import output_of_actions
from rlfast.policy.replay import Losses, ReplayLearner, ReplayOptions, Sample
from rlfast.utils.arguments.validation import PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.optim import OptionalOptimizer, descend, make_optimizer


@dataclass(kw_only=True)
class DiscreteSACTrainingStats(SACTrainingStats):
    """The statistics of one update of discrete soft actor-critic: losses before their steps, the temperature after its
    own.
    """


TDiscreteSACTrainingStats = TypeVar("TDiscreteSACTrainingStats", bound=DiscreteSACTrainingStats)


@SACPolicy.register
class DiscreteSACPolicy(ReplayLearner):
    r"""Soft actor-critic for discrete actions (Christodoulou, arXiv:1910.07207).

    .. math::
        V^-(s) &= \sum_a \pi(a \mid s) \min_j Q^-_j(s, a) + \alpha \mathcal H\bigl(\pi(\cdot \mid s)\bigr), \qquad
        y = \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k V^-(s_{t+k}) \\
        L(Q_j) &= \frac1B \sum w\, \bigl(y - Q_j(s_t, a_t)\bigr)^2 \\
        L(\pi) &= -\frac1B \sum \sum_a \pi(a \mid s_t) \min_j Q_j(s_t, a)
            + \alpha \mathcal H\bigl(\pi(\cdot \mid s_t)\bigr)

    :param actor: called as ``actor(obs, state=..., info=...)``; returns logits ``[B, actions]`` and the next hidden
        state, as :class:`rlfast.utils.net.discrete.Actor` with ``softmax_output=False`` does.
    :param actor_optim: an optimizer of ``actor``, or a factory such as :func:`rlfast.utils.optim.adam`; None, as for
        the critics', for a policy that only acts.
    :param critic: called as ``critic(obs)``; returns the values of all actions, ``[B, actions]``.
    :param critic_optim: an optimizer of ``critic``, or a factory.
    :param action_space: action space of one environment, a Discrete.
    :param critic2: the second critic; None for a copy of the first with new parameters. Default: None.
    :param critic2_optim: an optimizer of ``critic2``; None for one like that of the first. Default: None.
    :param tau: size of the steps of target networks towards the trained ones, in [0, 1]. Default: 0.005.
    :param gamma: discount of future rewards, in [0, 1]. Default: 0.99.
    :param alpha: :math:`\alpha`: a number, a triple ``(target_entropy, log_alpha, optim)`` for one that is learned, or
        a :class:`FixedAlpha` or :class:`AutoAlpha`. Default: 0.2.
    :param estimation_step: the largest k, the number of steps to sum rewards over. Default: 1.
    :param options: of :class:`rlfast.policy.BasePolicy`, and ``compile``; see :class:`DQNPolicy`.
    :raises ValueError: for a value out of range, another kind of action space, or an optimizer for a ``critic2`` that
        is not given.

    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.net.discrete import Actor, Critic
    >>> from rlfast.utils.optim import adam
    >>> nets = {"actor": Actor(Net(4, hidden_sizes=[64]), 2, softmax_output=False)}
    >>> nets |= {"critic": Critic(Net(4, hidden_sizes=[64]), last_size=2)}
    >>> optims = {"actor_optim": adam(3e-4), "critic_optim": adam(3e-4)}
    >>> policy = DiscreteSACPolicy(**nets, **optims, action_space=Discrete(2))
    >>> policy(Batch(obs=torch.zeros(5, 4), info={})).act.shape
    torch.Size([5])
    """

    counts_from_zero = True
    stats_class = DiscreteSACTrainingStats
    refused_options = ("action_scaling", "action_bound_method")
    deterministic_eval = True
    shortcuts: ClassVar[Shortcuts] = {"dist": Shortcut(("__call__", "forward"), "_dist_of_forward")}
    alpha: Any = OfTemperature("number")
    is_auto_alpha: Any = OfTemperature("is_learned")
    log_alpha: Any = OfTemperature("log_alpha")
    target_entropy: Any = OfTemperature("target_entropy")

    @validate_arguments
    def __init__(
        self,
        *,
        actor: nn.Module,
        actor_optim: OptionalOptimizer,
        critic: nn.Module,
        critic_optim: OptionalOptimizer,
        critic2: nn.Module | None = None,
        critic2_optim: OptionalOptimizer = None,
        action_space: Discrete,
        tau: UnitFloat = 0.005,
        gamma: UnitFloat = 0.99,
        alpha: float | tuple[float, torch.Tensor, torch.optim.Optimizer] | Alpha = 0.2,
        estimation_step: PositiveInt = 1,
        **options: Unpack[ReplayOptions],
    ) -> None:
        if not isinstance(action_space, Discrete):
            raise ValueError(f"DiscreteSAC needs a Discrete action space, got {action_space}; SACPolicy takes a Box")
        check_networks(actor=actor)
        check_output(actor, action_space)
        super().__init__(
            gamma=gamma, n_step=estimation_step, action_space=action_space, action_bound_method=None, **options
        )
        self.actor, self.tau = actor, tau
        self.actor_optim = make_optimizer(actor_optim, actor.parameters())
        twins = twin_critics(critic, critic_optim, critic2, critic2_optim)
        self.critic, self.critic_optim, self.critic2, self.critic2_optim = twins
        self.critic_old, self.critic2_old = self.lagged_copy(self.critic), self.lagged_copy(self.critic2)
        self.temperature = make_alpha(alpha)
        if isinstance(self.temperature, AutoAlpha):
            self.alpha_optim = self.temperature.optim

    def forward(self, batch: ObsBatchProtocol, state: Any = None, **kwargs: Any) -> DistBatchProtocol:
        """Choose actions: at random, or the likeliest in evaluation mode; ``batch.obs.mask`` is true for legal ones.

        :return: ``act``, int64 ``[B]``; ``logits``; ``dist``, the distribution; ``state``, the next hidden state.
        """
        logits, hidden = self.actor(batch.obs, state=state, info=batch.info)
        logits = legal_logits(logits, action_mask(batch.obs))
        dist = Categorical(logits)
        greedy = self.deterministic_eval and not self.training
        act = dist.mode if greedy else dist.sample(generator=self._torch_rng)
        return cast(DistBatchProtocol, wrap({"logits": logits, "act": act, "state": hidden, "dist": dist}))

    def _make_chooser(self) -> Chooser:
        return ClockChooser(self, Categorical)

    def dist(self, obs: Any, state: Any = None, batch: Any = None) -> Categorical:
        """Return the distribution over actions at observations.

        :param obs: observations.
        :param state: hidden state before them.
        :param batch: the sample that they belong to, if any.
        """
        logits = self.actor(obs, state=state, info=info_of(batch))[0]
        return Categorical(legal_logits(logits, action_mask(obs)))

    def _dist_of_forward(self, obs: Any, state: Any = None, batch: Any = None) -> Any:
        """Return the distribution of an overridden :meth:`forward`; see :meth:`dist`."""
        return self(as_batch(obs) if batch is None else batch, state).dist

    def next_value(self, obs_next: Any, state: Any = None, *draws: torch.Tensor) -> torch.Tensor:
        """Return the value of the observation after the last reward, ``[B]`` (equation 10)."""
        dist = self.dist(obs_next, state)
        q_BA = torch.minimum(self.critic_old(obs_next), self.critic2_old(obs_next))
        value_B: torch.Tensor = (dist.probs * q_BA).sum(dim=1) + self.temperature.value * dist.entropy()
        return value_B

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Do one step for each critic, the actor, the temperature, and the target critics (algorithm 1)."""
        losses, errors = {}, []
        for name, optim in (("critic", self.critic_optim), ("critic2", self.critic2_optim)):
            q_B = output_of_actions(getattr(self, name)(sample.obs), sample.act)
            error_B = sample.returns - q_B
            critic_loss = (sample.weight * error_B.square()).mean()
            descend(critic_loss, optim)
            losses["critic1_loss" if name == "critic" else "critic2_loss"] = critic_loss.detach()
            errors.append(error_B.detach())

        dist = self.dist(sample.obs, sample.state, sample.batch)
        entropy_B = dist.entropy()
        with torch.no_grad():
            q_BA = torch.minimum(self.critic(sample.obs), self.critic2(sample.obs))
        actor_loss = -(self.temperature.value * entropy_B + (dist.probs * q_BA).sum(dim=1)).mean()  # equation 12
        descend(actor_loss, self.actor_optim)

        losses |= {"actor_loss": actor_loss.detach(), **self.temperature.descend(-entropy_B)}  # equation 11
        losses["alpha"] = self.temperature.value.reshape(())
        self.sync_weight()
        return losses, (errors[0] + errors[1]) / 2

    def sync_weight(self) -> None:
        """Move the target critics a step towards the trained ones."""
        self.soft_update(self.critic_old, self.critic, self.tau)
        self.soft_update(self.critic2_old, self.critic2, self.tau)

    def actions(self, act: Any, device: torch.device) -> torch.Tensor:
        """Return stored actions as indices, ``[B]``."""
        return torch.as_tensor(act, dtype=torch.int64, device=device).flatten()

    def _set_td_error(self, batch: Any, error_B: torch.Tensor) -> None:
        """Store errors for priorities, and as ``weight`` with the opposite sign."""
        batch.td_error, batch.weight = error_B, -error_B
