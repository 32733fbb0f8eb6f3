import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import gymnasium as gym
import torch
from torch import nn
from torch.nn import functional

from rlfast.data.batch.batch import parse, wrap
from rlfast.functional.losses import huber_loss, td_error
from rlfast.functional.offline import likely_actions
from rlfast.policy.base import TLearningRateScheduler
from rlfast.policy.components.action_masks import action_mask, legal_values
from rlfast.policy.components.network_checks import check_networks
from rlfast.policy.components.overrides import replaceable
from rlfast.policy.learners.discrete.q_learner import QLearner, network_output, output_of_actions
from rlfast.policy.learners.replay_learner import Losses, Sample
from rlfast.policy.modelfree.dqn import DQNPolicy, DQNTrainingStats
from rlfast.utils.arguments.checks import ArgumentError
from rlfast.utils.arguments.validation import NonNegativeFloat, PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.optim import OptimizerFactory, descend, make_optimizer

if TYPE_CHECKING:
    from rlfast.data.types import ImitationBatchProtocol, ObsBatchProtocol

float_info = torch.finfo(torch.float32)
INF = float_info.max


@dataclass(kw_only=True)
class DiscreteBCQTrainingStats(DQNTrainingStats):
    """The statistics of one gradient step of discrete BCQ: losses before the step."""

    q_loss: float
    i_loss: float
    """Of the imitator."""
    reg_loss: float
    """The mean square of the imitator's outputs."""


TDiscreteBCQTrainingStats = TypeVar("TDiscreteBCQTrainingStats", bound=DiscreteBCQTrainingStats)


@DQNPolicy.register
@replaceable("__call__", "forward")
class DiscreteBCQPolicy(QLearner):
    r"""Batch-constrained Q-learning, from fixed data with discrete actions (Fujimoto et al., arXiv:1910.01708).

    .. math::
        \pi(s) &= \arg\max_{a:\, G(a \mid s) / \max_{\hat a} G(\hat a \mid s) \ge \tau} Q(s, a), \qquad
            y = r + \gamma Q^-\bigl(s', \pi(s')\bigr) \\
        L &= \frac1B \sum \ell\bigl(y - Q(s, a)\bigr) - \frac1B \sum \log G(a \mid s) + c \frac1{BA} \sum x^2

    (equations 17 to 19), with Huber's function :math:`\ell` and the imitator's logits x.

    :param model: called as ``model(obs, state=None, info={})``; returns action values ``[B, actions]`` and the next
        hidden state.
    :param imitator: called likewise; returns unnormalized log-probabilities of G, ``[B, actions]``. It may share layers
        with ``model``.
    :param optim: an optimizer of both networks, a factory such as :func:`rlfast.utils.optim.adam`, or None for a policy
        that only acts.
    :param action_space: action space of one environment, a Discrete.
    :param discount_factor: discount of future rewards, in [0, 1]. Default: 0.99.
        :class:`DQNPolicy` has the arguments that are not here.
    :param target_update_freq: number of gradient steps between copies to the target network, at least 1. Default: 8000.
    :param eval_eps: probability of random actions where collectors ask for noise, in [0, 1). Default: 0.001.
    :param unlikely_action_threshold: :math:`\tau`, in [0, 1). Default: 0.3.
    :param imitation_logits_penalty: c, 0 or more. Default: 0.01.
    :param reward_normalization: must be False.
    :param is_double: has no effect, as ``clip_loss_grad``: see the formulas.
    :param clip_loss_grad: as in :class:`DQNPolicy`.
    :param compile: as in :class:`DQNPolicy`.
    :raises ValueError: for a value out of range.
    """

    stats_class = DiscreteBCQTrainingStats

    @validate_arguments
    def __init__(
        self,
        *,
        model: nn.Module,
        imitator: nn.Module,
        optim: torch.optim.Optimizer | OptimizerFactory | None,
        action_space: gym.Space[Any],
        discount_factor: UnitFloat = 0.99,
        estimation_step: PositiveInt = 1,
        target_update_freq: PositiveInt = 8000,
        eval_eps: UnitFloat = 1e-3,
        unlikely_action_threshold: UnitFloat = 0.3,
        imitation_logits_penalty: NonNegativeFloat = 1e-2,
        reward_normalization: bool = False,
        is_double: bool = True,
        clip_loss_grad: bool = False,
        observation_space: gym.Space[Any] | None = None,
        lr_scheduler: TLearningRateScheduler | None = None,
        compile: bool = False,
    ) -> None:
        if 1 in (eval_eps, unlikely_action_threshold):
            given = f"eval_eps {eval_eps} and unlikely_action_threshold {unlikely_action_threshold}"
            raise ArgumentError(f"{given} must be below 1")
        check_networks(imitator=imitator)
        super().__init__(
            model=model,
            optim=None,
            action_space=action_space,
            discount_factor=discount_factor,
            estimation_step=estimation_step,
            target_update_freq=target_update_freq,
            reward_normalization=reward_normalization,
            observation_space=observation_space,
            lr_scheduler=lr_scheduler,
        )
        self.imitator = imitator
        self.optim = make_optimizer(optim, nn.ModuleList([model, imitator]).parameters())
        self.is_double, self.clip_loss_grad, self.eps = is_double, clip_loss_grad, eval_eps
        self._log_tau = math.log(unlikely_action_threshold) if unlikely_action_threshold else -math.inf
        self._weight_reg = imitation_logits_penalty
        self.compile_update(compile, model, imitator)

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation mode for the trained networks."""
        super().train(mode)
        self.imitator.train(mode)
        return self

    def forward(  # type: ignore[override]
        self,
        batch: "ObsBatchProtocol",
        state: Any = None,
        **kwargs: Any,  # noqa: ARG002 (for other policies)
    ) -> "ImitationBatchProtocol":
        """Choose the actions with the greatest values among those that are likely in the data.

        :return: ``act``, int64 ``[B]``; ``q_value`` and ``imitation_logits``, ``[B, actions]``; ``state``.
        """
        q_BA, hidden = network_output(self.model, batch.obs, batch.info, state)
        logits_BA = network_output(self.imitator, batch.obs, batch.info, state)[0]
        act = self._best_likely(q_BA, logits_BA, batch.obs)
        fields = {"act": act, "q_value": q_BA, "imitation_logits": logits_BA}
        return cast("ImitationBatchProtocol", wrap(fields | {"state": None if hidden is None else parse(hidden)}))

    def _outputs(self, obs: Any, state: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return network_output(self.model, obs, {}, state)[0], network_output(self.imitator, obs, {}, state)[0]

    def _best_likely(self, q_BA: torch.Tensor, logits_BA: torch.Tensor, obs: Any) -> torch.Tensor:
        likely_BA = likely_actions(legal_values(logits_BA, action_mask(obs)), math.exp(self._log_tau))
        return q_BA.masked_fill(~likely_BA, -torch.inf).argmax(dim=1)

    def next_value(self, obs_next: Any, state: Any = None, *draws: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Return the value of the observation after the last reward, ``[B]``."""
        if self.must_call_forward():
            act_B = self.actions(self.call_forward(obs_next, state).act, self._device)
        else:
            act_B = self._best_likely(*self._outputs(obs_next, state), obs_next)
        return output_of_actions(network_output(self.network("model_old"), obs_next, {}, state)[0], act_B)

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Update the target network if it is due, and do one gradient step on the loss."""
        if sample.is_due:
            self.sync_weight()
        if self.must_call_forward():
            result = self.call_forward(sample.obs, sample.state, sample.batch)
            q_BA, logits_BA = result.q_value, result.imitation_logits
        else:
            q_BA, logits_BA = self._outputs(sample.obs, sample.state)
        error_B = td_error(q_BA, sample.act, sample.returns)
        q_loss, i_loss = huber_loss(error_B, sample.weight), functional.cross_entropy(logits_BA, sample.act)
        loss = q_loss + i_loss + self._weight_reg * (reg_loss := logits_BA.square().mean())
        descend(loss, self.optim)
        losses = {"loss": loss, "q_loss": q_loss, "i_loss": i_loss, "reg_loss": reg_loss}
        return {name: value.detach() for name, value in losses.items()}, error_B.detach()
