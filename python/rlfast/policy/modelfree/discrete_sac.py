from dataclasses import dataclass
from typing import Any, TypeVar

import gymnasium as gym
import torch
from gymnasium.spaces import Discrete
from torch import nn

from rlfast.policy.base import TLearningRateScheduler
from rlfast.policy.components.network_checks import check_networks, check_output
from rlfast.policy.components.temperature import Alpha
from rlfast.policy.learners.discrete.categorical_actor import CategoricalActor
from rlfast.policy.learners.replay_learner import Sample
from rlfast.policy.learners.soft_learner import SoftLearner
from rlfast.policy.modelfree.sac import SACPolicy, SACTrainingStats
from rlfast.utils.arguments.validation import PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.optim import OptimizerFactory, make_optimizer


@dataclass(kw_only=True)
class DiscreteSACTrainingStats(SACTrainingStats):
    """The statistics of one update of discrete soft actor-critic: losses before their steps, the temperature after its
    own.
    """


TDiscreteSACTrainingStats = TypeVar("TDiscreteSACTrainingStats", bound=DiscreteSACTrainingStats)


@SACPolicy.register
class DiscreteSACPolicy(SoftLearner, CategoricalActor):
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
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param lr_scheduler: a schedule that takes a step after each update. Default: None.
    :param compile: whether a whole update is compiled into one graph; see :class:`DQNPolicy`. Default: False.
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
    critic_names = lagged_names = ("critic", "critic2")

    @validate_arguments
    def __init__(
        self,
        *,
        actor: nn.Module,
        actor_optim: torch.optim.Optimizer | OptimizerFactory | None,
        critic: nn.Module,
        critic_optim: torch.optim.Optimizer | OptimizerFactory | None,
        action_space: Discrete,
        critic2: nn.Module | None = None,
        critic2_optim: torch.optim.Optimizer | OptimizerFactory | None = None,
        tau: UnitFloat = 0.005,
        gamma: UnitFloat = 0.99,
        alpha: float | tuple[float, torch.Tensor, torch.optim.Optimizer] | Alpha = 0.2,
        estimation_step: PositiveInt = 1,
        observation_space: gym.Space[Any] | None = None,
        lr_scheduler: TLearningRateScheduler | None = None,
        compile: bool = False,
    ) -> None:
        if not isinstance(action_space, Discrete):
            raise ValueError(f"DiscreteSAC needs a Discrete action space, got {action_space}; SACPolicy takes a Box")
        check_networks(actor=actor)
        check_output(actor, action_space)
        super().__init__(
            gamma=gamma,
            n_step=estimation_step,
            action_space=action_space,
            action_bound_method=None,
            observation_space=observation_space,
            lr_scheduler=lr_scheduler,
        )
        self.actor, self.tau = actor, tau
        self.actor_optim = make_optimizer(actor_optim, actor.parameters())
        self.add_critics(critic, critic_optim, critic2, critic2_optim)
        self.set_temperature(alpha)
        self.compile_update(compile, actor, critic, self.critic2)

    def next_value(self, obs_next: Any, state: Any = None, *draws: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Return the value of the observation after the last reward, ``[B]``: equation 10."""
        dist = self.choices(obs_next, state)
        expected_B: torch.Tensor = (dist.probs * self._smallest(obs_next, "_old")).sum(dim=1)
        return expected_B.add(self.temperature.value * dist.entropy())

    def actor_loss(self, sample: Sample) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss of the actor (equation 12), and minus the entropy of its distributions, ``[B]``."""
        dist = self.choices(sample.obs, sample.state, sample.batch)
        entropy_B = dist.entropy()
        with torch.no_grad():
            q_BA = self._smallest(sample.obs)
        return -(self.temperature.value * entropy_B + (dist.probs * q_BA).sum(dim=1)).mean(), -entropy_B

    def _smallest(self, obs: Any, which: str = "") -> torch.Tensor:
        """Return the smaller of both critics' values of each action, ``[B, actions]``."""
        q1_BA, q2_BA = (getattr(self, f"{name}{which}")(self.network_obs(obs)) for name in self.critic_names)
        return torch.minimum(q1_BA, q2_BA)
