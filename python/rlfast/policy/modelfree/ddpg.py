from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import gymnasium as gym
import torch
from gymnasium.spaces import Box
from torch import nn

from rlfast.exploration import BaseNoise
from rlfast.policy.base import TLearningRateScheduler, TrainingStats
from rlfast.policy.learners.continuous.deterministic_actor import DeterministicActor
from rlfast.utils.arguments.validation import PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.optim import OptimizerFactory


@dataclass(kw_only=True)
class DDPGTrainingStats(TrainingStats):
    """The statistics of one update of DDPG: losses before their steps."""

    actor_loss: float
    critic_loss: float


TDDPGTrainingStats = TypeVar("TDDPGTrainingStats", bound=DDPGTrainingStats)


class DDPGPolicy(DeterministicActor):
    r"""Deep deterministic policy gradient (Lillicrap et al., arXiv:1509.02971, algorithm 1).

    .. math::
        y &= \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k\, Q^-\bigl(s_{t+k}, \mu^-(s_{t+k})\bigr) \\
        L(Q) &= \frac1B \sum w\, \bigl(y - Q(s_t, a_t)\bigr)^2, \qquad
        L(\mu) = -\frac1B \sum Q\bigl(s_t, \mu(s_t)\bigr) \\
        Q^- &\leftarrow Q^- + \tau\,(Q - Q^-), \qquad \mu^- \leftarrow \mu^- + \tau\,(\mu - \mu^-)

    If a subclass or an assignment replaces :meth:`forward`, ``_target_q(buffer, indices)`` or ``_mse_optimizer(batch,
    critic, optimizer)``, or there are hooks, learning calls these methods.

    :param actor: called as ``actor(obs, state=..., info=...)``; returns actions ``[B, size]`` and the next hidden
        state, as :class:`rlfast.utils.net.continuous.Actor` does.
    :param actor_optim: an optimizer of ``actor``, or a factory such as :func:`rlfast.utils.optim.adam`; None, as for
        the critic's, for a policy that only acts.
    :param critic: called as ``critic(obs, act)``; returns ``[B, 1]``.
    :param critic_optim: an optimizer of ``critic``, or a factory.
    :param action_space: action space of one environment, a Box.
    :param tau: :math:`\tau`, the size of the steps of target networks, in [0, 1]. Default: 0.005.
    :param gamma: discount of future rewards, in [0, 1]. Default: 0.99.
    :param exploration_noise: noise that collectors add to actions on request; ``"default"`` (default) for
        normal noise of 0.1, None for none.
    :param estimation_step: the largest k, the number of steps to sum rewards over. Default: 1.
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param action_scaling: whether actions are stretched from [-1, 1] to the bounds of the Box, as an actor with
        ``max_action=1`` needs. Default: True.
    :param action_bound_method: ``"clip"`` (default) or None, for actions that noise may have moved out of [-1, 1].
    :param lr_scheduler: a schedule that takes a step after each update. Default: None.
    :param compile: whether a whole update is compiled into one graph; see :class:`DQNPolicy`. Default: False.
    :raises ValueError: for a value out of range, or another kind of action space.

    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.net.continuous import Actor, Critic
    >>> from rlfast.utils.optim import adam
    >>> critic, optim = Critic(Net(3, 1, hidden_sizes=[64], concat=True)), adam(1e-3)
    >>> nets = {"actor": Actor(Net(3, hidden_sizes=[64]), 1), "critic": critic}
    >>> policy = DDPGPolicy(**nets, actor_optim=optim, critic_optim=optim, action_space=Box(-2.0, 2.0))
    >>> policy(Batch(obs=torch.zeros(5, 3), info={})).act.shape
    torch.Size([5, 1])
    """

    stats_class = DDPGTrainingStats
    learns_from_sequences = True
    lagged_names = ("actor", "critic")

    @validate_arguments
    def __init__(
        self,
        *,
        actor: nn.Module,
        actor_optim: torch.optim.Optimizer | OptimizerFactory | None,
        critic: nn.Module,
        critic_optim: torch.optim.Optimizer | OptimizerFactory | None,
        action_space: "Box[Any]",
        tau: UnitFloat = 0.005,
        gamma: UnitFloat = 0.99,
        exploration_noise: BaseNoise | Literal["default"] | None = "default",
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
        self.add_critics(critic, critic_optim)
        self.compile_update(compile, actor, critic)

    def next_value(self, obs_next: Any, state: Any = None, *draws: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Return the value of the observation after the last reward, ``[B]``."""
        return self.critic_values(obs_next, self.best_actions(obs_next, state, model="actor_old"), old=True)[0]
