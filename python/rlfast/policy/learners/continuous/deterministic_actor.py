"""The template of algorithms with a deterministic actor."""

from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from torch import nn

from rlfast.data.batch.batch import wrap
from rlfast.policy.components.memory.sequences import actor_output
from rlfast.policy.components.overrides import replaceable
from rlfast.policy.learners.continuous.actor_critic_learner import ActorCriticLearner
from rlfast.policy.learners.replay_learner import Losses, Sample
from rlfast.policy.native.choosers import Chooser
from rlfast.policy.native.continuous import ContinuousChooser
from rlfast.utils.optim import descend
from rlfast.utils.warning import warn_user

if TYPE_CHECKING:
    from rlfast.data.types import ActStateBatchProtocol, ObsBatchProtocol


@replaceable("__call__", "forward")
class DeterministicActor(ActorCriticLearner):
    """A learner with a deterministic actor, and a target network of it, ``actor_old``.

    :param actor: called as ``actor(obs, state=..., info=...)``; returns actions ``[B, size]`` and the next hidden
        state.
    :param action_scaling: whether actions are stretched from [-1, 1] to the bounds of the Box.
    :param options: of :class:`ActorCriticLearner`.
    """

    def __init__(self, *, actor: nn.Module, action_scaling: bool, **options: Any) -> None:
        super().__init__(actor=actor, action_scaling=action_scaling, **options)
        bound = getattr(actor, "max_action", 1.0)
        if action_scaling and abs(bound - 1.0) > 1e-5:
            warn_user(
                f"actions are stretched twice: by the actor, to max_action={bound}, and by action_scaling; give the "
                "actor max_action=1, or set action_scaling to False and action_bound_method to None"
            )
        self.actor_old = self.lagged_copy(actor)

    def forward(
        self,
        batch: "ObsBatchProtocol",
        state: Any = None,
        model: Literal["actor", "actor_old"] = "actor",
        **kwargs: Any,  # noqa: ARG002 (given by callers that serve other policies as well)
    ) -> "ActStateBatchProtocol":
        """Choose actions by the actor.

        :param batch: a batch with ``obs`` and ``info``.
        :param state: hidden state of the actor.
        :param model: name of the actor, the trained one or its target network.
        :param kwargs: ignored.
        :return: ``act``, ``[B, *shape]``; ``state``, the next hidden state.
        """
        act, hidden = getattr(self, model)(batch.obs, state=state, info=batch.info)
        return cast("ActStateBatchProtocol", wrap({"act": act.reshape(len(act), *self._act_shape), "state": hidden}))

    def _make_chooser(self) -> Chooser:
        names = self.methods_that_choose(DeterministicActor)
        return ContinuousChooser(self, names, self._act_shape)

    @property
    def period(self) -> int:
        """Gradient steps of the critics for one of the actor."""
        return 1

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Do one step for each critic and, if it is due, one for the actor and one of the target networks."""
        losses, error_B = self.critic_step(sample)
        if sample.is_due:
            actor_loss = self.actor_loss(sample)
            descend(actor_loss, self.actor_optim)
            self.sync_weight()
            losses["actor_loss"] = actor_loss.detach()
        return losses, error_B

    def actor_loss(self, sample: Sample) -> torch.Tensor:
        """Return the loss of the actor, a scalar: minus the mean value of its actions by the first critic.

        :param sample: the sample.
        """
        act = self.best_actions(sample.obs, sample.state, sample.batch)
        return -self.value_of(self.critic, sample.obs, act).mean()

    def best_actions(
        self, obs: Any, state: Any = None, batch: Any = None, model: Literal["actor", "actor_old"] = "actor"
    ) -> torch.Tensor:
        """Return the actions of an actor, by :meth:`forward` where that was replaced or has hooks.

        :param obs: observations.
        :param state: hidden state of the actor.
        :param batch: the sample that the observations belong to, if any.
        :param model: name of the actor, the trained one or its target network.
        :return: actions, ``[B, *shape]``.
        """
        if self.must_call_forward():
            options = {} if model == "actor" else {"model": model}
            return cast("torch.Tensor", self.call_forward(obs, state, batch, **options).act)
        act = actor_output(getattr(self, model), obs, state)
        return cast("torch.Tensor", act.reshape(len(act), *self._act_shape))
