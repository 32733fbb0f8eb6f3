import inspect
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, Unpack

import torch
from numpy.typing import NDArray

from rlfast.data.batch.batch import wrap
from rlfast.functional.losses import quantile_huber
from rlfast.policy.components.action_masks import action_mask, inner_obs, legal_values
from rlfast.policy.components.batches import info_of
from rlfast.policy.components.memory.hidden_state import as_field
from rlfast.policy.components.shortcuts import instead_of_forward
from rlfast.policy.modelfree.qrdqn import QRDQNPolicy, QRDQNTrainingStats
from rlfast.policy.q_learner import DQNOptions, QLearner, output_of_actions
from rlfast.policy.replay import Losses, Sample
from rlfast.utils.arguments.validation import TwoOrMore, validate_arguments
from rlfast.utils.net.discrete import ImplicitQuantileNetwork
from rlfast.utils.optim import descend
from rlfast.utils.tree import as_host


@dataclass(kw_only=True)
class IQNTrainingStats(QRDQNTrainingStats):
    """The statistics of one gradient step of IQN."""


TIQNTrainingStats = TypeVar("TIQNTrainingStats", bound=IQNTrainingStats)


@QRDQNPolicy.register
class IQNPolicy(QLearner):
    r"""Implicit quantile networks (Dabney et al., arXiv:1806.06923).

    The network computes the quantile of the return at any level, for each action:

    .. math::
        a^* &= \arg\max_a \frac1N \sum_{i=1}^N Z_{\tilde\tau_i}(s_{t+k}, a), \qquad
        y_j = \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k Z^-_{\tau'_j}(s_{t+k}, a^*) \\
        L &= \frac1B \sum w \sum_{i=1}^{N} \frac{1}{N'} \sum_{j=1}^{N'}
        \rho_{\tau_i}\bigl(y_j - Z_{\tau_i}(s_t, a_t)\bigr), \qquad \tilde\tau, \tau, \tau' \sim U(0, 1)

    (equations 2 and 3) with :math:`\rho` of :func:`rlfast.functional.losses.quantile_huber`. The choice by the trained
    network is double Q-learning, which is not in the paper: ``is_double=False`` leaves it out. Without a target network
    the N levels of the choice are those of the target, too.

    Returns sum k rewards, at most ``estimation_step``; w are the importance weights of a prioritized buffer, else 1.

    :param model: called as ``model(obs, sample_size=..., state=None, info={})``; returns quantiles ``[B, actions, N]``
        with their levels ``[B, N]``, and the next hidden state, as
        :class:`rlfast.utils.net.discrete.ImplicitQuantileNetwork` does.
    :param sample_size: levels of an action value in evaluation mode, 2 or more. Default: 32.
    :param online_sample_size: N, number of levels of the trained network, 2 or more. Default: 8.
    :param target_sample_size: N', number of levels of the target network, 2 or more. Default: 8.
    :param num_quantiles: has no effect: levels are drawn. Default: 200.
    :param clip_loss_grad: has no effect: Huber's function clips. Default: False.
    :param options: of :class:`~rlfast.policy.q_learner.QLearner`.
    :raises ValueError: for a value out of range.

    >>> from gymnasium.spaces import Discrete
    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.optim import adam
    >>> model, space = ImplicitQuantileNetwork(Net(4, hidden_sizes=[64]), 2), Discrete(2)
    >>> policy = IQNPolicy(model=model, optim=adam(1e-3), action_space=space, target_update_freq=100).eval()
    >>> policy(Batch(obs=torch.zeros(3, 4), info={})).logits.shape
    torch.Size([3, 2, 32])
    """

    stats_class = IQNTrainingStats

    @validate_arguments
    def __init__(
        self,
        *,
        sample_size: TwoOrMore = 32,
        online_sample_size: TwoOrMore = 8,
        target_sample_size: TwoOrMore = 8,
        num_quantiles: TwoOrMore = 200,
        **options: Unpack[DQNOptions],
    ) -> None:
        super().__init__(**options)
        self.sample_size, self.online_sample_size = sample_size, online_sample_size
        self.target_sample_size, self.num_quantiles = target_sample_size, num_quantiles
        self._takes_levels = isinstance(self.model, ImplicitQuantileNetwork) and any(
            one.name == "taus" or one.kind is one.VAR_KEYWORD
            for one in inspect.signature(self.model.forward).parameters.values()
        )

    def forward(
        self, batch: Any, state: Any = None, model: Literal["model", "model_old"] = "model", **kwargs: Any
    ) -> Any:
        """Choose the actions of the greatest mean quantile; see :meth:`QLearner.forward`.

        :return: also ``taus``, the levels of the quantiles, ``[B, N]``.
        """
        online = self.online_sample_size if self.training else self.sample_size
        levels = self._draw(len(batch.obs), self.target_sample_size if model == "model_old" else online)
        (logits, taus_BN), hidden = self._network_output(model, batch.obs, state, batch.info, levels)
        act = as_host(self.compute_q_value(logits, action_mask(batch.obs))).argmax(axis=1)
        return wrap({"logits": logits, "taus": taus_BN, "act": act, "state": as_field(hidden)})

    def compute_q_value(self, logits: torch.Tensor, mask: NDArray[Any] | torch.Tensor | None) -> torch.Tensor:
        """Return the means of the quantiles, ``[B, actions]``; see :meth:`QLearner.compute_q_value`."""
        return legal_values(logits.mean(dim=2), mask)  # section 3, the policy of K samples

    def draw_next(self, rows: int) -> tuple[torch.Tensor, ...]:
        """Draw the levels by which actions are chosen, and, if there is a target network, those of their quantiles."""
        online = self._draw(rows, self.online_sample_size)
        return (online,) if self.model_old is None else (online, self._draw(rows, self.target_sample_size))

    def next_value(self, obs_next: object, state: object = None, *draws: torch.Tensor) -> torch.Tensor:
        """Return quantiles of the return after the last reward, ``[B, N']``; without a target network, ``[B, N]``."""
        by_trained = self.is_double or self.model_old is None
        choosing = self.quantiles(obs_next, draws[0], state, model="model" if by_trained else "model_old")[0]
        q_BA = self.compute_q_value(choosing, action_mask(obs_next))
        if self.model_old is None:
            return output_of_actions(choosing, q_BA.argmax(dim=1))
        target = self.quantiles(obs_next, draws[1], state, model="model_old")[0]  # other levels than those that chose
        return output_of_actions(target, q_BA.argmax(dim=1))

    def draw_step(self, rows: int) -> tuple[torch.Tensor, ...]:
        """Draw the levels at which the trained network learns."""
        return (self._draw(rows, self.online_sample_size),)

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Update the target network if it is due, and do one gradient step on the loss (equation 3)."""
        if sample.is_due:
            self.sync_weight()
        quantile_BAN, taus_BN = self.quantiles(sample.obs, sample.draws[0], sample.state, sample.batch)
        loss_B, error_B = quantile_huber(output_of_actions(quantile_BAN, sample.act), sample.returns, taus_BN)
        loss = (sample.weight * loss_B).mean()
        descend(loss, self.optim)
        return {"loss": loss.detach()}, error_B

    @instead_of_forward(lambda result: (result.logits, result.taus))
    def quantiles(
        self,
        obs: object,
        levels_BN: torch.Tensor,
        state: object = None,
        batch: object = None,
        model: Literal["model", "model_old"] = "model",
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return quantiles by a network, ``[B, actions, N]``, and their levels, ``[B, N]``.

        :param obs: observations.
        :param levels_BN: the levels; networks that draw levels by themselves take their number only.
        :param state: hidden state before the observations.
        :param batch: the sample that they belong to, if any.
        :param model: the name of the network.
        """
        info = info_of(batch)
        outputs: tuple[torch.Tensor, torch.Tensor] = self._network_output(model, obs, state, info, levels_BN)[0]
        return outputs

    def state_after(self, obs: Any, state: Any) -> Any:
        """Return the hidden state after an observation, from the state before it."""
        return self._network_output("model", obs, state, {}, self._draw(len(obs), self.online_sample_size))[1]

    def _network_output(
        self, model: Literal["model", "model_old"], obs: object, state: object, info: object, levels_BN: torch.Tensor
    ) -> Any:
        given = {"taus": levels_BN} if self._takes_levels else {}  # others draw by themselves
        return self.network(model)(inner_obs(obs), sample_size=levels_BN.shape[1], state=state, info=info, **given)

    def _draw(self, rows: int, size: int) -> torch.Tensor:
        return torch.rand(rows, size, generator=self._torch_rng).to(self._device)
