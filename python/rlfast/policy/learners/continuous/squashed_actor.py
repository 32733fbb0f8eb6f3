"""The template of algorithms whose actor is a normal distribution squashed by tanh."""

import math
from typing import TYPE_CHECKING, Any, cast

import torch

from rlfast.data.batch.batch import wrap
from rlfast.functional.distributions import SquashedNormal
from rlfast.policy.components.memory.sequences import actor_output
from rlfast.policy.components.overrides import replaceable
from rlfast.policy.learners.continuous.actor_critic_learner import ActorCriticLearner
from rlfast.policy.native.choosers import Chooser
from rlfast.policy.native.continuous import NormalChooser

if TYPE_CHECKING:
    from rlfast.data.types import DistLogProbBatchProtocol, ObsBatchProtocol


@replaceable("__call__", "forward")
class SquashedActor(ActorCriticLearner):
    """A learner whose actor returns the means and standard deviations of actions before tanh.

    :meth:`next_value` and :meth:`gradient_step` receive the noise of their actions as one drawn tensor.
    """

    deterministic_eval: bool
    """Whether the policy takes the mean in evaluation mode."""

    def forward(
        self,
        batch: "ObsBatchProtocol",
        state: Any = None,
        **kwargs: Any,  # noqa: ARG002 (given by callers that serve other policies as well)
    ) -> "DistLogProbBatchProtocol":
        """Choose actions at random, or by the mean in evaluation mode with ``deterministic_eval``.

        :param batch: a batch with ``obs`` and ``info``.
        :param state: hidden state of the actor.
        :param kwargs: ignored.
        :return: ``act``, ``[B, *shape]`` in [-1, 1]; ``log_prob``, ``[B, 1]``; ``dist``, the squashed normal
            distribution; ``logits``, means and deviations, ``[2, B, size]``; ``state``, the next hidden state.
        """
        logits, hidden = self.actor(batch.obs, state=state, info=batch.info)
        mean, dist = logits[0], SquashedNormal(*logits)
        zero = self.deterministic_eval and not self.training
        noise = torch.zeros_like(mean) if zero else self.draw_normal(tuple(mean.shape), mean.dtype, mean.device)
        act, log_prob_B = dist.with_log_prob(noise)
        fields = {"logits": torch.stack(logits), "act": act.reshape(len(act), *self._act_shape), "state": hidden}
        return cast("DistLogProbBatchProtocol", wrap({**fields, "dist": dist, "log_prob": log_prob_B[:, None]}))

    def _make_chooser(self) -> Chooser:
        names = self.methods_that_choose(SquashedActor, "draw_normal")
        return NormalChooser(self, names, self._act_shape, squashed=True)

    def random_actions(
        self, obs: Any, state: Any = None, batch: Any = None, *noise: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return random actions, also in evaluation mode, and their log-probabilities, ``[B]``.

        :param obs: observations.
        :param state: hidden state of the actor.
        :param batch: the sample that the observations belong to, if any.
        :param noise: standard normal numbers, ``[B, size]``; nothing where :meth:`forward` was replaced, which draws
            itself.
        :return: actions, ``[B, *shape]``, and log-probabilities, ``[B]``.
        """
        if self.must_call_forward():
            result = self.call_forward(obs, state, batch)
            return result.act, result.log_prob.flatten()
        logits = actor_output(self.actor, obs, state)
        act, log_prob_B = SquashedNormal(*logits).with_log_prob(*noise)
        return act.reshape(len(act), *self._act_shape), log_prob_B

    def draw_next(self, rows: int) -> tuple[torch.Tensor, ...]:
        """Draw the noise of the actions in the targets."""
        return (self._draw(rows),)

    def draw_step(self, rows: int) -> tuple[torch.Tensor, ...]:
        """Draw the noise of the actions in the loss of the actor."""
        return (self._draw(rows),)

    def _draw(self, rows: int) -> torch.Tensor:
        return self.draw_normal((rows, math.prod(self._act_shape)), self._dtype, self._device)
