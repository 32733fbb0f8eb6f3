"""The templates of soft actor-critic and its variants."""

from abc import abstractmethod
from typing import Any

import torch

from rlfast.policy.components.temperature import Temperature
from rlfast.policy.learners.continuous.squashed_actor import SquashedActor
from rlfast.policy.learners.critics import Critics
from rlfast.policy.learners.replay_learner import Losses, ReplayLearner, Sample
from rlfast.utils.optim import descend


class SoftLearner(Temperature, Critics, ReplayLearner):
    """A learner of critics, of an actor whose reward includes its entropy, and of the temperature.

    An algorithm defines :meth:`actor_loss`, and :meth:`critic_step` if its critics do not simply approach the returns.
    """

    due_first = False
    actor: torch.nn.Module
    actor_optim: Any
    actor_delay: int = 1
    """Number of gradient steps of the critics for one of the actor and of the temperature."""

    @property
    def period(self) -> int:
        """Gradient steps of the critics for one of the actor."""
        return self.actor_delay

    @abstractmethod
    def actor_loss(self, sample: Sample) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss of the actor, a scalar, and log-probabilities, ``[B]``, whose mean is minus the entropy.

        :param sample: the sample.
        """

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Do one step for the critics; if it is due, one for actor and temperature; and one of the target networks."""
        losses, error_B = self.critic_step(sample)
        if sample.is_due:
            actor_loss, log_prob_B = self.actor_loss(sample)
            descend(actor_loss, self.actor_optim)
            losses |= {"actor_loss": actor_loss.detach(), **self.adapt_temperature(log_prob_B)}
        self.sync_weight()
        return {**losses, "alpha": self.temperature.value.reshape(())}, error_B


class SoftActorCritic(SoftLearner, SquashedActor):
    """A soft learner of continuous actions: SAC and its variants.

    An algorithm defines :meth:`actor_value` and :meth:`target_value`.
    """

    @abstractmethod
    def actor_value(self, obs: Any, act: torch.Tensor) -> torch.Tensor:
        """Return the values of actions that the actor learns to raise, ``[B]``.

        :param obs: observations.
        :param act: actions, ``[B, *shape]``.
        """

    @abstractmethod
    def target_value(self, obs_next: Any, act: torch.Tensor, *draws: torch.Tensor) -> torch.Tensor:
        """Return the values of next actions, without their entropy, in the targets of the critics.

        :param obs_next: the observations after the last reward.
        :param act: actions of the actor there, ``[B, *shape]``.
        :param draws: the random numbers of :meth:`draw_next` after the noise of the actions.
        :return: ``[B]``, or ``[B, m]`` for m targets of each row.
        """

    def next_value(self, obs_next: Any, state: Any = None, *draws: torch.Tensor) -> torch.Tensor:
        """Return the soft value of the observation after the last reward, ``[B]``, or ``[B, m]``."""
        act, log_prob_B = self.random_actions(obs_next, state, None, *draws[:1])
        value = self.target_value(obs_next, act, *draws[1:])
        entropy_B = self.temperature.value * log_prob_B
        return value - (entropy_B if value.dim() == 1 else entropy_B[:, None])

    def actor_loss(self, sample: Sample) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss of the actor, and the log-probabilities of its actions (arXiv:1812.05905, equation 7)."""
        act, log_prob_B = self.random_actions(sample.obs, sample.state, sample.batch, *sample.draws)
        return (self.temperature.value * log_prob_B - self.actor_value(sample.obs, act)).mean(), log_prob_B
