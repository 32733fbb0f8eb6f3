"""Random discrete actions by probability, and critics that give the values of all of them."""

from typing import TYPE_CHECKING, Any, Self, cast

import torch
from torch import nn

from rlfast.data import Batch
from rlfast.data.batch.batch import wrap
from rlfast.functional.distributions import Categorical
from rlfast.policy.components.action_masks import action_mask, inner_obs, legal_logits
from rlfast.policy.components.overrides import replaceable
from rlfast.policy.learners.critics import Critics
from rlfast.policy.learners.discrete.q_learner import output_of_actions
from rlfast.policy.learners.replay_learner import ReplayLearner
from rlfast.policy.native.choosers import Chooser, ClockChooser

if TYPE_CHECKING:
    from rlfast.data.types import DistBatchProtocol, ObsBatchProtocol


@replaceable("__call__", "forward", "_target_q")
class CategoricalActor(Critics, ReplayLearner):
    """A learner whose actor returns the logits of discrete actions."""

    counts_from_zero = True
    deterministic_eval: bool = True
    """Whether the policy takes the likeliest action in evaluation mode."""
    actor: nn.Module

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation mode for the trained networks."""
        self.training = mode
        for network in (self.actor, *self.critics):
            network.train(mode)
        return self

    @property
    def acting_network(self) -> nn.Module:
        """The actor."""
        return self.actor

    def forward(
        self,
        batch: "ObsBatchProtocol",
        state: Any = None,
        **kwargs: Any,  # noqa: ARG002 (given by callers that serve other policies as well)
    ) -> "DistBatchProtocol":
        """Choose actions: at random, or the likeliest in evaluation mode; ``batch.obs.mask`` is true for legal ones.

        Networks of rlfast and torch get ``obs.obs`` if it exists; others get the observation whole.

        :return: ``act``, int64 ``[B]``; ``logits``; ``dist``, the distribution; ``state``, the next hidden state.
        """
        logits, hidden = self.actor(self.network_obs(batch.obs), state=state, info=batch.info)
        logits = legal_logits(logits, action_mask(batch.obs))
        dist = Categorical(logits)
        greedy = self.deterministic_eval and not self.training
        act = dist.mode if greedy else dist.sample(generator=self._torch_rng)
        return cast("DistBatchProtocol", wrap({"logits": logits, "act": act, "state": hidden, "dist": dist}))

    def _make_chooser(self) -> Chooser:
        names = self.methods_that_choose(CategoricalActor, "network_obs")
        return ClockChooser(self, names, Categorical)

    def choices(self, obs: Any, state: Any, batch: Any = None, network: nn.Module | None = None) -> Any:
        """Return the distribution of actions, through :meth:`forward` if that is replaced.

        :param network: another actor, such as a target network.
        :param obs: observations.
        :param state: hidden state before them.
        :param batch: the sample that the observations belong to, if any.
        """
        actor = self.actor if network is None else network
        if actor is self.actor and self.must_call_forward():
            return self.call_forward(obs, state, batch).dist
        logits, _ = actor(self.network_obs(obs), state=state, info={})
        return Categorical(legal_logits(logits, action_mask(obs)))

    def network_obs(self, obs: Any) -> Any:
        """Return observations in the form that the networks get, see :meth:`forward`.

        :param obs: observations.
        """
        known = isinstance(obs, Batch) and self._known_networks(self.actor, *self.critics)
        return inner_obs(obs) if known else obs

    def value_of(self, critic: nn.Module, obs: Any, act: torch.Tensor) -> torch.Tensor:
        """Return the value of actions by a critic, ``[B]``.

        :param critic: returns the values of all actions, ``[B, actions]``.
        :param obs: observations.
        :param act: actions, int64 ``[B]``.
        """
        return output_of_actions(critic(self.network_obs(obs)), act)

    def actions(self, act: Any, device: torch.device) -> torch.Tensor:
        """Return stored actions as indices, ``[B]``."""
        return torch.as_tensor(act, dtype=torch.int64, device=device).flatten()

    def _set_td_error(self, batch: Any, error_B: torch.Tensor) -> None:
        """Store errors for priorities, and again under Tianshou's name with Tianshou's sign."""
        batch.td_error, batch.weight = error_B, -error_B
