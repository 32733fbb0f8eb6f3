"""The template of algorithms that learn the probabilities of fixed returns."""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from rlfast.functional.losses import cross_entropy, projected_distribution
from rlfast.policy.components.action_masks import legal_values
from rlfast.policy.components.overrides import replaceable
from rlfast.policy.learners.discrete.q_learner import QLearner, output_of_actions
from rlfast.policy.learners.replay_learner import Losses, Sample
from rlfast.policy.native.choosers import Chooser, ExpectationChooser
from rlfast.utils.arguments.checks import ArgumentError
from rlfast.utils.net.common import device_of


@replaceable("compute_q_value")
class CategoricalLearner(QLearner):
    """A learner of the probabilities of N evenly spaced returns for each action (arXiv:1707.06887).

    :param num_atoms: N, 2 or more.
    :param v_min: the smallest of the returns.
    :param v_max: the largest one.
    :param is_double: whether the trained network chooses the action whose distribution by the target network is the
        target, and not the target network itself.
    :param clip_loss_grad: has no effect.
    :param options: of :class:`QLearner`; ``model`` returns probabilities ``[B, actions, N]``.
    :raises ValueError: for a value out of range.
    """

    learns_from_returns = False

    def __init__(
        self,
        *,
        model: nn.Module,
        num_atoms: int,
        v_min: float,
        v_max: float,
        is_double: bool,
        clip_loss_grad: bool,
        **options: Any,
    ) -> None:
        if num_atoms < 2:
            raise ArgumentError(f"num_atoms must be at least 2, got {num_atoms}")
        if not v_min < v_max:
            raise ArgumentError(f"v_min must be below v_max, got {v_min} and {v_max}")
        super().__init__(model=model, **options)
        self.is_double, self.clip_loss_grad = is_double, clip_loss_grad
        self.support = nn.Parameter(torch.linspace(v_min, v_max, num_atoms, device=device_of(model)), False)
        self.delta_z = (v_max - v_min) / (num_atoms - 1)

    def compute_q_value(self, logits: torch.Tensor, mask: NDArray[Any] | torch.Tensor | None) -> torch.Tensor:
        """Return the expected returns, ``[B, actions]``; see :meth:`QLearner.compute_q_value`."""
        return legal_values((logits * self.support).sum(dim=2), mask)

    def _make_chooser(self) -> Chooser:
        names = self.methods_that_choose(CategoricalLearner, "compute_q_value")
        return self.for_all_actions(
            ExpectationChooser(self, names, ("max_action_num",), atoms=len(self.support), values="support")
        )

    def next_value(self, obs_next: Any, state: Any = None, *draws: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Return the probabilities of the returns after the last reward, ``[B, N]``."""
        return self.output_of_best_action(obs_next, state, double=self.is_double)

    def descend_cross_entropy(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Do one gradient step on the cross-entropy of the targets.

        :param sample: the sample, with target probabilities as returns.
        :return: the mean loss, and the cross-entropy of each row as its error, ``[B]``.
        """
        with torch.no_grad():
            prob_BN = self.next_value(sample.obs_next, sample.state_next)
            returns_BN = self.returns_of(sample, self.support.expand_as(prob_BN))
            target_BN = projected_distribution(returns_BN, prob_BN, self.support)  # equation 7
        prob_BN = output_of_actions(self.values(sample.obs, sample.state, sample.batch), sample.act)
        error_B = cross_entropy(target_BN, prob_BN)  # algorithm 1
        return {"loss": self.descend_mean(error_B, sample, self.optim)}, error_B.detach()
