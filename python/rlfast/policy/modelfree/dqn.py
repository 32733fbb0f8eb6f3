from dataclasses import dataclass
from typing import Any, TypeVar

import gymnasium as gym
import torch

from rlfast.functional.losses import huber_loss, max_value, squared_loss, td_error
from rlfast.policy.base import TLearningRateScheduler, TrainingStats
from rlfast.policy.components.action_masks import action_mask, legal_values
from rlfast.policy.learners.discrete.q_learner import QLearner
from rlfast.policy.learners.replay_learner import Losses, Sample
from rlfast.utils.arguments.validation import NonNegativeInt, PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.optim import OptimizerFactory, descend


@dataclass(kw_only=True)
class DQNTrainingStats(TrainingStats):
    """The statistics of one gradient step of DQN."""

    loss: float
    """The loss before the step."""


TDQNTrainingStats = TypeVar("TDQNTrainingStats", bound=DQNTrainingStats)


class DQNPolicy(QLearner):
    r"""Deep Q-learning (Mnih et al. 2015, doi:10.1038/nature14236), by default in its double form (arXiv:1509.06461).

    .. math::
        G_t &= \sum_{i=0}^{k-1} \gamma^i r_{t+i}
            + \gamma^k\, Q^-\bigl(s_{t+k}, \arg\max_a Q(s_{t+k}, a)\bigr) \\
        L &= \frac1B \sum w\, \ell\bigl(G_t - Q(s_t, a_t)\bigr), \qquad Q^- \leftarrow Q \text{ every } C \text{ steps}

    with :math:`\ell` the square or Huber's function and w the weights of prioritized replay (arXiv:1511.05952), 1
    without it. A dueling network (arXiv:1511.06581) needs only another model.

    If a subclass or an assignment replaces :meth:`forward`, :meth:`compute_q_value` or ``_target_q(buffer, indices)``,
    or there are hooks, learning calls these methods.

    :param model: called as ``model(obs, state=None, info={})``; returns action values ``[B, actions]`` and the next
        hidden state.
    :param optim: an optimizer of ``model``, or a factory such as :func:`rlfast.utils.optim.adam`, called with its
        parameters; None for a policy that only acts.
    :param discount_factor: discount of future rewards, :math:`\gamma`, in [0, 1]. Default: 0.99.
    :param estimation_step: n, the largest number of steps to sum rewards over. Default: 1.
    :param target_update_freq: C, number of gradient steps between copies to the target network; 0 for no
        target network. Default: 0.
    :param reward_normalization: must be False.
    :param is_double: whether the trained network chooses the action whose value the target network estimates. Default:
        True.
    :param clip_loss_grad: whether to use Huber's function, whose gradient is at most 1, instead of the square. Default:
        False.
    :param action_space: action space of one environment. A space that is not ``Discrete`` causes a warning, as a
        subclass or a wrapped environment may accept actions 0, 1, 2, ...
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param lr_scheduler: a schedule that takes a step after each update. Default: None.
    :param compile: whether targets, loss, gradients and step are compiled into one graph, which is about twice as fast,
        after some ten seconds of compilation. It needs observations that are arrays, a network without recurrence, and
        Adam, AdamW, RMSprop or SGD. Default: False.
    :raises ValueError: for a value out of range, or an update that cannot be compiled.

    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.optim import adam
    >>> space = gym.spaces.Discrete(2)
    >>> policy = DQNPolicy(model=Net(4, 2, [64]), optim=adam(1e-3), action_space=space, target_update_freq=100)
    >>> policy(Batch(obs=torch.zeros(3, 4), info={})).act.shape
    (3,)
    """

    stats_class = DQNTrainingStats
    learns_from_sequences = True

    @validate_arguments
    def __init__(
        self,
        *,
        model: torch.nn.Module,
        optim: torch.optim.Optimizer | OptimizerFactory | None,
        action_space: gym.Space[Any],
        discount_factor: UnitFloat = 0.99,
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
        )
        self.is_double = is_double
        self.clip_loss_grad = clip_loss_grad
        self.compile_update(compile, model)

    def next_value(self, obs_next: Any, state: Any = None, *draws: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Return the value of the observation after the last reward, ``[B]``."""
        double = self.model_old is not None and self.is_double
        is_replaced = self.must_call_forward("compute_q_value")  # a subclass may choose actions in its own way
        if double or is_replaced:
            act_B, q_BA = self.greedy_actions(obs_next, state)
        if self.model_old is not None or not is_replaced:
            q_BA = self.values(obs_next, state, model="model" if self.model_old is None else "model_old")
        if double or (is_replaced and self.model_old is None):
            return q_BA.gather(1, act_B[:, None]).squeeze(1)
        return max_value(legal_values(q_BA, action_mask(obs_next)))

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Update the target network if it is due, and do one gradient step on the loss."""
        if sample.is_due:
            self.sync_weight()
        q_BA = self.values(sample.obs, sample.state, sample.batch)
        error_B = td_error(q_BA, sample.act, sample.returns)
        loss = (huber_loss if self.clip_loss_grad else squared_loss)(error_B, sample.weight)
        descend(loss, self.optim)
        return {"loss": loss.detach()}, error_B.detach()
