"""The base class of algorithms that learn from transitions and act by a categorical distribution."""

from typing import Any, Unpack, cast

import gymnasium as gym
import torch
from gymnasium.spaces import Discrete
from torch import nn

from rlfast.data.batch.batch import wrap
from rlfast.data.forms import Form
from rlfast.data.types import DistBatchProtocol, ObsBatchProtocol
from rlfast.functional.distributions import Categorical
from rlfast.policy.components.action_masks import action_mask, legal_logits
from rlfast.policy.components.batches import info_of
from rlfast.policy.components.network_checks import check_networks, check_output
from rlfast.policy.components.shortcuts import instead_of_forward
from rlfast.policy.native.choosers import DRAWING_FACTS, Chooser, ClockChooser
from rlfast.policy.replay import ReplayLearner, ReplayOptions


class CategoricalLearner(ReplayLearner):
    """A learner whose actor returns unnormalized log-probabilities of discrete actions.

    :param actor: called as ``actor(obs, state=..., info=...)``; returns logits ``[B, actions]`` and the next hidden
        state, as :class:`rlfast.utils.net.discrete.Actor` with ``softmax_output=False`` does.
    :param action_space: action space of one environment, a Discrete.
    :param gamma: discount of future rewards, in [0, 1].
    :param n_step: the largest number of steps to sum rewards over, at least 1.
    :param deterministic_eval: whether the policy takes the likeliest action in evaluation mode.
    :param options: of :class:`~rlfast.policy.replay.ReplayLearner`.
    :raises ValueError: for another kind of action space.
    """

    acting_facts = DRAWING_FACTS
    counts_from_zero = True

    def __init__(
        self,
        *,
        actor: nn.Module,
        action_space: gym.Space[Any],
        gamma: float,
        n_step: int,
        deterministic_eval: bool,
        **options: Unpack[ReplayOptions],
    ) -> None:
        if not isinstance(action_space, Discrete):
            name = type(self).__name__.removesuffix("Policy")
            raise ValueError(f"{name} needs a Discrete action space, got {action_space}; SACPolicy takes a Box")
        check_networks(actor=actor)
        check_output(actor, action_space)
        super().__init__(gamma=gamma, n_step=n_step, action_space=action_space, action_bound_method=None, **options)
        self.actor = actor
        self.deterministic_eval = deterministic_eval

    def forward(self, batch: ObsBatchProtocol, state: object = None, **kwargs: Any) -> DistBatchProtocol:
        """Choose actions at random, or the likeliest in evaluation mode with ``deterministic_eval``.

        :param batch: a batch with ``obs`` and ``info``; ``obs.mask``, ``[B, actions]``, is True for legal actions.
        :param state: hidden state of the actor.
        :return: ``act``, int64 ``[B]``; ``logits``; ``dist``, the distribution; ``state``, the next hidden state.
        """
        logits, hidden = self.actor(batch.obs, state=state, info=batch.info)
        logits = legal_logits(logits, action_mask(batch.obs))
        dist = Categorical(logits)
        greedy = self.deterministic_eval and not self.training
        act = dist.mode if greedy else dist.sample(generator=self._torch_rng)
        return cast(DistBatchProtocol, wrap({"logits": logits, "act": act, "state": hidden, "dist": dist}))

    def _make_chooser(self, form: Form) -> Chooser:
        return ClockChooser(self, form, Categorical)

    @instead_of_forward(lambda result: result.dist)
    def dist(self, obs: object, state: object = None, batch: object = None) -> Categorical:
        """Return the distribution over actions at observations.

        :param obs: observations.
        :param state: hidden state before them.
        :param batch: the sample that they belong to, if any.
        """
        logits = self.actor(obs, state=state, info=info_of(batch))[0]
        return Categorical(legal_logits(logits, action_mask(obs)))

    def actions(self, act: object, device: torch.device) -> torch.Tensor:
        """Return stored actions as indices, ``[B]``."""
        return torch.as_tensor(act, dtype=torch.int64, device=device).flatten()

    def _set_td_error(self, batch: Any, error_B: torch.Tensor) -> None:
        """Set ``td_error`` for priorities, and ``weight``, the errors with the opposite sign."""
        batch.td_error, batch.weight = error_B, -error_B
