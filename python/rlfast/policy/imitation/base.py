from dataclasses import dataclass
from typing import Any, Literal, TypeVar, Unpack, cast

import gymnasium as gym
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn
from torch.nn import functional

from rlfast.data.batch.batch import wrap
from rlfast.data.forms import Form
from rlfast.data.types import ModelOutputBatchProtocol, ObsBatchProtocol
from rlfast.policy.base import TrainingStats
from rlfast.policy.components.action_masks import action_mask, inner_obs, legal_values
from rlfast.policy.components.batches import info_of
from rlfast.policy.components.network_checks import check_networks, check_output
from rlfast.policy.components.shortcuts import instead_of_forward
from rlfast.policy.native.choosers import Chooser
from rlfast.policy.native.continuous import ContinuousChooser
from rlfast.policy.replay import Losses, ReplayLearner, ReplayOptions, Sample
from rlfast.utils.net.common import dtype_of
from rlfast.utils.optim import OptionalOptimizer, descend, make_optimizer


@dataclass(kw_only=True)
class ImitationTrainingStats(TrainingStats):
    """The statistics of one gradient step of imitation."""

    loss: float = 0.0
    """The loss before the step."""


TImitationTrainingStats = TypeVar("TImitationTrainingStats", bound=ImitationTrainingStats)


class ImitationPolicy(ReplayLearner):
    r"""Imitation of the actions of the data, also called behavioural cloning (Pomerleau 1991).

    .. math::
        L = \frac1{BD} \sum \|\mu(s) - a\|^2 \quad \text{for continuous actions}, \qquad
        L = -\frac1B \sum \log \pi(a \mid s) \quad \text{for discrete ones}

    :param actor: called as ``actor(obs, state=..., info=...)``; returns actions ``[B, size]``, or unnormalized
        log-probabilities ``[B, actions]`` of discrete ones, and the next hidden state.
    :param optim: an optimizer of ``actor``, a factory such as :func:`rlfast.utils.optim.adam`, or None for a policy
        that only acts.
    :param options: of :class:`rlfast.policy.BasePolicy`, and ``compile``; see :class:`DQNPolicy`.
    :raises ValueError: for another kind of action space, or an update that cannot be compiled.

    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.optim import adam
    >>> policy = ImitationPolicy(actor=Net(4, 2, [64]), optim=adam(1e-3), action_space=gym.spaces.Discrete(2))
    >>> policy(Batch(obs=torch.zeros(3, 4), info={})).act.shape
    torch.Size([3])
    """

    stats_class = ImitationTrainingStats
    learns_from_rewards = False
    learns_log_probs = True
    counts_from_zero = True

    def __init__(
        self,
        *,
        actor: nn.Module,
        optim: OptionalOptimizer,
        action_space: gym.Space[Any],
        action_scaling: bool = False,
        action_bound_method: Literal["clip", "tanh"] | None = "clip",
        **options: Unpack[ReplayOptions],
    ) -> None:
        if not isinstance(action_space, Box | Discrete):
            raise ValueError(f"imitation needs a Box or a Discrete action space, got {action_space}")
        check_networks(actor=actor)
        check_output(actor, action_space)
        super().__init__(
            gamma=1.0,
            n_step=1,
            action_space=action_space,
            action_scaling=action_scaling,
            action_bound_method=action_bound_method,
            **options,
        )
        self.actor = actor
        self.optim = make_optimizer(optim, actor.parameters())

    def forward(self, batch: ObsBatchProtocol, state: object = None, **kwargs: Any) -> ModelOutputBatchProtocol:
        """Choose actions: the actor's, or the likeliest of discrete ones; ``batch.obs.mask`` is true for legal ones.

        :param batch: a batch with ``obs`` and ``info``.
        :param state: hidden state of the actor.
        :param kwargs: ignored.
        :return: ``act``, ``[B, *shape]``; ``logits``, the output of the actor; ``state``, the next hidden state.
        """
        logits, hidden = self.actor(inner_obs(batch.obs), state=state, info=batch.info)
        if self.action_type == "discrete":
            act = legal_values(logits, action_mask(batch.obs)).argmax(dim=1)
        else:
            act = logits.reshape(len(logits), *(self.action_space.shape or ()))
        return cast(ModelOutputBatchProtocol, wrap({"logits": logits, "act": act, "state": hidden}))

    def _make_chooser(self, form: Form) -> Chooser:
        if self.action_type == "discrete":
            return Chooser(self, form)
        return ContinuousChooser(self, form, self.action_space.shape or ())

    @instead_of_forward(lambda result: result.act if result.act.is_floating_point() else result.logits)
    def output(self, sample: Sample) -> torch.Tensor:
        """Return the output of the actor: actions, or unnormalized log-probabilities of discrete ones.

        :param sample: the sample.
        """
        info = info_of(sample.batch)
        return cast("torch.Tensor", self.actor(inner_obs(sample.obs), state=sample.state, info=info)[0])

    def gradient_step(self, sample: Sample) -> tuple[Losses, None]:
        """Do one gradient step on the distance from the actions of the data, which need no priorities."""
        output = self.output(sample)
        if self.action_type == "discrete":
            loss = functional.cross_entropy(legal_values(output, action_mask(sample.obs)), sample.act.flatten())
        else:
            loss = functional.mse_loss(output.reshape(sample.act.shape), sample.act)
        descend(loss, self.optim)
        return {"loss": loss.detach()}, None

    @property
    def _dtype(self) -> torch.dtype:
        return torch.int64 if self.action_type == "discrete" else dtype_of(self.actor)
