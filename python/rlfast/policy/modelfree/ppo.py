from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from rlfast.data import to_torch
from rlfast.data.batch.batch import wrap
from rlfast.data.stats import SequenceSummaryStats
from rlfast.functional import normalize
from rlfast.functional.losses import clipped_surrogate_loss, value_loss
from rlfast.policy._checks import check_networks, check_output
from rlfast.policy._dist_fn import draw, takes_a_tuple
from rlfast.policy._hidden import add_stored_state
from rlfast.policy._replaced import stock
from rlfast.policy.base import BasePolicy, Index, TLearningRateScheduler, TrainingStats
from rlfast.utils import RunningMeanStd
from rlfast.utils.checks import check_function
from rlfast.utils.net._shared import shared_features
from rlfast.utils.net.common import ActorCritic, device_of, dtype_of
from rlfast.utils.optim import OptimizerFactory, descend, make_optimizer
from rlfast.utils.validation import FiniteFloat, NonNegativeFloat, PositiveInt, UnitFloat, validate_arguments

if TYPE_CHECKING:
    from rlfast.data import ReplayBuffer
    from rlfast.data.types import DistBatchProtocol, LogpOldProtocol, ObsBatchProtocol, RolloutBatchProtocol

TDistFn = Callable[..., torch.distributions.Distribution]


@dataclass(kw_only=True)
class PPOTrainingStats(TrainingStats):
    """What the gradient steps on one roll-out tell; each loss before its step."""

    loss: SequenceSummaryStats
    clip_loss: SequenceSummaryStats
    vf_loss: SequenceSummaryStats
    ent_loss: SequenceSummaryStats
    """The entropy itself."""


TPPOTrainingStats = TypeVar("TPPOTrainingStats", bound=PPOTrainingStats)


@stock("__call__", "forward")
class PPOPolicy(BasePolicy):
    r"""Proximal policy optimization (Schulman et al., arXiv:1707.06347).

    .. math::
        L = L^{\mathrm{clip}}(\pi) + c_v L^{V} - c_e \frac1B \sum \mathcal H\bigl(\pi(\cdot \mid s)\bigr)

    (equation 9), in ``repeat`` passes over a roll-out, whose advantages are estimated by :func:`rlfast.functional.gae`;
    see :func:`rlfast.functional.clipped_surrogate_loss` and :func:`rlfast.functional.value_loss` for the parts.

    A subclass that overrides :meth:`forward` or ``_compute_returns(batch, buffer, indices)`` learns through them, and
    so does a policy to which hooks or a method of its own are given.

    :param actor: called as ``actor(obs, state=..., info=...)``; gives the arguments of ``dist_fn`` (a tuple of several,
        or one tensor), and the next hidden state.
    :param critic: called as ``critic(obs)``; gives values ``[B, 1]``.
    :param optim: optimizes both: an optimizer, or a factory such as :func:`rlfast.utils.optim.adam`, called with their
        parameters; None for a policy that only acts.
    :param dist_fn: makes the distribution over actions, such as :class:`rlfast.functional.Categorical` of logits,
        ``torch.distributions.Categorical`` of probabilities, or :class:`rlfast.functional.DiagonalNormal`. Of the tuple
        that an actor may give it takes the elements; or, if it has one parameter only, the tuple.
    :param action_space: of one environment.
    :param eps_clip: :math:`\epsilon`, how far the ratio of probabilities counts. Default: 0.2.
    :param dual_clip: bound of the loss where the advantage is negative (arXiv:1912.09729), above 1; 0 or None
        for none. Default: None.
    :param value_clip: whether the critic's step is clipped by ``eps_clip``, too. Default: False.
    :param advantage_normalization: whether advantages have mean 0 and deviation 1 in each minibatch. Default: True.
    :param recompute_advantage: whether they are estimated anew before each pass (arXiv:2006.05990, section 3.5).
        Default: False.
    :param vf_coef: :math:`c_v`. Default: 0.5.
    :param ent_coef: :math:`c_e`. Default: 0.01.
    :param max_grad_norm: largest Euclidean norm of the gradient of all that ``optim`` holds; 0 or None for no limit.
        Default: None.
    :param gae_lambda: 0 for one-step, 1 for Monte Carlo advantages. Default: 0.95.
    :param max_batchsize: most rows that the networks are asked about at once while a roll-out is prepared. Default:
        256.
    :param discount_factor: :math:`\gamma`, in [0, 1]. Default: 0.99.
    :param reward_normalization: whether returns are divided by their running standard deviation, so that values are of
        the order of 1. Default: False.
    :param deterministic_eval: whether the policy takes the mode in evaluation mode. Default: False.
    :param observation_space: of one environment, kept for reference. Default: None.
    :param action_scaling: whether actions are stretched to the bounds of the Box; must be False for other spaces.
        Default: True.
    :param action_bound_method: how actions are brought into [-1, 1] before: ``"clip"`` (default), ``"tanh"``, or None.
    :param lr_scheduler: takes a step after each update. Default: None.
    :param compile: whether a gradient step becomes one graph; see :class:`DQNPolicy`. Default: False.
    :raises ValueError: for a value out of range, or scaling of anything but a Box with finite bounds.

    >>> from rlfast.data import Batch
    >>> from rlfast.functional import Categorical
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.net.discrete import Actor, Critic
    >>> from rlfast.utils.optim import adam
    >>> policy = PPOPolicy(
    ...     actor=Actor(Net(4, hidden_sizes=[64]), 2, softmax_output=False),
    ...     critic=Critic(Net(4, hidden_sizes=[64])),
    ...     optim=adam(3e-4),
    ...     dist_fn=Categorical,
    ...     action_space=gym.spaces.Discrete(2),
    ...     action_scaling=False,
    ... )
    >>> policy(Batch(obs=torch.zeros(5, 4), info={})).act.shape
    torch.Size([5])
    """

    counts_from_zero = True

    @validate_arguments
    def __init__(
        self,
        *,
        actor: nn.Module,
        critic: nn.Module,
        optim: torch.optim.Optimizer | OptimizerFactory | None,
        dist_fn: TDistFn,
        action_space: gym.Space[Any],
        eps_clip: NonNegativeFloat = 0.2,
        dual_clip: FiniteFloat | None = None,
        value_clip: bool = False,
        advantage_normalization: bool = True,
        recompute_advantage: bool = False,
        vf_coef: FiniteFloat = 0.5,
        ent_coef: FiniteFloat = 0.01,
        max_grad_norm: NonNegativeFloat | None = None,
        gae_lambda: UnitFloat = 0.95,
        max_batchsize: PositiveInt = 256,
        discount_factor: UnitFloat = 0.99,
        reward_normalization: bool = False,
        deterministic_eval: bool = False,
        observation_space: gym.Space[Any] | None = None,
        action_scaling: bool = True,
        action_bound_method: Literal["clip", "tanh"] | None = "clip",
        lr_scheduler: TLearningRateScheduler | None = None,
        compile: bool = False,
    ) -> None:
        check_networks(actor=actor, critic=critic)
        check_function("dist_fn", dist_fn)
        if dual_clip and not dual_clip > 1:
            raise ValueError(f"dual_clip must be above 1, or None for no second clip, got {dual_clip}")
        check_output(actor, action_space)
        super().__init__(
            action_space=action_space,
            observation_space=observation_space,
            action_scaling=action_scaling,
            action_bound_method=action_bound_method,
            lr_scheduler=lr_scheduler,
        )
        self.actor, self.critic = actor, critic
        self.optim = make_optimizer(optim, ActorCritic(actor, critic).parameters())
        self.dist_fn = dist_fn
        self._dist_call = (dist_fn, takes_a_tuple(dist_fn))
        self.eps_clip, self.dual_clip, self.value_clip = eps_clip, dual_clip or None, value_clip
        self.norm_adv, self.recompute_adv, self.rew_norm = (
            advantage_normalization,
            recompute_advantage,
            reward_normalization,
        )
        self.vf_coef, self.ent_coef, self.max_grad_norm = vf_coef, ent_coef, max_grad_norm
        self.gamma, self.gae_lambda = discount_factor, gae_lambda
        self.max_batchsize = max_batchsize
        self.deterministic_eval = deterministic_eval
        self.ret_rms = RunningMeanStd()
        self._eps = 1e-8  # added to a variance that is divided by
        self._compiled = self.compiled(self._gradient_step, actor, critic) if compile else None
        self._buffer: ReplayBuffer | None = None  # of a roll-out whose advantages are recomputed
        self._indices: Index | None = None

    # -- acting --------------------------------------------------------------------------------------------------------

    def forward(
        self,
        batch: "ObsBatchProtocol",
        state: Any = None,
        **kwargs: Any,  # noqa: ARG002 (given by callers that serve other policies as well)
    ) -> "DistBatchProtocol":
        """Choose actions: at random, or the mode in evaluation mode with ``deterministic_eval``.

        :param batch: has ``obs`` and ``info``.
        :param state: hidden state of the actor.
        :return: ``act``, ``[B, ...]``; ``dist``, their distribution; ``logits``, what the actor gave, several tensors
            of one shape stacked; ``state``, the next hidden state.
        """
        logits, hidden = self.actor(batch.obs, state=state, info=batch.info)
        dist = self._dist(logits)
        act = dist.mode if self.deterministic_eval and not self.training else draw(dist, self._torch_rng)
        if isinstance(logits, tuple) and len({part.shape for part in logits}) == 1:
            logits = torch.stack(logits)
        return cast("DistBatchProtocol", wrap({"logits": logits, "act": act, "state": hidden, "dist": dist}))

    def _dist(self, logits: Any) -> torch.distributions.Distribution:
        if not isinstance(logits, tuple):
            return self.dist_fn(logits)
        if self._dist_call[0] is not self.dist_fn:
            self._dist_call = (self.dist_fn, takes_a_tuple(self.dist_fn))
        return self.dist_fn(logits) if len(logits) > 1 and self._dist_call[1] else self.dist_fn(*logits)

    @property
    def _actor_critic(self) -> ActorCritic:
        return ActorCritic(self.actor, self.critic)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the roll-out out of copies: it is the whole buffer."""
        return {**vars(self), "_buffer": None, "_indices": None}

    # -- learning ------------------------------------------------------------------------------------------------------

    def process_fn(self, batch: "RolloutBatchProtocol", buffer: "ReplayBuffer", indices: Index) -> "LogpOldProtocol":
        """Make tensors of a roll-out, and add what the passes over it compare with.

        :param batch: rows in order of time, as ``sample(0)`` gives them.
        :return: with ``v_s``, ``returns``, ``adv`` and ``logp_old``, each ``[B]``.
        """
        rollout = cast("Any", batch)
        if self._takes_tensors:
            rollout.obs = to_torch(batch.obs, device=self._device)
            rollout.obs_next = to_torch(batch.obs_next, device=self._device)
        rollout.act = to_torch(batch.act, device=self._device)
        add_stored_state(rollout, buffer, indices)
        if self.recompute_adv:
            self._buffer, self._indices = buffer, indices
        rollout = self._compute_returns(rollout, buffer, indices)
        with torch.no_grad():
            if self._asks_itself():
                dist = cast("Any", self(rollout, rollout.get("state"))).dist
                rollout.logp_old = dist.log_prob(rollout.act)
            else:
                parts = [
                    self._log_prob(rollout.obs[part], _rows(rollout.get("state"), part), rollout.act[part])
                    for part in self._parts(len(indices))
                ]
                rollout.logp_old = torch.cat(parts)
        return cast("LogpOldProtocol", rollout)

    def update(self, sample_size: int | None, buffer: "ReplayBuffer | None", **kwargs: Any) -> TrainingStats:
        """Learn from one roll-out; see :meth:`BasePolicy.update`."""
        try:
            return super().update(sample_size, buffer, **kwargs)
        finally:
            self._buffer = self._indices = None

    def learn(
        self,
        batch: "RolloutBatchProtocol",
        batch_size: int | None,
        repeat: int,
        *args: Any,  # noqa: ARG002 (given by callers that serve other policies as well)
        **kwargs: Any,  # noqa: ARG002
    ) -> PPOTrainingStats:
        """Pass over a roll-out, with a gradient step for each minibatch.

        :param batch: what :meth:`process_fn` gave, of N rows.
        :param batch_size: rows in a minibatch; the last one takes the rest along. None for all rows.
        :param repeat: passes, each in an order of its own.
        """
        rollout = self._as_tensors(batch)
        losses: list[torch.Tensor] = []
        for step in range(repeat):
            if step and self._buffer is not None and self._indices is not None:
                rollout = self._as_tensors(self._compute_returns(rollout, self._buffer, self._indices))
            losses += self._pass_over(rollout, batch_size)
        columns = torch.stack(losses).view(-1, 4).T.tolist()  # the one time that the device is waited for
        loss, clip_loss, vf_loss, ent_loss = map(SequenceSummaryStats.from_sequence, columns)
        return PPOTrainingStats(loss=loss, clip_loss=clip_loss, vf_loss=vf_loss, ent_loss=ent_loss)

    def _pass_over(self, rollout: Any, batch_size: int | None) -> list[torch.Tensor]:
        """Do a gradient step for each minibatch, and give its four losses."""
        losses: list[torch.Tensor] = []
        if self._compiled is not None:
            self.check_graph_is_stock()
        elif self._asks_itself():
            order = self.rng.permutation(len(rollout.returns))
            for part in _minibatches_of(len(order), batch_size):
                minibatch = rollout[order[part]]
                dist = self(minibatch, minibatch.get("state")).dist
                columns = [minibatch[name] for name in ("act", "logp_old", "adv", "returns", "v_s")]
                losses += self._descend(dist, minibatch.obs, *columns)
            return losses
        gradient_step = self._gradient_step if self._compiled is None else self._compiled
        for rows in self._minibatches(rollout, batch_size):
            with shared_features():
                losses += gradient_step(*rows)
        return losses

    def _gradient_step(
        self,
        obs: Any,
        state: Any,
        act: torch.Tensor,
        logp_old_B: torch.Tensor,
        adv_B: torch.Tensor,
        returns_B: torch.Tensor,
        v_s_B: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        dist = self._dist(self.actor(obs, state=state, info={})[0])
        return self._descend(dist, obs, act, logp_old_B, adv_B, returns_B, v_s_B)

    def _descend(
        self,
        dist: torch.distributions.Distribution,
        obs: Any,
        act: torch.Tensor,
        logp_old_B: torch.Tensor,
        adv_B: torch.Tensor,
        returns_B: torch.Tensor,
        v_s_B: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        if self.norm_adv:
            adv_B = normalize(adv_B)
        clip_loss = clipped_surrogate_loss(dist.log_prob(act), logp_old_B, adv_B, self.eps_clip, self.dual_clip)
        value_B = self.critic(obs).flatten()
        vf_loss = value_loss(value_B, returns_B, v_s_B if self.value_clip else None, self.eps_clip)
        with torch.set_grad_enabled(self.ent_coef != 0):  # else nobody needs its gradient
            ent_loss = dist.entropy().mean()
        loss = clip_loss + self.vf_coef * vf_loss
        if self.ent_coef:
            loss = loss - self.ent_coef * ent_loss
        descend(loss, self.optim, self.max_grad_norm)
        return loss.detach(), clip_loss.detach(), vf_loss.detach(), ent_loss.detach()

    def _as_tensors(self, batch: Any) -> Any:
        """Make tensors of what a ``process_fn`` of others has left as arrays."""
        for name in ("act", "logp_old", "adv", "returns", "v_s"):
            value = batch[name]
            if not isinstance(value, torch.Tensor):
                batch[name] = to_torch(value, None if name == "act" else dtype_of(self.critic), self._device)
        return batch

    @property
    def _takes_tensors(self) -> bool:
        """Whether the networks take tensors as observations; those of others are written for what buffers give."""
        if self._compiled is not None:
            return True
        return self._known_networks(self.actor, self.critic) and not self._asks_itself()

    def _minibatches(self, rollout: Any, batch_size: int | None) -> Iterator[list[Any]]:
        """Give the columns of each minibatch, in random order, as :meth:`_gradient_step` takes them."""
        size = len(rollout.returns)
        order = self.rng.permutation(size)
        order_here = torch.as_tensor(order, device=self._device)
        names = ("obs", "state", "act", "logp_old", "adv", "returns", "v_s")
        columns = [rollout.get(name) for name in names]
        shuffled = [_rows(c, order_here if isinstance(c, torch.Tensor) else order) for c in columns]
        for part in _minibatches_of(size, batch_size):
            yield [_rows(column, part) for column in shuffled]

    def _compute_returns(self, rollout: Any, buffer: "ReplayBuffer", indices: Index) -> Any:
        """Add ``v_s``, ``returns`` and ``adv``: tensors ``[B]``; the method that subclasses override."""
        with torch.no_grad():
            parts = [*self._parts(len(indices))]
            rollout.v_s = torch.cat([self.critic(rollout.obs[part]).flatten() for part in parts])
            next_value = torch.cat([self.critic(rollout.obs_next[part]).flatten() for part in parts])
        scale = np.sqrt(self.ret_rms.var + self._eps).item() if self.rew_norm else 1.0
        values, next_values = torch.stack([rollout.v_s, next_value]).double().mul(scale).cpu().numpy()
        returns, advantage = self.compute_episodic_return(
            rollout, buffer, indices, next_values, values, self.gamma, self.gae_lambda
        )
        rollout.returns, rollout.adv = torch.as_tensor(
            np.stack([returns / scale, advantage]), dtype=rollout.v_s.dtype, device=rollout.v_s.device
        )
        if self.rew_norm:
            self.ret_rms.update(returns)
        return rollout

    def _log_prob(self, obs: Any, state: Any, act: torch.Tensor) -> torch.Tensor:
        return self._dist(self.actor(obs, state=state, info={})[0]).log_prob(act)

    def _parts(self, size: int) -> Iterator[slice]:
        return (slice(start, start + self.max_batchsize) for start in range(0, size, self.max_batchsize))

    @property
    def _device(self) -> torch.device:
        return device_of(self.actor) or torch.device("cpu")


def _minibatches_of(size: int, batch_size: int | None) -> Iterator[slice]:
    """Cut rows into minibatches, of which the last takes the rest along."""
    starts = range(0, max(size - (batch_size or size), 0) + 1, batch_size or size)
    for start in starts:
        yield slice(start, size if start == starts[-1] else start + starts.step)


def _rows(column: Any, rows: Any) -> Any:
    return None if column is None else column[rows]
