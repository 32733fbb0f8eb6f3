from dataclasses import dataclass
from typing import Any, TypeVar

import gymnasium as gym
import torch
from torch import nn

from rlfast.policy.base import TLearningRateScheduler
from rlfast.policy.learners.discrete.categorical_learner import CategoricalLearner
from rlfast.policy.learners.replay_learner import Losses, Sample
from rlfast.policy.modelfree.c51 import C51Policy, C51TrainingStats
from rlfast.utils.arguments.validation import FiniteFloat, NonNegativeInt, PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.net.discrete import NoisyLinear, scaled_noise
from rlfast.utils.optim import OptimizerFactory


@dataclass(kw_only=True)
class RainbowTrainingStats(C51TrainingStats):
    """The statistics of one gradient step of Rainbow."""


TRainbowTrainingStats = TypeVar("TRainbowTrainingStats", bound=RainbowTrainingStats)


@C51Policy.register
class RainbowPolicy(CategoricalLearner):
    r"""Rainbow (Hessel et al., arXiv:1710.02298): what C51 learns, from n steps, with noise in place of random actions.

    .. math::
        a^* &= \arg\max_a \sum_i z_i\, p_i(s_{t+k}, a; \epsilon), \qquad
        G_j = \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k z_j \\
        L &= -\frac1B \sum w \sum_i \bigl(\Phi\, p^-(s_{t+k}, a^*; \epsilon^-)\bigr)_i \log p_i(s_t, a_t; \epsilon)

    with the projection :math:`\Phi` of :func:`rlfast.functional.losses.projected_distribution`. Dueling streams and the
    noise :math:`\epsilon` (arXiv:1706.10295) are a matter of the network, whose layers of
    :class:`rlfast.utils.net.discrete.NoisyLinear` get new noise at each update, those of the target network noise of
    their own; prioritized replay is a matter of the buffer. The cross-entropies are the errors that it gets.

    :param model: called as ``model(obs, state=None, info={})``; returns probabilities ``[B, actions, N]``, as
        ``Net(..., softmax=True, num_atoms=N)`` does, and the next hidden state. Without noisy layers, this is C51.
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
    >>> from rlfast.utils.net.discrete import NoisyLinear
    >>> from rlfast.utils.optim import adam
    >>> streams = {"hidden_sizes": [64], "linear_layer": NoisyLinear}
    >>> model = Net(4, 2, [64], softmax=True, num_atoms=51, dueling_param=(streams, streams))
    >>> space = gym.spaces.Discrete(2)
    >>> policy = RainbowPolicy(model=model, optim=adam(1e-3), action_space=space, target_update_freq=100)
    >>> policy(Batch(obs=torch.zeros(3, 4), info={})).logits.shape
    torch.Size([3, 2, 51])
    """

    stats_class = RainbowTrainingStats
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
        for layer in self._noisy("model_old"):  # a target network is in evaluation mode, where there is no noise
            layer.train()
        self.compile_update(compile, model)

    def _noisy(self, *names: str) -> list[NoisyLinear]:
        networks = (getattr(self, name) for name in names)
        return [
            layer for net in networks if net is not None for layer in net.modules() if isinstance(layer, NoisyLinear)
        ]

    def draw_step(self, rows: int) -> tuple[torch.Tensor, ...]:  # noqa: ARG002
        """Draw the noise of both networks, the trained one's first."""
        noise = (noise for layer in self._noisy("model", "model_old") for noise in (layer.eps_p, layer.eps_q))
        return tuple(scaled_noise(self.draw_normal(tuple(eps.shape), eps.dtype, eps.device)) for eps in noise)

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Update the target network if it is due, draw new noise for both, and do one gradient step on the loss."""
        if sample.is_due:
            self.sync_weight()
        draws = iter(sample.draws or self.draw_step(len(sample.act)))
        for layer in self._noisy("model", "model_old"):
            layer.eps_p.copy_(next(draws))
            layer.eps_q.copy_(next(draws))
        return self.descend_cross_entropy(sample)
