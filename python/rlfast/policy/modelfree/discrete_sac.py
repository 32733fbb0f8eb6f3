from dataclasses import dataclass
from typing import Any, TypeVar, Unpack

import torch
from gymnasium.spaces import Discrete
from torch import nn

from rlfast.policy.categorical import CategoricalLearner
from rlfast.policy.components.temperature import Alpha, AutoAlpha, OfTemperature, make_alpha
from rlfast.policy.critics import twin_critics
from rlfast.policy.modelfree.sac import SACPolicy, SACTrainingStats
from rlfast.policy.q_learner import output_of_actions
from rlfast.policy.replay import Losses, ReplayOptions, Sample
from rlfast.utils.arguments.validation import PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.optim import OptionalOptimizer, descend, make_optimizer


@dataclass(kw_only=True)
class DiscreteSACTrainingStats(SACTrainingStats):
    """The statistics of one update of discrete soft actor-critic: losses before their steps, the temperature after its
    own.
    """


TDiscreteSACTrainingStats = TypeVar("TDiscreteSACTrainingStats", bound=DiscreteSACTrainingStats)


@SACPolicy.register
class DiscreteSACPolicy(CategoricalLearner):
    r"""Soft actor-critic for discrete actions (Christodoulou, arXiv:1910.07207).

    .. math::
        V^-(s) &= \sum_a \pi(a \mid s) \min_j Q^-_j(s, a) + \alpha \mathcal H\bigl(\pi(\cdot \mid s)\bigr), \qquad
        y = \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k V^-(s_{t+k}) \\
        L(Q_j) &= \frac1B \sum w\, \bigl(y - Q_j(s_t, a_t)\bigr)^2 \\
        L(\pi) &= -\frac1B \sum \sum_a \pi(a \mid s_t) \min_j Q_j(s_t, a)
            + \alpha \mathcal H\bigl(\pi(\cdot \mid s_t)\bigr)

    Returns sum k rewards, at most ``estimation_step``; w are the importance weights of a prioritized buffer, else 1.

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

    stats_class = DiscreteSACTrainingStats
    critic_old: nn.Module
    critic2_old: nn.Module
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
        super().__init__(
            actor=actor,
            action_space=action_space,
            gamma=gamma,
            n_step=estimation_step,
            deterministic_eval=True,
            **options,
        )
        self.actor_optim, self.tau = make_optimizer(actor_optim, actor.parameters()), tau
        twins = twin_critics(critic, critic_optim, critic2, critic2_optim)
        self.critic, self.critic_optim, self.critic2, self.critic2_optim = twins
        self.add_targets("critic", "critic2")
        self.temperature = make_alpha(alpha)
        if isinstance(self.temperature, AutoAlpha):
            self.alpha_optim = self.temperature.optim

    def next_value(self, obs_next: object, state: object = None, *draws: torch.Tensor) -> torch.Tensor:
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
