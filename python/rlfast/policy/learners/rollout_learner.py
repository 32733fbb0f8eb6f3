"""The template of on-policy algorithms."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch import nn

from rlfast.data import Batch, to_torch
from rlfast.data.batch.batch import wrap
from rlfast.data.stats import SequenceSummaryStats
from rlfast.policy.base import BasePolicy, Index, LearnsFrom, TrainingStats
from rlfast.policy.components.action_masks import action_mask, check_legal, inner_obs, legal_distribution
from rlfast.policy.components.distributions import draw, log_prob_of, takes_a_tuple
from rlfast.policy.components.memory.hidden_state import add_stored_state
from rlfast.policy.components.minibatches import (
    check_passes,
    minibatches_of,
    rows_of,
    shuffled_minibatches,
    summaries_of,
)
from rlfast.policy.components.network_checks import check_networks, check_output
from rlfast.policy.components.overrides import replaceable
from rlfast.policy.components.returns import check_indices
from rlfast.policy.native.choosers import Chooser, ClockChooser
from rlfast.policy.native.continuous import NormalChooser
from rlfast.utils import RunningMeanStd
from rlfast.utils.arguments.checks import check_function
from rlfast.utils.net._shared import shared_features
from rlfast.utils.net.common import ActorCritic, device_of, dtype_of
from rlfast.utils.optim import OptimizerFactory, make_optimizer
from rlfast.utils.runtime.native import NotNativeError

if TYPE_CHECKING:
    from rlfast.data import ReplayBuffer
    from rlfast.data.types import DistBatchProtocol, ObsBatchProtocol, RolloutBatchProtocol

TDistFn = Callable[..., torch.distributions.Distribution]
TDistribution = Callable[[], torch.distributions.Distribution]


_SHOWN_TO = ("process_fn", "learn", "post_process_fn")  # methods that are given the roll-out


@replaceable("__call__", "forward")
class RolloutLearner(BasePolicy):
    """The template of algorithms that act by a distribution and learn from whole roll-outs.

    It implements acting, values, returns and advantages, minibatches, transfers to the device, compiled gradient steps,
    learning through a ``forward`` that was replaced or has hooks, and one transfer of the losses back from the device.

    An algorithm defines :meth:`gradient_step`; ``stats_class``, which has a field with a summary for each loss; and, if
    they differ from the default, the ``columns`` that its gradient steps learn from. One without a critic sets
    ``has_critic = False`` and defines ``_compute_returns``.

    :param actor: called as ``actor(obs, state=..., info=...)``; returns the arguments of ``dist_fn`` and the next
        hidden state.
    :param critic: called as ``critic(obs)``; returns values ``[B, 1]``. None where ``has_critic`` is False.
    :param optim: an optimizer of both, a factory, or None for a policy that only acts.
    :param dist_fn: a function that makes the distribution over actions.
    :param gamma: discount of future rewards, in [0, 1].
    :param gae_lambda: 0 for one-step, 1 for Monte Carlo advantages.
    :param max_batchsize: the largest batch of the networks while a roll-out is prepared.
    :param reward_normalization: whether returns are divided by their running standard deviation.
    :param deterministic_eval: whether the policy takes the mode in evaluation mode.
    :param options: arguments of :class:`BasePolicy`. ``action_scaling`` has no effect on spaces other than a Box.
    """

    counts_from_zero = True
    stats_class: ClassVar[type[Any]]
    """The class of the statistics, which has a field with a summary for each loss."""
    columns: ClassVar[tuple[str, ...]] = ("act", "logp_old", "adv", "returns", "v_s")
    """What :meth:`gradient_step` takes of each row besides its observation. Log-probabilities of the policy that acted
    are computed if they are among it."""
    has_critic: ClassVar[bool] = True
    """Whether there is a critic."""
    recompute_adv: bool = False
    """Whether advantages are computed again before each pass."""

    def __init__(
        self,
        *,
        actor: nn.Module,
        critic: nn.Module | None = None,
        optim: torch.optim.Optimizer | OptimizerFactory | None,
        dist_fn: TDistFn,
        action_space: Any,
        gamma: float,
        gae_lambda: float = 1.0,
        max_batchsize: int = 256,
        reward_normalization: bool,
        deterministic_eval: bool,
        **options: Any,
    ) -> None:
        check_networks(**{"actor": actor, "critic": critic} if self.has_critic else {"actor": actor})
        check_function("dist_fn", dist_fn)
        check_output(actor, action_space)
        scaling = bool(options.pop("action_scaling", False)) and isinstance(action_space, Box)
        super().__init__(action_space=action_space, action_scaling=scaling, **options)
        self.actor = actor
        if critic is not None:
            self.critic = critic
        self.optim = make_optimizer(optim, self.optimized(*self._networks))
        self.dist_fn = dist_fn
        self._dist_call = (dist_fn, takes_a_tuple(dist_fn))
        self.gamma, self.gae_lambda = gamma, gae_lambda
        self.max_batchsize = max_batchsize
        self.rew_norm = reward_normalization
        self.deterministic_eval = deterministic_eval
        self.ret_rms = RunningMeanStd()
        self._eps = 1e-8  # added to a variance that is divided by
        self._compiled: Any = None
        self._buffer: ReplayBuffer | None = None  # of a roll-out whose advantages are recomputed
        self._indices: Index | None = None

    @property
    def learns_from(self) -> LearnsFrom | None:
        """See :attr:`BasePolicy.learns_from`."""
        return "rollouts"

    # -- methods that an algorithm defines -----------------------------------------------------------------------------

    @abstractmethod
    def gradient_step(
        self, distribution: TDistribution, obs: Any, *columns: torch.Tensor
    ) -> Mapping[str, torch.Tensor]:
        """Learn from one minibatch, in most algorithms by one gradient step. It must work compiled and not compiled.

        :param distribution: a function that returns the distribution over actions at the B observations, by the present
            weights.
        :param obs: the observations, for the critic.
        :param columns: the rows of :attr:`columns`.
        :return: the losses before the step: scalars without gradient, by the names of the fields of the statistics.
        """

    def optimized(self, *networks: nn.Module) -> Iterable[nn.Parameter]:
        """Return the parameters for an optimizer that a factory makes: those of all networks, shared ones once.

        :param networks: the actor, and the critic if there is one.
        """
        return nn.ModuleList(networks).parameters()

    def compile_update(self, compile: bool, *networks: nn.Module) -> None:
        """Compile a gradient step into one graph, if ``compile`` is True. Constructors call this last.

        :param compile: whether to compile.
        :param networks: the networks of the gradient step.
        :raises ValueError: see :meth:`BasePolicy.compiled`.
        """
        self._compiled = self.compiled(self._gradient_step, *networks) if compile else None

    # -- acting --------------------------------------------------------------------------------------------------------

    def forward(
        self,
        batch: "ObsBatchProtocol",
        state: Any = None,
        **kwargs: Any,  # noqa: ARG002 (given by callers that serve other policies as well)
    ) -> "DistBatchProtocol":
        """Choose actions at random, or by the mode in evaluation mode with ``deterministic_eval``.

        :param batch: a batch with ``obs`` and ``info``. If ``obs`` is a batch, ``obs.mask``, ``[B, actions]``, is True
            for legal actions, and networks of rlfast and torch get ``obs.obs`` if it exists; others get it whole.
        :param state: hidden state of the actor.
        :return: ``act``, ``[B, ...]``; ``dist``, their distribution; ``logits``, the output of the actor, where several
            tensors of one shape are stacked; ``state``, the next hidden state.
        """
        logits, hidden = self.actor(self.network_obs(batch.obs), state=state, info=batch.info)
        dist = self._dist(logits, action_mask(batch.obs))
        act = dist.mode if self.deterministic_eval and not self.training else draw(dist, self._torch_rng)
        if isinstance(logits, tuple) and len({part.shape for part in logits}) == 1:
            logits = torch.stack(logits)
        return cast("DistBatchProtocol", wrap({"logits": logits, "act": act, "state": hidden, "dist": dist}))

    def network_obs(self, obs: Any) -> Any:
        """Return observations in the form that the networks get, see :meth:`forward`.

        :param obs: observations.
        """
        return inner_obs(obs) if isinstance(obs, Batch) and self._known_networks(*self._networks) else obs

    def _dist(self, logits: Any, mask: Any = None) -> torch.distributions.Distribution:
        if not isinstance(logits, tuple):
            dist = self.dist_fn(logits)
        else:
            if self._dist_call[0] is not self.dist_fn:
                self._dist_call = (self.dist_fn, takes_a_tuple(self.dist_fn))
            dist = self.dist_fn(logits) if len(logits) > 1 and self._dist_call[1] else self.dist_fn(*logits)
        return dist if self.action_type == "continuous" else legal_distribution(dist, mask)

    @property
    def acting_network(self) -> nn.Module:
        """The actor."""
        return self.actor

    def _make_chooser(self) -> Chooser:
        names = self.methods_that_choose(RolloutLearner, "network_obs", "_dist")
        if self.action_type == "continuous":
            return NormalChooser(self, names, (-1,), dist=self._dist)
        if self._torch_rng is not None and self.dist_fn is torch.distributions.Categorical:
            raise NotNativeError("the Categorical of torch draws from a stream that is seeded for each choice")
        return ClockChooser(self, names, self.dist_fn)

    @property
    def _networks(self) -> tuple[nn.Module, ...]:
        return (self.actor, self.critic) if self.has_critic else (self.actor,)

    @property
    def _actor_critic(self) -> ActorCritic:
        return ActorCritic(self.actor, self.critic)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the roll-out, which holds the whole buffer."""
        return {**vars(self), "_buffer": None, "_indices": None}

    # -- learning ------------------------------------------------------------------------------------------------------

    def process_fn(self, batch: "RolloutBatchProtocol", buffer: "ReplayBuffer", indices: Index) -> Any:
        """Convert a roll-out to tensors, and add values, returns, advantages and log-probabilities.

        :param batch: rows in order of time, as ``sample(0)`` returns them.
        :return: with ``v_s``, ``returns``, ``adv`` and ``logp_old``, each ``[B]``.
        :raises ValueError: the numbers of rows and indices differ, or ``obs.mask`` calls an action illegal.
        """
        check_indices(batch, indices)
        check_legal(batch, self.action_space)
        rollout = cast("Any", batch)
        if self._takes_tensors:
            rollout.obs = to_torch(batch.obs, device=self._device)
            rollout.obs_next = to_torch(batch.obs_next, device=self._device)
        rollout.act = to_torch(batch.act, self._act_dtype, self._device)
        add_stored_state(rollout, buffer, indices)
        if self.recompute_adv:
            self._buffer, self._indices = buffer, indices
        rollout = self._compute_returns(rollout, buffer, indices)
        if "logp_old" in self.columns:
            with torch.no_grad():
                rollout.logp_old = self._log_probs(rollout, len(indices))
        return rollout

    def _log_probs(self, rollout: Any, size: int) -> torch.Tensor:
        if self._has_custom_forward():
            return log_prob_of(self._dist_by_forward(rollout), rollout.act)
        obs, state, mask = self.network_obs(rollout.obs), rollout.get("state"), action_mask(rollout.obs)
        dists = (
            (part, self._dist_at(obs[part], rows_of(state, part), rows_of(mask, part))) for part in self._parts(size)
        )
        return torch.cat([log_prob_of(dist, rollout.act[part]) for part, dist in dists])

    def update(self, sample_size: int | None, buffer: "ReplayBuffer | None", **kwargs: Any) -> TrainingStats:
        """Learn from one roll-out; see :meth:`BasePolicy.update`.

        :param sample_size: see :meth:`BasePolicy.update`; 0 for the whole buffer.
        :param buffer: the buffer with the roll-out.
        :param kwargs: passed to :meth:`learn`.
        :raises ValueError: ``batch_size`` is negative, or ``repeat`` less than 1. Nothing is changed then.
        """
        check_passes(**{name: kwargs[name] for name in ("batch_size", "repeat") if name in kwargs})
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
    ) -> Any:
        """Pass over a roll-out, with a gradient step for each minibatch.

        :param batch: the result of :meth:`process_fn`, of N rows.
        :param batch_size: number of rows of a minibatch; the last one also has the remaining rows. None for all rows.
        :param repeat: number of passes, each in a new random order.
        """
        return self.stats_class(**self.summaries_of_passes(batch, batch_size, repeat))

    def summaries_of_passes(
        self, batch: "RolloutBatchProtocol", batch_size: int | None, repeat: int
    ) -> dict[str, SequenceSummaryStats]:
        """Pass over a roll-out; see :meth:`learn`.

        :return: a summary of each loss.
        """
        check_passes(batch_size, repeat)
        rollout = self._as_tensors(batch)
        losses: list[Mapping[str, torch.Tensor]] = []
        for step in range(repeat):
            if step and self._buffer is not None and self._indices is not None:
                rollout = self._as_tensors(self._compute_returns(rollout, self._buffer, self._indices))
            losses += self._run_pass(rollout, batch_size)
        return summaries_of(losses)

    def _run_pass(self, rollout: Any, batch_size: int | None) -> Iterator[Mapping[str, torch.Tensor]]:
        """Do a gradient step for each minibatch, and yield its losses."""
        if self._compiled is not None:
            self.check_not_replaced()
        elif self._has_custom_forward():
            order = self.rng.permutation(len(rollout.returns))
            for part in minibatches_of(len(order), batch_size):
                minibatch = rollout[order[part]]
                dist = partial(self._dist_by_forward, minibatch)
                obs = self.network_obs(minibatch.obs)
                yield self.gradient_step(dist, obs, *(minibatch[name] for name in self.columns))
            return
        gradient_step = self._gradient_step if self._compiled is None else self._compiled
        for rows in self._minibatches(rollout, batch_size):
            with shared_features():
                losses = gradient_step(*rows)
            yield losses

    def _gradient_step(self, obs: Any, state: Any, mask: Any, *columns: torch.Tensor) -> Mapping[str, torch.Tensor]:
        return self.gradient_step(lambda: self._dist_at(obs, state, mask), obs, *columns)

    def _dist_by_forward(self, minibatch: Any) -> torch.distributions.Distribution:
        return cast("torch.distributions.Distribution", self(minibatch, minibatch.get("state")).dist)

    def _dist_at(self, obs: Any, state: Any, mask: Any) -> torch.distributions.Distribution:
        return self._dist(self.actor(obs, state=state, info={})[0], mask)

    def _as_tensors(self, batch: Any) -> Any:
        """Convert columns to tensors that an overridden ``process_fn`` has left as arrays."""
        for name in self.columns:
            value = batch[name]
            if not isinstance(value, torch.Tensor):
                dtype = self._act_dtype if name == "act" else dtype_of(self._networks[-1])
                batch[name] = to_torch(value, dtype, self._device)
        return batch

    @property
    def _takes_tensors(self) -> bool:
        """Whether observations are converted to tensors; foreign networks, and methods of a subclass outside of this
        library, get them as buffers return them.
        """
        if self._compiled is not None:
            return True
        own, kind = vars(self), type(self)
        shown = any(name in own or not getattr(kind, name).__module__.startswith("rlfast.") for name in _SHOWN_TO)
        return not shown and self._known_networks(*self._networks) and not self._has_custom_forward()

    def _minibatches(self, rollout: Any, batch_size: int | None) -> Iterator[list[Any]]:
        """Yield the arguments of :meth:`_gradient_step` for each minibatch, in random order."""
        order = self.rng.permutation(len(rollout.returns))
        seen = [self.network_obs(rollout.obs), rollout.get("state"), action_mask(rollout.obs)]
        columns = [*seen, *(rollout[name] for name in self.columns)]
        return shuffled_minibatches(columns, order, batch_size, self._device)

    def _compute_returns(self, rollout: Any, buffer: "ReplayBuffer", indices: Index) -> Any:
        """Add ``v_s``, ``returns`` and ``adv``, tensors ``[B]``. Subclasses may override it."""
        with torch.no_grad():
            parts = [*self._parts(len(indices))]
            obs, obs_next = self.network_obs(rollout.obs), self.network_obs(rollout.obs_next)
            rollout.v_s = torch.cat([self.critic(obs[part]).flatten() for part in parts])
            next_value = torch.cat([self.critic(obs_next[part]).flatten() for part in parts])
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

    def _parts(self, size: int) -> Iterator[slice]:
        return (slice(start, start + self.max_batchsize) for start in range(0, size, self.max_batchsize))

    @property
    def _act_dtype(self) -> torch.dtype | None:
        """The dtype of actions while learning: numbers of choices keep theirs, as they index, and distributions over
        anything else compute with actions; that of Bernoulli takes nothing but floats.
        """
        return None if isinstance(self.action_space, Discrete | MultiDiscrete) else dtype_of(self.actor)

    @property
    def _device(self) -> torch.device:
        return device_of(self.actor) or torch.device("cpu")
