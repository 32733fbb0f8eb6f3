from dataclasses import dataclass
from typing import Any, TypeVar

import gymnasium as gym
import torch
from torch import nn

from rlfast.policy.base import TLearningRateScheduler
from rlfast.policy.learners.discrete.fixed_quantile_learner import FixedQuantileLearner
from rlfast.policy.learners.replay_learner import Losses, Sample
from rlfast.policy.modelfree.dqn import DQNPolicy, DQNTrainingStats
from rlfast.utils.arguments.validation import NonNegativeInt, PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.optim import OptimizerFactory, descend


@dataclass(kw_only=True)
class QRDQNTrainingStats(DQNTrainingStats):
    """The statistics of one gradient step of QRDQN."""


TQRDQNTrainingStats = TypeVar("TQRDQNTrainingStats", bound=QRDQNTrainingStats)


@DQNPolicy.register
class QRDQNPolicy(FixedQuantileLearner):
    r"""Quantile regression DQN (Dabney et al., arXiv:1710.10044, algorithm 1).

    The network estimates N quantiles of the return, :math:`\theta`, for each action:

    .. math::
        a^* &= \arg\max_a \frac1N \sum_i \theta_i(s_{t+k}, a), \qquad
        y_j = \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k\, \theta^-_j(s_{t+k}, a^*) \\
        L &= \frac1B \sum w \sum_i \frac1N \sum_j \rho_{\hat\tau_i}\bigl(y_j - \theta_i(s_t, a_t)\bigr), \qquad
        \hat\tau_i = \frac{2 i - 1}{2 N}

    with :math:`\rho` of :func:`rlfast.functional.losses.quantile_huber`.

    :param model: called as ``model(obs, state=None, info={})``; returns quantiles ``[B, actions, N]``, as ``Net(...,
        num_atoms=N)`` does, and the next hidden state.
    :param optim: an optimizer of ``model``, a factory such as :func:`rlfast.utils.optim.adam`, or None for a policy
        that only acts.
    :param discount_factor: discount of future rewards, :math:`\gamma`, in [0, 1]. Default: 0.99.
    :param num_quantiles: N, 2 or more. Default: 200.
    :param estimation_step: n, the largest number of steps to sum rewards over. Default: 1.
    :param target_update_freq: number of gradient steps between copies to the target network; 0 for no target
        network. Default: 0.
    :param reward_normalization: must be False.
    :param is_double: whether the trained network chooses the action whose distribution by the target network is the
        target, and not the target network itself. Default: True.
    :param clip_loss_grad: has no effect: Huber's function clips. Default: False.
    :param action_space: action space of one environment, a Discrete.
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param lr_scheduler: a schedule that takes a step after each update. Default: None.
    :param compile: whether a whole update is compiled into one graph; see :class:`DQNPolicy`. Default: False.
    :raises ValueError: for a value out of range.

    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.optim import adam
    >>> model, space = Net(4, 2, [64], num_atoms=200), gym.spaces.Discrete(2)
    >>> policy = QRDQNPolicy(model=model, optim=adam(1e-3), action_space=space, target_update_freq=100)
    >>> policy(Batch(obs=torch.zeros(3, 4), info={})).logits.shape
    torch.Size([3, 2, 200])
    """

    stats_class = QRDQNTrainingStats
    learns_from_sequences = True

    @validate_arguments
    def __init__(
        self,
        *,
        model: nn.Module,
        optim: torch.optim.Optimizer | OptimizerFactory | None,
        action_space: gym.Space[Any],
        discount_factor: UnitFloat = 0.99,
        num_quantiles: PositiveInt = 200,
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
            estimation_step=estimation_step,
            target_update_freq=target_update_freq,
            reward_normalization=reward_normalization,
            observation_space=observation_space,
            lr_scheduler=lr_scheduler,
            num_quantiles=num_quantiles,
            is_double=is_double,
            clip_loss_grad=clip_loss_grad,
        )
        self.compile_update(compile, model)

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Update the target network if it is due, and do one gradient step on the loss."""
        if sample.is_due:
            self.sync_weight()
        loss, error_B = self.quantile_loss(sample, self.values(sample.obs, sample.state, sample.batch))
        descend(loss, self.optim)
        return {"loss": loss.detach()}, error_B
