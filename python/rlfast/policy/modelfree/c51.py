from dataclasses import dataclass
from typing import Any, TypeVar

import gymnasium as gym
import torch
from torch import nn

from rlfast.policy.base import TLearningRateScheduler
from rlfast.policy.learners.discrete.categorical_learner import CategoricalLearner
from rlfast.policy.learners.replay_learner import Losses, Sample
from rlfast.policy.modelfree.dqn import DQNPolicy, DQNTrainingStats
from rlfast.utils.arguments.validation import FiniteFloat, NonNegativeInt, PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.optim import OptimizerFactory


@dataclass(kw_only=True)
class C51TrainingStats(DQNTrainingStats):
    """The statistics of one gradient step of C51."""


TC51TrainingStats = TypeVar("TC51TrainingStats", bound=C51TrainingStats)


@DQNPolicy.register
class C51Policy(CategoricalLearner):
    r"""Categorical DQN (Bellemare, Dabney and Munos, arXiv:1707.06887, algorithm 1).

    The network computes the probabilities of N evenly spaced returns, z, for each action:

    .. math::
        a^* &= \arg\max_a \sum_i z_i\, p_i(s_{t+k}, a), \qquad
        G_j = \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k z_j \\
        L &= -\frac1B \sum w \sum_i \bigl(\Phi\, p^-(s_{t+k}, a^*)\bigr)_i \log p_i(s_t, a_t)

    with the projection :math:`\Phi` of :func:`rlfast.functional.losses.projected_distribution`. The cross-entropies are
    the errors of prioritized replay.

    :param model: called as ``model(obs, state=None, info={})``; returns probabilities ``[B, actions, N]``, as
        ``Net(..., softmax=True, num_atoms=N)`` does, and the next hidden state.
    :param optim: an optimizer of ``model``, a factory such as :func:`rlfast.utils.optim.adam`, or None for a policy
        that only acts.
    :param discount_factor: discount of future rewards, :math:`\gamma`, in [0, 1]. Default: 0.99.
    :param num_atoms: N, 2 or more. Default: 51.
    :param v_min: the smallest of the returns z. Default: -10.
    :param v_max: the largest one. Default: 10.
    :param estimation_step: n, the largest number of steps to sum rewards over. Default: 1.
    :param target_update_freq: number of gradient steps between copies to the target network; 0 for no target
        network. Default: 0.
    :param reward_normalization: must be False.
    :param is_double: whether the trained network chooses the action whose distribution by the target network is the
        target, and not the target network itself. Default: True.
    :param clip_loss_grad: has no effect: probabilities have no errors to clip. Default: False.
    :param action_space: action space of one environment, a Discrete.
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param lr_scheduler: a schedule that takes a step after each update. Default: None.
    :param compile: whether a whole update is compiled into one graph; see :class:`DQNPolicy`. Default: False.
    :raises ValueError: for a value out of range.

    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.optim import adam
    >>> model = Net(4, 2, [64], softmax=True, num_atoms=51)
    >>> policy = C51Policy(model=model, optim=adam(1e-3), action_space=gym.spaces.Discrete(2), target_update_freq=100)
    >>> policy(Batch(obs=torch.zeros(3, 4), info={})).logits.shape
    torch.Size([3, 2, 51])
    """

    stats_class = C51TrainingStats
    learns_from_sequences = True

    @validate_arguments
    def __init__(
        self,
        *,
        model: nn.Module,
        optim: torch.optim.Optimizer | OptimizerFactory | None,
        action_space: gym.Space[Any],
        discount_factor: UnitFloat = 0.99,
        num_atoms: PositiveInt = 51,
        v_min: FiniteFloat = -10.0,
        v_max: FiniteFloat = 10.0,
        estimation_step: PositiveInt = 1,
        target_update_freq: NonNegativeInt = 0,
        reward_normalization: bool = False,
        is_double: bool = True,
        clip_loss_grad: bool = False,
        observation_space: gym.Space[Any] | None = None,
        lr_scheduler: TLearningRateScheduler | None = None,
        compile: bool = False,
    ) -> None:
        super().__init__(
            model=model,
            optim=optim,
            action_space=action_space,
            discount_factor=discount_factor,
            num_atoms=num_atoms,
            v_min=v_min,
            v_max=v_max,
            estimation_step=estimation_step,
            target_update_freq=target_update_freq,
            reward_normalization=reward_normalization,
            is_double=is_double,
            clip_loss_grad=clip_loss_grad,
            observation_space=observation_space,
            lr_scheduler=lr_scheduler,
        )
        self.compile_update(compile, model)

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Update the target network if it is due, and do one gradient step on the loss."""
        if sample.is_due:
            self.sync_weight()
        return self.descend_cross_entropy(sample)
