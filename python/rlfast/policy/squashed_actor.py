"""Random actions between -1 and 1: a normal distribution through tanh."""

import math
from typing import TYPE_CHECKING, Any, cast

import torch

from rlfast.data.batch.batch import wrap
from rlfast.functional.distributions import SquashedNormal
from rlfast.policy._replaced import stock
from rlfast.policy.actor_critic_learner import ActorCriticLearner

if TYPE_CHECKING:
    from rlfast.data.types import DistLogProbBatchProtocol, ObsBatchProtocol


@stock("__call__", "forward")
class SquashedActor(ActorCriticLearner):
    """A learner whose actor gives means and standard deviations before squashing.

    :meth:`next_value` and :meth:`gradient_step` get the noise of their actions as the one tensor that they draw.
    """

    deterministic_eval: bool
    """Whether the policy takes the mean in evaluation mode."""

    def forward(
        self,
        batch: "ObsBatchProtocol",
        state: Any = None,
        **kwargs: Any,  # noqa: ARG002 (given by callers that serve other policies as well)
    ) -> "DistLogProbBatchProtocol":
        """Choose actions: at random, or the mean in evaluation mode with ``deterministic_eval``.

        :param batch: has ``obs`` and ``info``.
        :param state: hidden state of the actor.
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

    def random_actions(
        self, obs: Any, state: Any = None, batch: Any = None, *noise: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Give random actions, in evaluation mode as well, and their log-probabilities, ``[B]``.

        :param obs: observations.
        :param state: hidden state of the actor.
        :param batch: the sample that the observations belong to, if any.
        :param noise: standard normal, ``[B, size]``; none where :meth:`forward` draws it.
        """
        if self.is_heard():
            result = self.through_forward(obs, state, batch)
            return result.act, result.log_prob.flatten()
        logits, _ = self.actor(obs, state=state, info={})
        act, log_prob_B = SquashedNormal(*logits).with_log_prob(*noise)
        return act.reshape(len(act), *self._act_shape), log_prob_B

    def draw_next(self, rows: int) -> tuple[torch.Tensor, ...]:
        """Draw the noise of the actions that targets are made of."""
        return (self._draw(rows),)

    def draw_step(self, rows: int) -> tuple[torch.Tensor, ...]:
        """Draw the noise of the actions that the actor is rated by."""
        return (self._draw(rows),)

    def _draw(self, rows: int) -> torch.Tensor:
        return self.draw_normal((rows, math.prod(self._act_shape)), self._dtype, self._device)
