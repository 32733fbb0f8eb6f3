from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Box
from torch import nn

from rlfast.exploration import BaseNoise
from rlfast.functional.offline import squared_distance
from rlfast.policy.base import TLearningRateScheduler
from rlfast.policy.components.returns import Index
from rlfast.policy.learners.continuous.twin_delayed_learner import TwinDelayedLearner
from rlfast.policy.learners.replay_learner import Losses, Sample
from rlfast.policy.modelfree.td3 import TD3TrainingStats
from rlfast.utils.arguments.validation import NonNegativeFloat, PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.optim import OptimizerFactory

if TYPE_CHECKING:
    from rlfast.data import ReplayBuffer


@dataclass(kw_only=True)
class ReBRACTrainingStats(TD3TrainingStats):
    """The statistics of one update of ReBRAC: losses before their steps."""


class ReBRACPolicy(TwinDelayedLearner):
    r"""Revisited behaviour-regularized actor-critic, from fixed data (Tarasov et al., arXiv:2305.09836, section 3).

    .. math::
        y &= r + \gamma \Bigl( \min_j Q^-_j(s', \tilde a) - \beta_2 \|\tilde a - \hat a'\|^2 \Bigr), \qquad
            \tilde a = \mu^-(s') + \mathrm{clip}(\epsilon, -c, c) \\
        L(\mu) &= \frac1B \sum \beta_1 \|\mu(s) - \hat a\|^2 - \lambda \min_j Q_j\bigl(s, \mu(s)\bigr), \qquad
            \lambda = \frac1{\frac1B \sum |\min_j Q_j|}

    with the actions :math:`\hat a, \hat a'` of the data. Where an episode of the data was cut off, its next action is
    not known, and the penalty of the target is 0. The paper has critics of three hidden layers with layer
    normalization.

    :param actor: called as ``actor(obs, state=..., info=...)``; returns actions ``[B, size]`` and the next hidden
        state, as :class:`rlfast.utils.net.continuous.Actor` does.
    :param actor_optim: an optimizer of ``actor``, or a factory such as :func:`rlfast.utils.optim.adam`; None, as for
        the critics', for a policy that only acts.
    :param critic: called as ``critic(obs, act)``; returns ``[B, 1]``.
    :param critic_optim: an optimizer of ``critic``, or a factory.
    :param action_space: action space of one environment, a Box.
    :param critic2: the second critic; None for a copy of the first with new parameters. Default: None.
    :param critic2_optim: an optimizer of ``critic2``; None for one like that of the first. Default: None.
    :param tau: size of the steps of target networks towards the trained ones, in [0, 1]. Default: 0.005.
    :param gamma: discount of future rewards, in [0, 1]. Default: 0.99.
    :param actor_penalty: :math:`\beta_1`, 0 or more. Default: 0.01.
    :param critic_penalty: :math:`\beta_2`, 0 or more. Default: 0.01.
    :param normalize_value: whether :math:`\lambda` is as above, or 1. Default: True.
    :param exploration_noise: noise that collectors add to actions on request; ``"default"`` (default) for normal noise
        of 0.1, None for none.
    :param policy_noise: standard deviation of :math:`\epsilon`, 0 or more. Default: 0.2.
    :param update_actor_freq: number of gradient steps of the critics for one of the actor. Default: 2.
    :param noise_clip: :math:`c`; 0 for no limit. Default: 0.5.
    :param estimation_step: the largest number of steps to sum rewards over. Default: 1.
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param action_scaling: whether actions are stretched from [-1, 1] to the bounds of the Box. Default: True.
    :param action_bound_method: ``"clip"`` (default) or None, for actions that noise may have moved out of [-1, 1].
    :param lr_scheduler: a schedule that takes a step after each update. Default: None.
    :param compile: whether a whole update is compiled into one graph; see :class:`DQNPolicy`. Default: False.
    :raises ValueError: for a value out of range, another kind of action space, or an optimizer for a ``critic2`` that
        is not given.
    """

    stats_class = ReBRACTrainingStats
    learns_from_returns = False
    extra_names = ("act_next", "has_next")

    @validate_arguments
    def __init__(
        self,
        *,
        actor: nn.Module,
        actor_optim: torch.optim.Optimizer | OptimizerFactory | None,
        critic: nn.Module,
        critic_optim: torch.optim.Optimizer | OptimizerFactory | None,
        action_space: "Box[Any]",
        critic2: nn.Module | None = None,
        critic2_optim: torch.optim.Optimizer | OptimizerFactory | None = None,
        tau: UnitFloat = 0.005,
        gamma: UnitFloat = 0.99,
        actor_penalty: NonNegativeFloat = 0.01,
        critic_penalty: NonNegativeFloat = 0.01,
        normalize_value: bool = True,
        exploration_noise: BaseNoise | Literal["default"] | None = "default",
        policy_noise: NonNegativeFloat = 0.2,
        update_actor_freq: PositiveInt = 2,
        noise_clip: NonNegativeFloat = 0.5,
        estimation_step: PositiveInt = 1,
        observation_space: gym.Space[Any] | None = None,
        action_scaling: bool = True,
        action_bound_method: Literal["clip"] | None = "clip",
        lr_scheduler: TLearningRateScheduler | None = None,
        compile: bool = False,
    ) -> None:
        super().__init__(
            actor=actor,
            actor_optim=actor_optim,
            action_space=action_space,
            tau=tau,
            gamma=gamma,
            estimation_step=estimation_step,
            exploration_noise=exploration_noise,
            action_scaling=action_scaling,
            action_bound_method=action_bound_method,
            observation_space=observation_space,
            lr_scheduler=lr_scheduler,
        )
        self.add_critics(critic, critic_optim, critic2, critic2_optim)
        self.set_delay(policy_noise, noise_clip, update_actor_freq)
        self.actor_penalty, self.critic_penalty = actor_penalty, critic_penalty
        self.normalize_value = normalize_value
        self.compile_update(compile, actor, critic, self.critic2)

    def _add_nstep_parts(self, batch: Any, buffer: "ReplayBuffer", indices: Index) -> Index:
        """Add also the actions after the last rewards, and whether they are known."""
        last = super()._add_nstep_parts(batch, buffer, indices)
        following = np.asarray(buffer.next(last))
        batch.act_next = np.asarray(buffer.get(following, "act", stack_num=1))
        batch.has_next = following != last
        return last

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Do one step for each critic and, if it is due, one for the actor and one of the target networks."""
        act_next, has_next_B = sample.extras
        with torch.no_grad():
            act = self.smoothed_actions(sample.obs_next, sample.state_next, *sample.draws_next)
            value_B = torch.minimum(*self.critic_values(sample.obs_next, act, old=True))
            penalty_B = squared_distance(act, act_next.to(act.dtype)) * has_next_B
            returns = self.returns_of(sample, value_B - self.critic_penalty * penalty_B)
        return super().gradient_step(sample._replace(returns=returns))

    def actor_loss(self, sample: Sample) -> torch.Tensor:
        """Return the loss of the actor: the distance from the actions of the data, and value."""
        act = self.best_actions(sample.obs, sample.state, sample.batch)
        q_B = torch.minimum(*self.critic_values(sample.obs, act))
        scale: Any = 1 / q_B.detach().abs().mean() if self.normalize_value else 1.0
        loss: torch.Tensor = self.actor_penalty * squared_distance(act, sample.act) - scale * q_B
        return loss.mean()
