"""The template of algorithms that learn quantiles of returns at fixed levels."""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from rlfast.functional.losses import quantile_huber
from rlfast.policy.components.action_masks import legal_values
from rlfast.policy.components.overrides import replaceable
from rlfast.policy.learners.discrete.q_learner import QLearner, output_of_actions
from rlfast.policy.learners.replay_learner import Sample
from rlfast.policy.native.choosers import Chooser, ExpectationChooser
from rlfast.utils.arguments.checks import ArgumentError
from rlfast.utils.net.common import device_of


@replaceable("compute_q_value")
class FixedQuantileLearner(QLearner):
    """A learner of N quantiles of the return of each action, at evenly spaced levels (arXiv:1710.10044).

    :param num_quantiles: N, 2 or more.
    :param is_double: whether the trained network chooses the action whose distribution by the target network is the
        target, and not the target network itself.
    :param clip_loss_grad: has no effect: Huber's function clips.
    :param options: of :class:`QLearner`; ``model`` returns quantiles ``[B, actions, N]``.
    :raises ValueError: for a value out of range.
    """

    def __init__(
        self, *, model: nn.Module, num_quantiles: int, is_double: bool, clip_loss_grad: bool, **options: Any
    ) -> None:
        if num_quantiles < 2:
            raise ArgumentError(f"num_quantiles must be at least 2, got {num_quantiles}")
        super().__init__(model=model, **options)
        self.is_double, self.clip_loss_grad = is_double, clip_loss_grad
        self.num_quantiles = num_quantiles
        levels = (torch.arange(num_quantiles, device=device_of(model)) + 0.5) / num_quantiles  # lemma 2
        self.tau_hat = nn.Parameter(levels.view(1, -1, 1), False)

    def compute_q_value(self, logits: torch.Tensor, mask: NDArray[Any] | torch.Tensor | None) -> torch.Tensor:
        """Return the means of the quantiles, ``[B, actions]``; see :meth:`QLearner.compute_q_value`."""
        return legal_values(logits.mean(dim=2), mask)

    def _make_chooser(self) -> Chooser:
        names = self.methods_that_choose(FixedQuantileLearner, "compute_q_value")
        return self.for_all_actions(
            ExpectationChooser(self, names, ("max_action_num",), atoms=self.num_quantiles, values=None)
        )

    def next_value(self, obs_next: Any, state: Any = None, *draws: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Return the quantiles of the return after the last reward, ``[B, N]``."""
        return self.output_of_best_action(obs_next, state, double=self.is_double)

    def quantile_loss(self, sample: Sample, quantile_BAN: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss of the quantiles of the actions taken (equation 10), and the error of each row.

        :param sample: the transitions.
        :param quantile_BAN: quantiles by the trained network.
        :return: a scalar, and ``[B]`` without gradient.
        """
        quantile_BN = output_of_actions(quantile_BAN, sample.act)
        loss_B, error_B = quantile_huber(quantile_BN, sample.returns, self.tau_hat.flatten())
        return (loss_B if sample.weight is None else sample.weight * loss_B).mean(), error_B
