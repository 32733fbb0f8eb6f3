from dataclasses import dataclass
from typing import Any, TypeVar

import gymnasium as gym
import torch
from numpy.typing import NDArray
from torch import nn

from rlfast.functional.losses import cross_entropy, projected_distribution
from rlfast.policy._replaced import stock
from rlfast.policy.base import TLearningRateScheduler, TrainingStats
from rlfast.policy.q_learner import QLearner, legal_values, of_actions
from rlfast.policy.replay_learner import Losses, Sample
from rlfast.utils.net.common import device_of
from rlfast.utils.optim import OptimizerFactory, descend
from rlfast.utils.validation import FiniteFloat, NonNegativeInt, PositiveInt, UnitFloat, validate_arguments


@dataclass(kw_only=True)
class C51TrainingStats(TrainingStats):
    """What one gradient step of C51 tells."""

    loss: float
    """The loss before the step."""


TC51TrainingStats = TypeVar("TC51TrainingStats", bound=C51TrainingStats)


@stock("compute_q_value")
class C51Policy(QLearner):
    r"""Categorical DQN (Bellemare, Dabney and Munos, arXiv:1707.06887, algorithm 1).

    The network gives the probabilities of N evenly spaced returns, z, for each action:

    .. math::
        a^* &= \arg\max_a \sum_i z_i\, p_i(s_{t+k}, a), \qquad
        G_j = \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k z_j \\
        L &= -\frac1B \sum w \sum_i \bigl(\Phi\, p^-(s_{t+k}, a^*)\bigr)_i \log p_i(s_t, a_t)

    with the projection :math:`\Phi` of :func:`rlfast.functional.losses.projected_distribution`. The cross-entropies are
    the errors of prioritized replay.

    :param model: called as ``model(obs, state=None, info={})``; gives probabilities ``[B, actions, N]``, as ``Net(...,
        softmax=True, num_atoms=N)`` does, and the next hidden state.
    :param optim: optimizes ``model``: an optimizer, a factory such as :func:`rlfast.utils.optim.adam`, or None for a
        policy that only acts.
    :param discount_factor: :math:`\gamma`, in [0, 1]. Default: 0.99.
    :param num_atoms: N, 2 or more. Default: 51.
    :param v_min: the smallest of the returns z. Default: -10.
    :param v_max: the largest one. Default: 10.
    :param estimation_step: n, the most steps to sum rewards over. Default: 1.
    :param target_update_freq: gradient steps between copies to the target network; 0 for no target network. Default: 0.
    :param reward_normalization: must be False.
    :param is_double: whether the trained network chooses the action whose distribution by the target network is the
        target, and not the target network itself. Default: True.
    :param clip_loss_grad: has no effect: probabilities have no errors to clip. Default: False.
    :param action_space: of one environment, a Discrete.
    :param observation_space: of one environment, kept for reference. Default: None.
    :param lr_scheduler: takes a step after each update. Default: None.
    :param compile: whether a whole update becomes one graph; see :class:`DQNPolicy`. Default: False.
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
    learns_from_returns = False

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
        if num_atoms < 2:
            raise ValueError(f"num_atoms must be at least 2, got {num_atoms}")
        if not v_min < v_max:
            raise ValueError(f"v_min must be below v_max, got {v_min} and {v_max}")
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
        )
        self.is_double, self.clip_loss_grad = is_double, clip_loss_grad
        self.support = nn.Parameter(torch.linspace(v_min, v_max, num_atoms, device=device_of(model)), False)
        self.delta_z = (v_max - v_min) / (num_atoms - 1)
        self.compile_update(compile, model)

    def compute_q_value(self, logits: torch.Tensor, mask: NDArray[Any] | torch.Tensor | None) -> torch.Tensor:
        """Give the expected returns, ``[B, actions]``; see :meth:`QLearner.compute_q_value`."""
        return legal_values((logits * self.support).sum(dim=2), mask)

    def next_value(self, obs_next: Any, state: Any = None, *draws: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Give the probabilities of the returns after the last reward, ``[B, N]``."""
        return self.of_best_action(obs_next, state, double=self.is_double)

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Copy the target network if it is time, and do one step down the loss."""
        if sample.is_due:
            self.sync_weight()
        with torch.no_grad():
            prob_BN = self.next_value(sample.obs_next, sample.state_next)
            returns_BN = self.returns_of(sample, self.support.expand_as(prob_BN))
            target_BN = projected_distribution(returns_BN, prob_BN, self.support)  # equation 7
        prob_BN = of_actions(self.values(sample.obs, sample.state, sample.batch), sample.act)
        error_B = cross_entropy(target_BN, prob_BN)  # algorithm 1
        loss = (error_B if sample.weight is None else sample.weight * error_B).mean()
        descend(loss, self.optim)
        return {"loss": loss.detach()}, error_B.detach()
