import inspect
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import gymnasium as gym
import torch
from numpy.typing import NDArray
from torch import nn

from rlfast.functional.losses import quantile_huber
from rlfast.policy.base import TLearningRateScheduler
from rlfast.policy.components.action_masks import action_mask, inner_obs, legal_values
from rlfast.policy.components.overrides import replaceable
from rlfast.policy.learners.discrete.q_learner import output_of_actions
from rlfast.policy.learners.discrete.quantile_learner import QuantileLearner
from rlfast.policy.learners.replay_learner import Losses, Sample
from rlfast.policy.modelfree.qrdqn import QRDQNPolicy, QRDQNTrainingStats
from rlfast.utils.arguments.checks import ArgumentError
from rlfast.utils.arguments.validation import NonNegativeInt, PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.net.discrete import ImplicitQuantileNetwork
from rlfast.utils.optim import OptimizerFactory


@dataclass(kw_only=True)
class IQNTrainingStats(QRDQNTrainingStats):
    """The statistics of one gradient step of IQN."""


TIQNTrainingStats = TypeVar("TIQNTrainingStats", bound=IQNTrainingStats)


@QRDQNPolicy.register
@replaceable("compute_q_value")
class IQNPolicy(QuantileLearner):
    r"""Implicit quantile networks (Dabney et al., arXiv:1806.06923).

    The network computes the quantile of the return at any level, for each action:

    .. math::
        a^* &= \arg\max_a \frac1K \sum_k Z_{\tilde\tau_k}(s_{t+k}, a), \qquad
        y_j = \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k Z^-_{\tau'_j}(s_{t+k}, a^*) \\
        L &= \frac1B \sum w \sum_{i=1}^{N} \frac{1}{N'} \sum_{j=1}^{N'}
        \rho_{\tau_i}\bigl(y_j - Z_{\tau_i}(s_t, a_t)\bigr), \qquad \tilde\tau, \tau, \tau' \sim U(0, 1)

    with :math:`\rho` of :func:`rlfast.functional.losses.quantile_huber`.

    :param model: called as ``model(obs, sample_size=..., state=None, info={})``; returns quantiles ``[B, actions, N]``
        with their levels ``[B, N]``, and the next hidden state, as
        :class:`rlfast.utils.net.discrete.ImplicitQuantileNetwork` does.
    :param optim: an optimizer of ``model``, a factory such as :func:`rlfast.utils.optim.adam`, or None for a policy
        that only acts.
    :param discount_factor: discount of future rewards, :math:`\gamma`, in [0, 1]. Default: 0.99.
    :param sample_size: levels of an action value in evaluation mode, 2 or more. Default: 32.
    :param online_sample_size: N, number of levels of the trained network, 2 or more. Default: 8.
    :param target_sample_size: N', number of levels of the target network, 2 or more. Default: 8.
    :param num_quantiles: has no effect: levels are drawn. Default: 200.
    :param estimation_step: n, the largest number of steps to sum rewards over. Default: 1.
    :param target_update_freq: number of gradient steps between copies to the target network; 0 for no target
        network. Default: 0.
    :param reward_normalization: must be False.
    :param is_double: whether the trained network chooses the action whose distribution by the target network is the
        target, and not the target network itself. Default: True.
    :param clip_loss_grad: has no effect: Huber's function clips. Default: False.
    :param action_space: action space of one environment, a Discrete.
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param lr_scheduler: a schedule that takes a step after each update. Default: None.
    :param compile: whether a whole update is compiled into one graph; see :class:`DQNPolicy`. Default: False.
    :raises ValueError: for a value out of range.

    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.optim import adam
    >>> model, space = ImplicitQuantileNetwork(Net(4, hidden_sizes=[64]), 2), gym.spaces.Discrete(2)
    >>> policy = IQNPolicy(model=model, optim=adam(1e-3), action_space=space, target_update_freq=100).eval()
    >>> policy(Batch(obs=torch.zeros(3, 4), info={})).logits.shape
    torch.Size([3, 2, 32])
    """

    stats_class = IQNTrainingStats
    parts = ("logits", "taus")

    @validate_arguments
    def __init__(
        self,
        *,
        model: nn.Module,
        optim: torch.optim.Optimizer | OptimizerFactory | None,
        action_space: gym.Space[Any],
        discount_factor: UnitFloat = 0.99,
        sample_size: PositiveInt = 32,
        online_sample_size: PositiveInt = 8,
        target_sample_size: PositiveInt = 8,
        num_quantiles: PositiveInt = 200,
        estimation_step: PositiveInt = 1,
        target_update_freq: NonNegativeInt = 0,
        reward_normalization: bool = False,
        is_double: bool = True,
        clip_loss_grad: bool = False,
        observation_space: gym.Space[Any] | None = None,
        lr_scheduler: TLearningRateScheduler | None = None,
        compile: bool = False,
    ) -> None:
        sizes = {"sample_size": sample_size, "online_sample_size": online_sample_size}
        for name, size in {**sizes, "target_sample_size": target_sample_size, "num_quantiles": num_quantiles}.items():
            if size < 2:
                raise ArgumentError(f"{name} must be at least 2, got {size}")
        super().__init__(
            model=model,
            optim=optim,
            action_space=action_space,
            discount_factor=discount_factor,
            estimation_step=estimation_step,
            target_update_freq=target_update_freq,
            reward_normalization=reward_normalization,
            observation_space=observation_space,
            lr_scheduler=lr_scheduler,
            is_double=is_double,
            clip_loss_grad=clip_loss_grad,
        )
        self.sample_size, self.online_sample_size = sample_size, online_sample_size
        self.target_sample_size, self.num_quantiles = target_sample_size, num_quantiles
        self._gives_levels = isinstance(model, ImplicitQuantileNetwork) and any(
            one.name == "taus" or one.kind is one.VAR_KEYWORD
            for one in inspect.signature(model.forward).parameters.values()
        )
        self.compile_update(compile, model)

    def compute_q_value(self, logits: torch.Tensor, mask: NDArray[Any] | torch.Tensor | None) -> torch.Tensor:
        """Return the means of the quantiles, ``[B, actions]``; see :meth:`QLearner.compute_q_value`."""
        return legal_values(logits.mean(dim=2), mask)  # section 3, the policy of K samples

    def draw_next(self, rows: int) -> tuple[torch.Tensor, ...]:
        """Draw the levels by which the trained network chooses, and, if there is one, those of the target network."""
        online = self._draw(rows, self.online_sample_size)
        return (online,) if self.model_old is None else (online, self._draw(rows, self.target_sample_size))

    def draw_step(self, rows: int) -> tuple[torch.Tensor, ...]:
        """Draw the levels at which the trained network learns."""
        return (self._draw(rows, self.online_sample_size),)

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Update the target network if it is due, and do one gradient step on the loss."""
        if sample.is_due:
            self.sync_weight()
        logits, taus_BN = self.quantile_outputs(
            sample.obs, sample.state, sample.batch, sample.draws[0] if sample.draws else None
        )
        loss_B, error_B = quantile_huber(output_of_actions(logits, sample.act), sample.returns, taus_BN)  # equation 3
        return {"loss": self.descend_mean(loss_B, sample, self.optim)}, error_B

    def quantiles_at(self, model: Literal["model", "model_old"], obs: Any, state: Any, info: Any, levels: Any) -> Any:
        """Return quantiles by a network, and their levels; levels drawn here depend on the policy's mode."""
        if levels is None:
            online = self.online_sample_size if self.training else self.sample_size
            levels = self._draw(len(obs), self.target_sample_size if model == "model_old" else online)
        given = {"taus": levels} if self._gives_levels else {}  # others draw by themselves
        return self.network(model)(inner_obs(obs), sample_size=levels.shape[1], state=state, info=info, **given)

    def action_values(self, outputs: tuple[Any, ...], obs: Any) -> torch.Tensor:
        """Return the means of the quantiles, ``[B, actions]``."""
        return self.compute_q_value(outputs[0], action_mask(obs))

    def target_levels(self, outputs: tuple[Any, ...], *draws: torch.Tensor) -> Any:  # noqa: ARG002
        """Return levels that were drawn."""
        return draws[1] if draws else None

    def _draw(self, rows: int, size: int) -> torch.Tensor:
        return torch.rand(rows, size, generator=self._torch_rng).to(self._device)
