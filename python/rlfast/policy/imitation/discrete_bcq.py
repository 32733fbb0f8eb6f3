import math
from dataclasses import dataclass
from typing import Any, Self, TypeVar, Unpack, cast

import torch
from torch import nn
from torch.nn import functional

from rlfast.data.batch.batch import wrap
from rlfast.data.types import ImitationBatchProtocol, ObsBatchProtocol
from rlfast.functional.losses import huber_loss, td_error
from rlfast.functional.offline import likely_actions
from rlfast.policy.components.action_masks import action_mask, legal_logits, legal_values
from rlfast.policy.components.batches import info_of
from rlfast.policy.components.memory.hidden_state import as_field
from rlfast.policy.components.network_checks import check_networks
from rlfast.policy.components.shortcuts import instead_of_forward
from rlfast.policy.modelfree.dqn import DQNPolicy, DQNTrainingStats
from rlfast.policy.q_learner import QLearner, QOptions, greedy_actions_of, network_output, output_of_actions
from rlfast.policy.replay import Losses, Sample
from rlfast.utils.arguments.checks import ArgumentError
from rlfast.utils.arguments.validation import NonNegativeFloat, PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.optim import OptionalOptimizer, descend, make_optimizer

float_info = torch.finfo(torch.float32)
INF = float_info.max


@dataclass(kw_only=True)
class DiscreteBCQTrainingStats(DQNTrainingStats):
    """The statistics of one gradient step of discrete BCQ: the losses before the step."""

    q_loss: float
    i_loss: float
    """Of the imitator."""
    reg_loss: float
    """The mean square of the imitator's outputs."""


TDiscreteBCQTrainingStats = TypeVar("TDiscreteBCQTrainingStats", bound=DiscreteBCQTrainingStats)


@DQNPolicy.register
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
    :param target_update_freq: number of gradient steps between copies to the target network, at least 1. Default: 8000.
    :param eval_eps: probability of random actions where collectors ask for noise, in [0, 1). Default: 0.001.
    :param unlikely_action_threshold: the least probability of an action that is considered, as a share of that of the
        likeliest one, :math:`\tau`, below 1. Default: 0.3.
    :param imitation_logits_penalty: weight of the squared logits of the imitator, c. Default: 0.01.
    :param is_double: has no effect: see the formulas. Default: True.
    :param clip_loss_grad: has no effect: Huber's function clips. Default: False.
    :param options: of :class:`~rlfast.policy.q_learner.QLearner`.
    :raises ValueError: for a value out of range.
    """

    stats_class = DiscreteBCQTrainingStats

    @validate_arguments
    def __init__(
        self,
        *,
        model: nn.Module,
        imitator: nn.Module,
        optim: OptionalOptimizer,
        discount_factor: UnitFloat = 0.99,
        estimation_step: PositiveInt = 1,
        target_update_freq: PositiveInt = 8000,
        eval_eps: UnitFloat = 1e-3,
        unlikely_action_threshold: UnitFloat = 0.3,
        imitation_logits_penalty: NonNegativeFloat = 1e-2,
        **options: Unpack[QOptions],
    ) -> None:
        if 1 in (eval_eps, unlikely_action_threshold):
            given = f"eval_eps {eval_eps} and unlikely_action_threshold {unlikely_action_threshold}"
            raise ArgumentError(f"{given} must be below 1")
        check_networks(imitator=imitator)
        super().__init__(
            model=model,
            optim=None,
            discount_factor=discount_factor,
            estimation_step=estimation_step,
            target_update_freq=target_update_freq,
            **options,
        )
        self.imitator = imitator
        self.optim = make_optimizer(optim, nn.ModuleList([model, imitator]).parameters())
        self.eps = eval_eps
        self._log_tau = math.log(unlikely_action_threshold) if unlikely_action_threshold else -math.inf
        self._weight_reg = imitation_logits_penalty

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation mode for the trained networks."""
        super().train(mode)
        self.imitator.train(mode)
        return self

    def forward(  # type: ignore[override]
        self, batch: ObsBatchProtocol, state: object = None, **kwargs: Any
    ) -> ImitationBatchProtocol:
        """Choose the actions with the greatest values among those that are likely in the data.

        :return: ``act``, int64 ``[B]``; ``q_value`` and ``imitation_logits``, ``[B, actions]``; ``state``.
        """
        q_BA, hidden = network_output(self.model, batch.obs, batch.info, state)
        logits_BA = network_output(self.imitator, batch.obs, batch.info, state)[0]
        act = self._best_likely(q_BA, logits_BA, batch.obs)
        fields = {"act": act, "q_value": q_BA, "imitation_logits": logits_BA}
        return cast(ImitationBatchProtocol, wrap(fields | {"state": as_field(hidden)}))

    def _best_likely(self, q_BA: torch.Tensor, logits_BA: torch.Tensor, obs: object) -> torch.Tensor:
        """Return the actions with the greatest values among those that are likely in the data (equation 17)."""
        likely_BA = likely_actions(legal_values(logits_BA, action_mask(obs)), math.exp(self._log_tau))
        return q_BA.masked_fill(~likely_BA, -torch.inf).argmax(dim=1)

    @instead_of_forward(greedy_actions_of)
    def likely_actions(self, obs: object, state: object = None) -> torch.Tensor:
        """Return the actions that the trained networks choose, ``[B]``; see :meth:`forward`.

        :param obs: observations.
        :param state: hidden state before them.
        """
        return self._best_likely(*self.outputs(obs, state), obs)

    @instead_of_forward(lambda result: (result.q_value, result.imitation_logits))
    def outputs(self, obs: object, state: object = None, batch: object = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Return values and logits of imitation, ``[B, actions]`` each.

        :param obs: observations.
        :param state: hidden state before them.
        :param batch: the sample that the observations belong to, if any.
        """
        info = info_of(batch)
        return network_output(self.model, obs, info, state)[0], network_output(self.imitator, obs, info, state)[0]

    def next_value(self, obs_next: object, state: object = None, *draws: torch.Tensor) -> torch.Tensor:
        """Return the value of the observation after the last reward, ``[B]`` (equation 18)."""
        q_BA = network_output(self.network("model_old"), obs_next, {}, state)[0]
        return output_of_actions(q_BA, self.likely_actions(obs_next, state))

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Update the target network if it is due, and do one gradient step on the loss (algorithm 1)."""
        if sample.is_due:
            self.sync_weight()
        q_BA, logits_BA = self.outputs(sample.obs, sample.state, sample.batch)
        error_B = td_error(q_BA, sample.act, sample.returns)
        legal_BA = legal_logits(logits_BA, action_mask(sample.obs))
        q_loss, i_loss = huber_loss(error_B, sample.weight), functional.cross_entropy(legal_BA, sample.act)
        reg_loss = logits_BA.square().mean()
        loss = q_loss + i_loss + self._weight_reg * reg_loss
        descend(loss, self.optim)
        losses = {"loss": loss, "q_loss": q_loss, "i_loss": i_loss, "reg_loss": reg_loss}
        return {name: value.detach() for name, value in losses.items()}, error_B.detach()
