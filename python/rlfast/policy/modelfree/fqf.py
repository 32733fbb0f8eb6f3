from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import gymnasium as gym
import torch
from torch import nn

from rlfast.functional.losses import fraction_gradient, quantile_huber
from rlfast.policy.base import TLearningRateScheduler
from rlfast.policy.components.action_masks import action_mask, inner_obs
from rlfast.policy.components.network_checks import check_networks
from rlfast.policy.learners.discrete.q_learner import output_of_actions
from rlfast.policy.learners.discrete.quantile_learner import QuantileLearner
from rlfast.policy.learners.replay_learner import Losses, Sample
from rlfast.policy.modelfree.qrdqn import QRDQNPolicy, QRDQNTrainingStats
from rlfast.utils.arguments.validation import FiniteFloat, NonNegativeInt, PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.net.discrete import Fractions
from rlfast.utils.optim import OptimizerFactory, descend, make_optimizer


@dataclass(kw_only=True)
class FQFTrainingStats(QRDQNTrainingStats):
    """The statistics of one update of FQF: losses before their steps."""

    loss: float
    """Of quantiles and fractions together."""
    quantile_loss: float
    fraction_loss: float
    entropy_loss: float
    """The mean entropy of the fractions, unweighted."""


TFQFTrainingStats = TypeVar("TFQFTrainingStats", bound=FQFTrainingStats)


@QRDQNPolicy.register
class FQFPolicy(QuantileLearner):
    r"""Fully parameterized quantile functions (Yang et al., arXiv:1911.02140).

    One network proposes the levels :math:`\tau`, another computes the quantiles of the return at their middles,
    :math:`\hat\tau_i = (\tau_i + \tau_{i+1}) / 2`, for each action:

    .. math::
        Q(s, a) &= \sum_i (\tau_{i+1} - \tau_i)\, Z_{\hat\tau_i}(s, a), \qquad
        y_j = \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k Z^-_{\hat\tau_j}(s_{t+k}, a^*) \\
        L(Z) &= \frac1B \sum w \sum_i \frac1N \sum_j \rho_{\hat\tau_i}\bigl(y_j - Z_{\hat\tau_i}(s_t, a_t)\bigr) \\
        L(\tau) &= \frac1B \sum \sum_i \frac{\partial W_1}{\partial \tau_i} \tau_i - c\, \mathcal H(\tau)

    with :math:`\rho` of :func:`rlfast.functional.losses.quantile_huber`, and the gradient of
    :func:`rlfast.functional.losses.fraction_gradient`.

    :param model: called as ``model(obs, propose_model=..., state=None, info={})``, with ``fractions=...`` as well where
        it is a target network or learns in evaluation mode; returns quantiles ``[B, actions, N]``, the fractions, and
        the quantiles between them, and the next hidden state, as
        :class:`rlfast.utils.net.discrete.FullQuantileFunction` does.
    :param optim: an optimizer of ``model``, a factory such as :func:`rlfast.utils.optim.adam`, or None for a policy
        that only acts.
    :param fraction_model: proposes the levels, a :class:`rlfast.utils.net.discrete.FractionProposalNetwork`.
    :param fraction_optim: an optimizer of ``fraction_model``, or a factory; its steps are usually far smaller.
    :param action_space: action space of one environment, a Discrete.
    :param discount_factor: discount of future rewards, :math:`\gamma`, in [0, 1]. Default: 0.99.
    :param num_fractions: N, which ``fraction_model`` has been made with, 2 or more. Default: 32.
    :param ent_coef: c, how much the entropy of the fractions is worth. Default: 0.
    :param estimation_step: n, the largest number of steps to sum rewards over. Default: 1.
    :param target_update_freq: number of gradient steps between copies to the target network; 0 for no target
        network. Default: 0.
    :param reward_normalization: must be False.
    :param is_double: whether the trained network chooses the action whose distribution by the target network is the
        target, and not the target network itself. Default: True.
    :param clip_loss_grad: has no effect: Huber's function clips. Default: False.
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param lr_scheduler: a schedule that takes a step after each update. Default: None.
    :param compile: whether a whole update is compiled into one graph; see :class:`DQNPolicy`. Default: False.
    :raises ValueError: for a value out of range.

    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.net.discrete import FractionProposalNetwork, FullQuantileFunction
    >>> from rlfast.utils.optim import adam
    >>> net = Net(4, hidden_sizes=[64])
    >>> nets = {"model": FullQuantileFunction(net, 2), "fraction_model": FractionProposalNetwork(32, 64)}
    >>> optims = {"optim": adam(1e-3), "fraction_optim": adam(1e-6)}
    >>> policy = FQFPolicy(**nets, **optims, action_space=gym.spaces.Discrete(2), target_update_freq=100)
    >>> policy(Batch(obs=torch.zeros(3, 4), info={})).logits.shape
    torch.Size([3, 2, 32])
    """

    stats_class = FQFTrainingStats
    parts = ("logits", "fractions", "quantiles_tau")

    @validate_arguments
    def __init__(
        self,
        *,
        model: nn.Module,
        optim: torch.optim.Optimizer | OptimizerFactory | None,
        fraction_model: nn.Module,
        fraction_optim: torch.optim.Optimizer | OptimizerFactory | None,
        action_space: gym.Space[Any],
        discount_factor: UnitFloat = 0.99,
        num_fractions: PositiveInt = 32,
        ent_coef: FiniteFloat = 0.0,
        estimation_step: PositiveInt = 1,
        target_update_freq: NonNegativeInt = 0,
        reward_normalization: bool = False,
        is_double: bool = True,
        clip_loss_grad: bool = False,
        observation_space: gym.Space[Any] | None = None,
        lr_scheduler: TLearningRateScheduler | None = None,
        compile: bool = False,
    ) -> None:
        if num_fractions < 2:
            raise ValueError(f"num_fractions must be at least 2, got {num_fractions}")
        check_networks(fraction_model=fraction_model)
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
        self.fraction_model = fraction_model
        self.fraction_optim = make_optimizer(fraction_optim, fraction_model.parameters())
        self.num_quantiles, self.ent_coef = num_fractions, ent_coef
        self.compile_update(compile, model, fraction_model)

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Update the target network if it is due, and do one gradient step for the levels and one for the quantiles."""
        if sample.is_due:
            self.sync_weight()
        logits, fractions, inner = self.quantile_outputs(sample.obs, sample.state, sample.batch)
        quantile_BN = output_of_actions(logits, sample.act)
        loss_B, error_B = quantile_huber(quantile_BN, sample.returns, fractions.tau_hats)  # section 3.3
        with torch.no_grad():
            if inner is None:  # in evaluation mode
                between = Fractions(fractions.taus, fractions.taus[:, 1:-1], fractions.entropies)
                inner, _, _ = self.quantile_outputs(sample.obs, sample.state, sample.batch, between)
            gradient_BM = fraction_gradient(output_of_actions(inner, sample.act), quantile_BN)  # proposition 1
        fraction_loss = (gradient_BM * fractions.taus[:, 1:-1]).sum(dim=1).mean()
        entropy = fractions.entropies.mean()
        both = fraction_loss - self.ent_coef * entropy
        descend(both, self.fraction_optim)
        quantile_loss = self.descend_mean(loss_B, sample, self.optim)
        losses = {"loss": quantile_loss + both, "fraction_loss": fraction_loss, "entropy_loss": entropy}
        return {"quantile_loss": quantile_loss, **{name: loss.detach() for name, loss in losses.items()}}, error_B

    def quantiles_at(self, model: Literal["model", "model_old"], obs: Any, state: Any, info: Any, levels: Any) -> Any:
        """Return quantiles by a network, their levels and the quantiles between them."""
        given = {} if levels is None else {"fractions": levels}
        return self.network(model)(inner_obs(obs), propose_model=self.fraction_model, **given, state=state, info=info)

    def action_values(self, outputs: tuple[Any, ...], obs: Any) -> torch.Tensor:
        """Return the means of the quantiles, weighted by the widths of their fractions, ``[B, actions]``."""
        logits, fractions = outputs[:2]
        width_BN = fractions.taus[:, 1:] - fractions.taus[:, :-1]
        return self.compute_q_value((width_BN[:, None] * logits).sum(dim=2), action_mask(obs))  # algorithm 1

    def target_levels(self, outputs: tuple[Any, ...], *draws: torch.Tensor) -> Any:  # noqa: ARG002
        """Return the levels of the trained network."""
        return outputs[1]
