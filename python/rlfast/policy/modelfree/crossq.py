from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar

import gymnasium as gym
import torch
from gymnasium.spaces import Box
from torch import nn

from rlfast.exploration import BaseNoise
from rlfast.functional.losses import squared_loss
from rlfast.policy.base import TLearningRateScheduler, TrainingStats
from rlfast.policy.components.temperature import Alpha
from rlfast.policy.learners.replay_learner import Sample, concatenated
from rlfast.policy.learners.soft_learner import SoftActorCritic
from rlfast.utils.arguments.validation import PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.optim import OptimizerFactory, descend
from rlfast.utils.torch_utils import torch_train_mode


@dataclass(kw_only=True)
class CrossQTrainingStats(TrainingStats):
    """The statistics of one update of CrossQ: losses before their steps, and the temperature after its own."""

    actor_loss: float
    """0 before the first step of the actor."""
    critic_loss: float
    alpha: float | None = None
    alpha_loss: float | None = None
    """Of its newest step; None before the first, and for a fixed temperature."""


TCrossQTrainingStats = TypeVar("TCrossQTrainingStats", bound=CrossQTrainingStats)


class CrossQPolicy(SoftActorCritic):
    r"""CrossQ (Bhatt et al., arXiv:1902.05605): batch normalization in the critics, and no target networks.

    .. math::
        \begin{bmatrix} q_j \\ q'_j \end{bmatrix} &= Q_j\left(\begin{bmatrix} s_t, a_t \\ s_{t+k}, a'
            \end{bmatrix}\right), \quad a' \sim \pi \\
        y &= \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k \Bigl(\min_j q'_j - \alpha \log\pi(a' \mid s_{t+k})\Bigr) \\
        L(Q) &= \frac1M \sum_{j=1}^M \frac1B \sum w\, (y - q_j)^2 \\
        L(\pi) &= \frac1B \sum \alpha \log\pi(a \mid s_t) - \min_j Q_j(s_t, a), \quad a \sim \pi

    Both halves of the batch pass through the critics at once, so that the same statistics normalize them; no gradient
    flows through y. The critics are in training mode in that pass, and the actor in its own step; everywhere else, and
    to act, normalization uses running averages. Actor and temperature move at every ``policy_delay``-th step.

    :param actor: returns means and standard deviations before squashing, and the next hidden state; see
        :class:`SACPolicy`.
    :param actor_optim: an optimizer of ``actor``, or a factory such as :func:`rlfast.utils.optim.adam`; None, as for
        the critics', for a policy that only acts.
    :param critic: the ensemble, called as ``critic(obs, act)``; returns ``[M, B, 1]``. The paper has two members with a
        :class:`rlfast.utils.net.ensemble.BatchRenorm` before each linear layer.
    :param critic_optim: an optimizer of ``critic``, or a factory; the paper's is Adam with ``betas=(0.5, 0.999)``.
    :param action_space: action space of one environment, a Box.
    :param policy_delay: number of gradient steps of the critics for one of the actor. Default: 3.
    :param gamma: discount of future rewards, in [0, 1]. Default: 0.99.
    :param alpha: :math:`\alpha`, fixed or learned, as :class:`SACPolicy` takes it. Default: 0.2.
    :param estimation_step: the largest k, the number of steps to sum rewards over. Default: 1.
    :param exploration_noise: noise that collectors add to actions; see :class:`SACPolicy`. Default: None.
    :param deterministic_eval: whether the policy takes its mean in evaluation mode. Default: True.
    :param action_scaling: whether actions are stretched to the bounds of the Box. Default: True.
    :param action_bound_method: ``"clip"`` (default) or None, for actions that noise may have moved out of [-1, 1].
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param lr_scheduler: a schedule that takes a step after each update. Default: None.
    :param compile: whether a whole update is compiled into one graph; see :class:`DQNPolicy`. Default: False.
    :raises ValueError: for a value out of range, or another kind of action space.

    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import EnsembleLinear, Net
    >>> from rlfast.utils.net.continuous import ActorProb, Critic
    >>> from rlfast.utils.net.ensemble import BatchRenorm
    >>> actor = ActorProb(Net(3, hidden_sizes=[64]), 1, unbounded=True, conditioned_sigma=True)
    >>> two = {"linear_layer": lambda inputs, outputs: EnsembleLinear(2, inputs, outputs)}
    >>> def layer(inputs: int, outputs: int) -> nn.Module:
    ...     return nn.Sequential(BatchRenorm(inputs, 2), EnsembleLinear(2, inputs, outputs))
    >>> net = Net(3, 1, hidden_sizes=[64], concat=True, linear_layer=layer)
    >>> critic = Critic(net, **two, flatten_input=False)
    >>> optim = {"actor_optim": torch.optim.Adam, "critic_optim": torch.optim.Adam}
    >>> policy = CrossQPolicy(actor=actor, critic=critic, **optim, action_space=Box(-2.0, 2.0))
    >>> policy(Batch(obs=torch.zeros(5, 3), info={})).act.shape
    torch.Size([5, 1])
    """

    stats_class = CrossQTrainingStats
    lagged_names = ()
    learns_from_returns = False

    @validate_arguments
    def __init__(
        self,
        *,
        actor: nn.Module,
        actor_optim: torch.optim.Optimizer | OptimizerFactory | None,
        critic: nn.Module,
        critic_optim: torch.optim.Optimizer | OptimizerFactory | None,
        action_space: "Box[Any]",
        policy_delay: PositiveInt = 3,
        gamma: UnitFloat = 0.99,
        alpha: float | tuple[float, torch.Tensor, torch.optim.Optimizer] | Alpha = 0.2,
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
            tau=0.0,
            gamma=gamma,
            estimation_step=estimation_step,
            exploration_noise=exploration_noise,
            action_scaling=action_scaling,
            action_bound_method=action_bound_method,
            observation_space=observation_space,
            lr_scheduler=lr_scheduler,
        )
        self.add_ensemble(critic, critic_optim)
        self.set_temperature(alpha)
        self.policy_delay, self.deterministic_eval = policy_delay, deterministic_eval
        self._last_losses["actor_loss"] = 0.0
        self.train(self.training)
        self.compile_update(compile, actor, critic)

    @property
    def period(self) -> int:
        """Gradient steps of the critics for one of the actor."""
        return self.policy_delay

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation mode of the policy; its networks stay in evaluation mode between their steps."""
        super().train(False)
        self.training = mode
        return self

    def target_value(self, obs_next: Any, act: torch.Tensor, *draws: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """Return the least value, ``[B]``, by running averages; gradient steps use those of the batch."""
        return self.ensemble_values(obs_next, act).amin(dim=0)

    def actor_value(self, obs: Any, act: torch.Tensor) -> torch.Tensor:
        """Return the least value, ``[B]``."""
        return self.ensemble_values(obs, act).amin(dim=0)

    def actor_loss(self, sample: Sample) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss of the actor, whose normalization is that of the batch; see :class:`SoftActorCritic`."""
        with torch_train_mode(self.actor):
            return super().actor_loss(sample)

    def critic_step(self, sample: Sample) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        """Do one step for all critics."""
        with torch.no_grad():
            act_next, log_prob_B = self.random_actions(sample.obs_next, sample.state_next, None, *sample.draws_next)
        act = sample.act.reshape(act_next.shape)
        with torch_train_mode(self.critic):
            both_MB = self.ensemble_values(concatenated(sample.obs, sample.obs_next), torch.cat([act, act_next]))
        q_MB, next_MB = both_MB.chunk(2, dim=1)
        value_B = next_MB.detach().amin(dim=0) - self.temperature.value * log_prob_B
        error_MB = self.returns_of(sample, value_B) - q_MB
        critic_loss = squared_loss(error_MB, sample.weight)
        descend(critic_loss, self.critic_optim)
        return {"critic_loss": critic_loss.detach()}, error_MB.detach().mean(dim=0)
