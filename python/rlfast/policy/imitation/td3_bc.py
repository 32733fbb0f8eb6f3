from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import gymnasium as gym
import torch
from gymnasium.spaces import Box
from torch import nn

from rlfast.exploration import BaseNoise
from rlfast.functional.offline import regularized_actor_loss
from rlfast.policy.base import TLearningRateScheduler
from rlfast.policy.learners.continuous.twin_delayed_learner import TwinDelayedLearner
from rlfast.policy.learners.replay_learner import Sample
from rlfast.policy.modelfree.td3 import TD3Policy, TD3TrainingStats
from rlfast.utils.arguments.validation import NonNegativeFloat, PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.optim import OptimizerFactory


@dataclass(kw_only=True)
class TD3BCTrainingStats(TD3TrainingStats):
    """The statistics of one update of TD3+BC: losses before their steps."""


TTD3BCTrainingStats = TypeVar("TTD3BCTrainingStats", bound=TD3BCTrainingStats)


@TD3Policy.register
class TD3BCPolicy(TwinDelayedLearner):
    r"""TD3 with behavioural cloning, from fixed data (Fujimoto and Gu, arXiv:2106.06860).

    The critics learn as those of :class:`TD3Policy`; the actor's loss also has the distance from the actions of the
    data:

    .. math::
        L(\mu) = -\frac{\alpha}{\frac1B \sum |Q_1(s, \mu(s))|} \frac1B \sum Q_1\bigl(s, \mu(s)\bigr)
            + \frac1{BD} \sum \|\mu(s) - a\|^2

    If a subclass or an assignment replaces :meth:`forward`, ``_target_q(buffer, indices)`` or ``_mse_optimizer(batch,
    critic, optimizer)``, or there are hooks, learning calls these methods.

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
    :param exploration_noise: noise that collectors add to actions on request; ``"default"`` (default) for normal noise
        of 0.1, None for none.
    :param policy_noise: standard deviation of the noise of target actions, 0 or more. Default: 0.2.
    :param update_actor_freq: number of gradient steps of the critics for one of the actor. Default: 2.
    :param noise_clip: the largest noise of target actions; 0 for no limit. Default: 0.5.
    :param alpha: :math:`\alpha`, weight of the value, 0 or more; 0 is imitation. Default: 2.5.
    :param estimation_step: the largest number of steps to sum rewards over. Default: 1.
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param action_scaling: whether actions are stretched from [-1, 1] to the bounds of the Box. Default: True.
    :param action_bound_method: ``"clip"`` (default) or None, for actions that noise may have moved out of [-1, 1].
    :param lr_scheduler: a schedule that takes a step after each update. Default: None.
    :param compile: whether a whole update is compiled into one graph; see :class:`DQNPolicy`. Default: False.
    :raises ValueError: for a value out of range, another kind of action space, or an optimizer for a ``critic2`` that
        is not given.

    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.net.continuous import Actor, Critic
    >>> from rlfast.utils.optim import adam
    >>> critic, optim = Critic(Net(3, 1, hidden_sizes=[64], concat=True)), adam(3e-4)
    >>> nets = {"actor": Actor(Net(3, hidden_sizes=[64]), 1), "critic": critic}
    >>> policy = TD3BCPolicy(**nets, actor_optim=optim, critic_optim=optim, action_space=Box(-2.0, 2.0))
    >>> policy(Batch(obs=torch.zeros(5, 3), info={})).act.shape
    torch.Size([5, 1])
    """

    stats_class = TD3BCTrainingStats

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
        exploration_noise: BaseNoise | Literal["default"] | None = "default",
        policy_noise: NonNegativeFloat = 0.2,
        update_actor_freq: PositiveInt = 2,
        noise_clip: NonNegativeFloat = 0.5,
        alpha: NonNegativeFloat = 2.5,
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
        self.alpha = alpha
        self.compile_update(compile, actor, critic, self.critic2)

    def actor_loss(self, sample: Sample) -> torch.Tensor:
        """Return the loss of the actor: value, and the distance from the actions of the data."""
        act = self.best_actions(sample.obs, sample.state, sample.batch)
        q_B = self.value_of(self.critic, sample.obs, act)
        return regularized_actor_loss(q_B, act, sample.act, self.alpha)  # equation 3
