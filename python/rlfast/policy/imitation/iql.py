from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import gymnasium as gym
import torch
from gymnasium.spaces import Box
from torch import nn

from rlfast.data.batch.batch import wrap
from rlfast.exploration import BaseNoise
from rlfast.functional.distributions import DiagonalNormal
from rlfast.functional.losses import policy_gradient_loss
from rlfast.functional.offline import expectile_loss, exponential_weight
from rlfast.policy.base import TLearningRateScheduler, TrainingStats
from rlfast.policy.components.network_checks import check_networks
from rlfast.policy.components.overrides import replaceable
from rlfast.policy.learners.continuous.actor_critic_learner import ActorCriticLearner
from rlfast.policy.learners.replay_learner import Losses, Sample
from rlfast.policy.native.choosers import Chooser
from rlfast.policy.native.continuous import NormalChooser
from rlfast.utils.arguments.validation import PositiveFloat, PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.optim import OptionalOptimizer, descend, make_optimizer

if TYPE_CHECKING:
    from rlfast.data.types import DistBatchProtocol, ObsBatchProtocol


@dataclass(kw_only=True)
class IQLTrainingStats(TrainingStats):
    """The statistics of one update of IQL: losses before their steps."""

    actor_loss: float
    critic1_loss: float
    critic2_loss: float
    value_loss: float


@replaceable("__call__", "forward")
class IQLPolicy(ActorCriticLearner):
    r"""Implicit Q-learning, from fixed data (Kostrikov, Nair and Levine, arXiv:2110.06169, algorithm 1).

    .. math::
        L(V) &= \frac1B \sum \bigl|\tau - \mathbb 1[u < 0]\bigr|\, u^2, \qquad u = \min_j Q^-_j(s, a) - V(s) \\
        L(Q_j) &= \frac1B \sum \bigl(r + \gamma V(s') - Q_j(s, a)\bigr)^2 \\
        L(\pi) &= -\frac1B \sum \min\bigl(e^{\beta (\min_j Q^-_j(s, a) - V(s))}, w\bigr) \log \pi(a \mid s)

    No network computes values of actions that are not in the data. The policy is a normal distribution; its actions are
    bounded by ``action_bound_method``.

    :param actor: called as ``actor(obs, state=..., info=...)``; returns means and standard deviations, each ``[B,
        size]``, and the next hidden state, as :class:`rlfast.utils.net.continuous.ActorProb` does. The paper's means
        are in [-1, 1], and its deviations do not depend on observations.
    :param actor_optim: an optimizer of ``actor``, or a factory such as :func:`rlfast.utils.optim.adam`; None, as for
        the others, for a policy that only acts.
    :param critic: called as ``critic(obs, act)``; returns ``[B, 1]``.
    :param critic_optim: an optimizer of ``critic``, or a factory.
    :param value: V, called as ``value(obs)``; returns ``[B, 1]``.
    :param value_optim: an optimizer of ``value``, or a factory.
    :param action_space: action space of one environment, a Box.
    :param critic2: the second critic; None for a copy of the first with new parameters. Default: None.
    :param critic2_optim: an optimizer of ``critic2``; None for one like that of the first. Default: None.
    :param expectile: :math:`\tau`, in [0, 1]; 0.5 is the mean, and 1 the maximum. Default: 0.7.
    :param temperature: :math:`\beta`, above 0; small values are imitation. Default: 3.
    :param max_weight: w, above 0. Default: 100.
    :param tau: size of the steps of target critics, in [0, 1]. Default: 0.005.
    :param gamma: discount of future rewards, in [0, 1]. Default: 0.99.
    :param estimation_step: the largest number of steps to sum rewards over. Default: 1.
    :param exploration_noise: noise that collectors add to actions on request; ``"default"`` for normal noise of 0.1.
        Default: None, as its random actions explore.
    :param deterministic_eval: whether the policy takes its mean in evaluation mode. Default: True.
    :param action_scaling: whether actions are stretched to the bounds of the Box. Default: True.
    :param action_bound_method: ``"clip"`` (default) or None.
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param lr_scheduler: a schedule that takes a step after each update. Default: None.
    :param compile: whether a whole update is compiled into one graph; see :class:`DQNPolicy`. Default: False.
    :raises ValueError: for a value out of range, another kind of action space, or an optimizer for a ``critic2`` that
        is not given.
    """

    stats_class = IQLTrainingStats
    learns_from_returns = False  # targets are made by the value after its step
    critic_names = lagged_names = ("critic", "critic2")

    @validate_arguments
    def __init__(
        self,
        *,
        actor: nn.Module,
        actor_optim: OptionalOptimizer,
        critic: nn.Module,
        critic_optim: OptionalOptimizer,
        value: nn.Module,
        value_optim: OptionalOptimizer,
        action_space: "Box[Any]",
        critic2: nn.Module | None = None,
        critic2_optim: OptionalOptimizer = None,
        expectile: UnitFloat = 0.7,
        temperature: PositiveFloat = 3.0,
        max_weight: PositiveFloat = 100.0,
        tau: UnitFloat = 0.005,
        gamma: UnitFloat = 0.99,
        estimation_step: PositiveInt = 1,
        exploration_noise: BaseNoise | Literal["default"] | None = None,
        deterministic_eval: bool = True,
        action_scaling: bool = True,
        action_bound_method: Literal["clip"] | None = "clip",
        observation_space: gym.Space[Any] | None = None,
        lr_scheduler: TLearningRateScheduler | None = None,
        compile: bool = False,
    ) -> None:
        super().__init__(
            actor=actor,
            actor_optim=actor_optim,
            action_space=action_space,
            tau=tau,
            gamma=gamma,
            estimation_step=estimation_step,
            exploration_noise=exploration_noise,
            action_scaling=action_scaling,
            action_bound_method=action_bound_method,
            observation_space=observation_space,
            lr_scheduler=lr_scheduler,
        )
        check_networks(value=value)
        self.add_critics(critic, critic_optim, critic2, critic2_optim)
        self.value, self.value_optim = value, make_optimizer(value_optim, value.parameters())
        self.expectile, self.temperature, self.max_weight = expectile, temperature, max_weight
        self.deterministic_eval = deterministic_eval
        self.compile_update(compile, actor, critic, self.critic2, value)

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation mode for the trained networks."""
        super().train(mode)
        self.value.train(mode)
        return self

    def forward(self, batch: "ObsBatchProtocol", state: Any = None, **kwargs: Any) -> "DistBatchProtocol":  # noqa: ARG002
        """Choose actions at random, or by the mean in evaluation mode with ``deterministic_eval``.

        :return: ``act``, ``[B, *shape]``; ``dist``; ``logits``, means and deviations, ``[2, B, size]``; ``state``.
        """
        logits, hidden = self.actor(batch.obs, state=state, info=batch.info)
        dist = DiagonalNormal(*logits)
        greedy = self.deterministic_eval and not self.training
        act = dist.mode if greedy else dist.sample(generator=self._torch_rng)
        fields = {"logits": torch.stack(logits), "act": act.reshape(len(act), *self._act_shape), "state": hidden}
        return cast("DistBatchProtocol", wrap({**fields, "dist": dist}))

    def _make_chooser(self) -> Chooser:
        return NormalChooser(self, self.methods_that_choose(IQLPolicy), self._act_shape)

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Do one step for the value, the actor, each critic and the target critics."""
        with torch.no_grad():
            q_B = torch.minimum(*self.critic_values(sample.obs, sample.act, old=True))
        value_loss = expectile_loss(q_B - self.value(sample.obs).flatten(), self.expectile)  # equation 5
        descend(value_loss, self.value_optim)
        with torch.no_grad():
            advantage_B = q_B - self.value(sample.obs).flatten()
            returns = self.returns_of(sample, self.value(sample.obs_next).flatten())
        weight_B = exponential_weight(advantage_B, self.temperature, self.max_weight)
        if self.must_call_forward():
            dist: Any = self.call_forward(sample.obs, sample.state, sample.batch).dist
        else:
            dist = DiagonalNormal(*self.actor(sample.obs, state=sample.state, info={})[0])
        actor_loss = policy_gradient_loss(dist.log_prob(sample.act.flatten(1)), weight_B)  # equation 7
        descend(actor_loss, self.actor_optim)
        (critic1_loss, critic2_loss), error_B = self.regress(sample._replace(returns=returns))  # equation 6
        self.sync_weight()
        losses = {"critic1_loss": critic1_loss, "critic2_loss": critic2_loss}
        return {**losses, "actor_loss": actor_loss.detach(), "value_loss": value_loss.detach()}, error_B
