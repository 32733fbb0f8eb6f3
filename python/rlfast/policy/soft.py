"""The base class of soft actor-critic and its variants: an actor that is a normal distribution squashed by tanh."""

import math
from dataclasses import dataclass
from typing import Any, Literal, Unpack, cast

import torch

from rlfast.data.batch.batch import wrap
from rlfast.data.forms import Form
from rlfast.data.types import DistLogProbBatchProtocol, ObsBatchProtocol
from rlfast.exploration import BaseNoise
from rlfast.functional.distributions import SquashedNormal
from rlfast.policy.actor_critic import ActorCriticLearner, ExploringOptions, OnlineOptions
from rlfast.policy.base import TrainingStats
from rlfast.policy.components.batches import info_of
from rlfast.policy.components.memory.sequences import actor_output
from rlfast.policy.components.shortcuts import instead_of_forward
from rlfast.policy.components.temperature import Alpha, AutoAlpha, OfTemperature, make_alpha
from rlfast.policy.native.choosers import DRAWING_FACTS, Chooser
from rlfast.policy.native.continuous import NormalChooser
from rlfast.utils.net.continuous import StateDependentNoise, state_dependent_noise
from rlfast.utils.tree import EXPLORATION


@dataclass(kw_only=True)
class EnsembleTrainingStats(TrainingStats):
    """The statistics of one update with an ensemble of critics: losses before their steps."""

    actor_loss: float
    """Of the newest step of the actor; 0 before the first."""
    critic_loss: float
    alpha: float | None = None
    alpha_loss: float | None = None
    """Of its newest step; None before the first, and for a fixed temperature."""


class OnlineSoftOptions(OnlineOptions, total=False):
    """The arguments of :class:`SoftLearner` for an algorithm without target networks."""

    exploration_noise: BaseNoise | Literal["default"] | None
    alpha: float | tuple[float, torch.Tensor, torch.optim.Optimizer] | Alpha
    deterministic_eval: bool


class SoftOptions(OnlineSoftOptions, total=False):
    """The arguments of :class:`SoftLearner`, which its algorithms pass on."""

    tau: float


class SoftLearner(ActorCriticLearner):
    r"""A learner whose actor returns means and standard deviations of actions before tanh, and whose reward includes
    the entropy of the actor.

    :meth:`next_value` and :meth:`gradient_step` receive the noise of their actions as one drawn tensor.

    :param actor: called as ``actor(obs, state=..., info=...)``; returns means and standard deviations before squashing,
        and the next hidden state, as :class:`rlfast.utils.net.continuous.ActorProb` with ``unbounded=True`` and
        ``conditioned_sigma=True`` does; or, with :class:`rlfast.utils.net.continuous.StateDependentNoise` for ``sde``,
        noise in acting that lasts for several steps.
    :param alpha: the temperature, :math:`\alpha`: a number, a triple ``(target_entropy, log_alpha, optim)`` for one
        that is learned, or a :class:`FixedAlpha` or :class:`AutoAlpha`. Default: 0.2.
    :param deterministic_eval: whether the policy takes its mean in evaluation mode. Default: True.
    :param options: of :class:`~rlfast.policy.actor_critic.ActorCriticLearner`.
    """

    acting_facts = DRAWING_FACTS
    alpha: Any = OfTemperature("number")
    is_auto_alpha: Any = OfTemperature("is_learned")
    log_alpha: Any = OfTemperature("log_alpha")
    target_entropy: Any = OfTemperature("target_entropy")
    _sde: StateDependentNoise | None = None

    def __init__(
        self,
        *,
        alpha: float | tuple[float, torch.Tensor, torch.optim.Optimizer] | Alpha = 0.2,
        deterministic_eval: bool = True,
        **options: Unpack[ExploringOptions],
    ) -> None:
        super().__init__(**options)
        self.temperature = make_alpha(alpha)
        if isinstance(self.temperature, AutoAlpha):
            self.alpha_optim = self.temperature.optim
        self.deterministic_eval = deterministic_eval
        vars(self)["_sde"] = state_dependent_noise(self.actor)  # a part of the actor

    def forward(  # type: ignore[override]
        self, batch: ObsBatchProtocol, state: object = None, **kwargs: Any
    ) -> DistLogProbBatchProtocol:
        """Choose actions at random, or by the mean in evaluation mode with ``deterministic_eval``.

        :param batch: a batch with ``obs`` and ``info``.
        :param state: hidden state of the actor.
        :param kwargs: ignored.
        :return: ``act``, ``[B, *shape]`` in [-1, 1]; ``log_prob``, ``[B, 1]``; ``dist``, the squashed normal
            distribution; ``logits``, means and deviations, ``[2, B, size]``; ``state``, the next hidden state.
        """
        zero = self.deterministic_eval and not self.training
        sde = None if zero else self._sde
        before = state if sde is None else sde.next_state(state, len(batch.obs), self._torch_rng)
        logits, hidden = self.actor(batch.obs, state=before, info=batch.info)
        mean, dist = logits[0], SquashedNormal(*logits)
        if sde is not None:
            noise = (hidden[EXPLORATION]["noise"] / logits[1]).detach()
        else:
            noise = torch.zeros_like(mean) if zero else self.draw_normal(tuple(mean.shape), mean.dtype, mean.device)
        act, log_prob_B = dist.with_log_prob(noise)
        fields = {"logits": torch.stack(logits), "act": act.reshape(len(act), *self._act_shape), "state": hidden}
        return cast(DistLogProbBatchProtocol, wrap({**fields, "dist": dist, "log_prob": log_prob_B[:, None]}))

    def _make_chooser(self, form: Form) -> Chooser:
        return NormalChooser(self, form, self._act_shape, squashed=True)

    @instead_of_forward(lambda result: (result.act, result.log_prob.flatten()))
    def sample(
        self, obs: object, noise: torch.Tensor, state: object = None, batch: object = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return random actions, ``[B, *shape]``, also in evaluation mode, and their log-probabilities, ``[B]``.

        :param obs: observations.
        :param noise: standard normal numbers, ``[B, size]``.
        :param state: hidden state before the observations.
        :param batch: the sample that they belong to, if any.
        """
        logits = actor_output(self.actor, obs, state, info_of(batch))
        act, log_prob_B = SquashedNormal(*logits).with_log_prob(noise)
        return act.reshape(len(act), *self._act_shape), log_prob_B

    def draw_next(self, rows: int) -> tuple[torch.Tensor, ...]:
        """Draw the noise of the actions in the targets."""
        return (self.draw_noise(rows),)

    def draw_step(self, rows: int) -> tuple[torch.Tensor, ...]:
        """Draw the noise of the actions in the loss of the actor."""
        return (self.draw_noise(rows),)

    def draw_noise(self, rows: int) -> torch.Tensor:
        """Return the noise of actions, ``[rows, size]``.

        :param rows: the number of actions.
        """
        return self.draw_normal((rows, math.prod(self._act_shape)), self._dtype, self._device)
