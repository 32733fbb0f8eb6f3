"""The template of algorithms with two critics, smoothed target actions, and an actor that waits for the critics."""

from typing import Any

import torch

from rlfast.functional.losses import smoothed_action
from rlfast.policy.learners.continuous.deterministic_actor import DeterministicActor


class TwinDelayedLearner(DeterministicActor):
    """A learner with a deterministic actor and two critics (arXiv:1802.09477).

    The actor and all target networks move at every ``update_actor_freq``-th gradient step, the first one included. The
    names of the losses are ``actor_loss``, ``critic1_loss`` and ``critic2_loss``.
    """

    critic_names = ("critic", "critic2")
    lagged_names = ("actor", "critic", "critic2")
    policy_noise: float
    """Standard deviation of the noise that smooths the targets, in units in which actions range from -1 to 1."""
    noise_clip: float
    """The largest such noise; 0 for no limit."""
    update_actor_freq: int
    """Number of gradient steps of the critics for one of the actor."""

    def set_delay(self, policy_noise: float, noise_clip: float, update_actor_freq: int) -> None:
        """Set the numbers of the template; constructors call it.

        :param policy_noise: see :attr:`policy_noise`.
        :param noise_clip: see :attr:`noise_clip`.
        :param update_actor_freq: see :attr:`update_actor_freq`.
        """
        self.policy_noise, self.noise_clip = policy_noise, noise_clip
        self.update_actor_freq = update_actor_freq

    @property
    def period(self) -> int:
        """Gradient steps of the critics for one of the actor."""
        return self.update_actor_freq

    def draw_next(self, rows: int) -> tuple[torch.Tensor, ...]:
        """Draw the noise that smooths the targets."""
        return (self.draw_normal((rows, *self._act_shape), self._dtype, self._device),)

    def smoothed_actions(self, obs: Any, state: Any = None, *draws: torch.Tensor) -> torch.Tensor:
        """Return actions of the target actor with noise (section 5.3), ``[B, *shape]``.

        :param obs: observations.
        :param state: hidden state before them, or None.
        :param draws: the random numbers of :meth:`draw_next`.
        """
        act = self.best_actions(obs, state, model="actor_old")
        (noise,) = draws or self.draw_next(len(act))
        return smoothed_action(act, noise, self.policy_noise, self.noise_clip)

    def next_value(self, obs_next: Any, state: Any = None, *draws: torch.Tensor) -> torch.Tensor:
        """Return the smaller value of the observation after the last reward (equation 10), ``[B]``."""
        return torch.minimum(*self.critic_values(obs_next, self.smoothed_actions(obs_next, state, *draws), old=True))
