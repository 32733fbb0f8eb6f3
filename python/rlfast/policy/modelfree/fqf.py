from dataclasses import dataclass
from typing import Any, Literal, TypeVar, Unpack

import torch
from torch import nn

from rlfast.data import Batch
from rlfast.data.batch.batch import wrap
from rlfast.functional.losses import fraction_gradient, quantile_huber
from rlfast.policy.components.action_masks import action_mask, inner_obs
from rlfast.policy.components.batches import info_of
from rlfast.policy.components.memory.hidden_state import as_field
from rlfast.policy.components.network_checks import check_networks
from rlfast.policy.components.shortcuts import instead_of_forward
from rlfast.policy.modelfree.qrdqn import QRDQNPolicy, QRDQNTrainingStats
from rlfast.policy.q_learner import DQNOptions, QLearner, output_of_actions
from rlfast.policy.replay import Losses, Sample
from rlfast.utils.arguments.validation import FiniteFloat, TwoOrMore, validate_arguments
from rlfast.utils.net.discrete import Fractions
from rlfast.utils.optim import OptionalOptimizer, descend, make_optimizer
from rlfast.utils.tree import as_host


@dataclass(kw_only=True)
class FQFTrainingStats(QRDQNTrainingStats):
    """The statistics of one update of FQF: each loss before its gradient step."""

    loss: float
    """Of quantiles and fractions together."""
    quantile_loss: float
    fraction_loss: float
    entropy_loss: float
    """The mean entropy of the fractions, unweighted."""


TFQFTrainingStats = TypeVar("TFQFTrainingStats", bound=FQFTrainingStats)


@QRDQNPolicy.register
class FQFPolicy(QLearner):
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

    Returns sum k rewards, at most ``estimation_step``; w are the importance weights of a prioritized buffer, else 1.

    :param model: called as ``model(obs, propose_model=..., state=None, info={})``, with ``fractions=...`` as well where
        it is a target network or learns in evaluation mode; returns quantiles ``[B, actions, N]``, the fractions, and
        the quantiles between them, and the next hidden state, as
        :class:`rlfast.utils.net.discrete.FullQuantileFunction` does.
    :param fraction_model: proposes the levels, a :class:`rlfast.utils.net.discrete.FractionProposalNetwork`.
    :param fraction_optim: an optimizer of ``fraction_model``, or a factory; its steps are usually far smaller.
    :param num_fractions: number of levels that ``fraction_model`` proposes, N, 2 or more. Default: 32.
    :param ent_coef: c, how much the entropy of the fractions is worth. Default: 0.
    :param clip_loss_grad: has no effect: Huber's function clips. Default: False.
    :param options: of :class:`~rlfast.policy.q_learner.QLearner`.
    :raises ValueError: for a value out of range.

    >>> from gymnasium.spaces import Discrete
    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.net.discrete import FractionProposalNetwork, FullQuantileFunction
    >>> from rlfast.utils.optim import adam
    >>> net = Net(4, hidden_sizes=[64])
    >>> nets = {"model": FullQuantileFunction(net, 2), "fraction_model": FractionProposalNetwork(32, 64)}
    >>> optims = {"optim": adam(1e-3), "fraction_optim": adam(1e-6)}
    >>> policy = FQFPolicy(**nets, **optims, action_space=Discrete(2), target_update_freq=100)
    >>> policy(Batch(obs=torch.zeros(3, 4), info={})).logits.shape
    torch.Size([3, 2, 32])
    """

    stats_class = FQFTrainingStats

    @validate_arguments
    def __init__(
        self,
        *,
        fraction_model: nn.Module,
        fraction_optim: OptionalOptimizer,
        num_fractions: TwoOrMore = 32,
        ent_coef: FiniteFloat = 0.0,
        **options: Unpack[DQNOptions],
    ) -> None:
        check_networks(fraction_model=fraction_model)
        super().__init__(**options)
        self.fraction_model = fraction_model
        self.fraction_optim = make_optimizer(fraction_optim, fraction_model.parameters())
        self.num_quantiles, self.ent_coef = num_fractions, ent_coef

    def forward(
        self,
        batch: Any,
        state: Any = None,
        model: Literal["model", "model_old"] = "model",
        fractions: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Choose the actions of the greatest expected return; see :meth:`QLearner.forward`.

        :param fractions: the levels of the quantiles; None for those that the fraction model proposes.
        :return: ``fractions``, too, and ``quantiles_tau``, the quantiles between them.
        """
        outputs, hidden = self._network_output(model, batch.obs, state, batch.info, fractions)
        act = as_host(self.expected_returns(outputs, batch.obs)).argmax(axis=1)
        logits, levels, inner = outputs
        levels = Batch(levels._asdict()) if isinstance(levels, Fractions) else levels
        return wrap(
            {"logits": logits, "fractions": levels, "quantiles_tau": inner, "act": act, "state": as_field(hidden)}
        )

    def expected_returns(self, outputs: Any, obs: object) -> torch.Tensor:
        """Return the means of the quantiles, weighted by the widths of their fractions, ``[B, actions]``.

        :param outputs: what :meth:`quantiles` returned.
        :param obs: the observations, with the mask of legal actions if they have one.
        """
        logits, fractions = outputs[:2]
        width_BN = fractions.taus[:, 1:] - fractions.taus[:, :-1]
        return self.compute_q_value((width_BN[:, None] * logits).sum(dim=2), action_mask(obs))  # algorithm 1

    def next_value(self, obs_next: object, state: object = None, *draws: torch.Tensor) -> torch.Tensor:
        """Return quantiles of the return after the last reward, ``[B, N]``, at the levels of the trained network."""
        online = target = self.quantiles(obs_next, state)
        if self.model_old is not None:
            target = self.quantiles(obs_next, state, fractions=online[1], model="model_old")
        q_BA = self.expected_returns(online if self.is_double else target, obs_next)
        return output_of_actions(target[0], q_BA.argmax(dim=1))

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Update the target network if it is due, and do one gradient step for the levels and one for the quantiles."""
        if sample.is_due:
            self.sync_weight()
        logits, fractions, inner = self.quantiles(sample.obs, sample.state, sample.batch)
        quantile_BN = output_of_actions(logits, sample.act)
        with torch.no_grad():
            if inner is None:  # in evaluation mode
                between = Fractions(fractions.taus, fractions.taus[:, 1:-1], fractions.entropies)
                inner, _, _ = self.quantiles(sample.obs, sample.state, sample.batch, between)
            gradient_BM = fraction_gradient(output_of_actions(inner, sample.act), quantile_BN)  # proposition 1
        fraction_loss = (gradient_BM * fractions.taus[:, 1:-1]).sum(dim=1).mean()
        entropy = fractions.entropies.mean()
        both = fraction_loss - self.ent_coef * entropy
        descend(both, self.fraction_optim)
        loss_B, error_B = quantile_huber(quantile_BN, sample.returns, fractions.tau_hats)  # section 3.3
        quantile_loss = (sample.weight * loss_B).mean()
        descend(quantile_loss, self.optim)
        losses = {"quantile_loss": quantile_loss, "fraction_loss": fraction_loss, "entropy_loss": entropy}
        losses["loss"] = quantile_loss + both
        return {name: loss.detach() for name, loss in losses.items()}, error_B

    @instead_of_forward(lambda result: (result.logits, result.fractions, result.quantiles_tau))
    def quantiles(
        self,
        obs: object,
        state: object = None,
        batch: object = None,
        fractions: object = None,
        model: Literal["model", "model_old"] = "model",
    ) -> Any:
        """Return quantiles by a network, ``[B, actions, N]``, their levels, and the quantiles between them.

        :param obs: observations.
        :param state: hidden state before them.
        :param batch: the sample that they belong to, if any.
        :param fractions: the levels; None for those that the fraction model proposes.
        :param model: the name of the network.
        """
        return self._network_output(model, obs, state, info_of(batch), fractions)[0]

    def state_after(self, obs: object, state: object) -> Any:
        """Return the hidden state after an observation, from the state before it."""
        return self._network_output("model", obs, state, {}, None)[1]

    def _network_output(
        self, model: Literal["model", "model_old"], obs: object, state: object, info: object, levels: object
    ) -> Any:
        given = {} if levels is None else {"fractions": levels}
        return self.network(model)(inner_obs(obs), propose_model=self.fraction_model, **given, state=state, info=info)
