"""The base class of on-policy algorithms."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Required, Unpack, cast

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch import nn

from rlfast.data import Batch, ReplayBuffer, to_torch
from rlfast.data.batch.batch import wrap
from rlfast.data.forms import Form
from rlfast.data.stats import SequenceSummaryStats
from rlfast.data.types import DistBatchProtocol, ObsBatchProtocol, RolloutBatchProtocol
from rlfast.env.spaces.random_actions import sizes_of
from rlfast.functional.distributions import MultiCategorical
from rlfast.policy.base import BasePolicy, Index, LearnsFrom, PolicyOptions, TrainingStats
from rlfast.policy.components.action_masks import action_mask, check_legal, inner_obs, legal_distribution
from rlfast.policy.components.batches import info_of, moved_once
from rlfast.policy.components.distributions import draw, log_prob_of, takes_a_tuple
from rlfast.policy.components.memory.hidden_state import add_stored_state, as_returned
from rlfast.policy.components.minibatches import check_passes, minibatches_of, summaries_of
from rlfast.policy.components.network_checks import check_networks, check_output
from rlfast.policy.components.returns import check_indices
from rlfast.policy.components.shortcuts import Shortcut, Shortcuts, instead_of_forward
from rlfast.policy.native.choosers import DRAWING_FACTS, Chooser, ClockChooser
from rlfast.policy.native.continuous import NormalChooser
from rlfast.policy.native.described import Described, described_groups
from rlfast.utils import RunningMeanStd
from rlfast.utils.arguments.checks import check_function
from rlfast.utils.arguments.validation import PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.net._shared import shared_features, sharing_features
from rlfast.utils.net.common import ActorCritic, device_of, dtype_of
from rlfast.utils.net.continuous import StateDependentNoise, state_dependent_noise
from rlfast.utils.optim import OptionalOptimizer, make_optimizer
from rlfast.utils.runtime.native import NotNativeError
from rlfast.utils.tree import EXPLORATION

TDistFn = Callable[..., torch.distributions.Distribution]


class Minibatch(NamedTuple):
    """B rows of a roll-out, which one gradient step learns from."""

    obs: Any
    """Observations, as the buffer returns them; within a graph a tensor."""
    act: torch.Tensor
    """Actions, ``[B, ...]``."""
    adv: Any = None
    """Advantages, ``[B]``; None, like the rest, if it is not among :attr:`RolloutLearner.columns`."""
    returns: Any = None
    """Returns, ``[B]``."""
    v_s: Any = None
    """Values of the observations by the critic before the update, ``[B]``."""
    logp_old: Any = None
    """Log-probabilities of the actions by the policy that acted, ``[B]``."""
    state: Any = None
    """Hidden states before the observations."""
    mask: Any = None
    """Which actions are legal, bool ``[B, actions]``."""
    batch: Any = None
    """The same rows as a ``Batch`` for ``forward``, with ``info``; None within a graph."""


class ActorOptions(PolicyOptions, total=False):
    """The arguments of :class:`RolloutLearner` that all its algorithms pass on."""

    actor: Required[nn.Module]
    optim: Required[OptionalOptimizer]
    dist_fn: Required[TDistFn]
    action_space: Required[gym.Space[Any]]
    action_scaling: bool
    action_bound_method: Literal["clip", "tanh"] | None
    discount_factor: float
    reward_normalization: bool
    deterministic_eval: bool


class CriticOptions(ActorOptions, total=False):
    """The arguments of algorithms with a critic."""

    critic: Required[nn.Module]
    gae_lambda: float
    max_batchsize: int


class RolloutOptions(CriticOptions, total=False):
    """The arguments of algorithms with a critic that can be compiled."""

    compile: bool


class RolloutLearner(BasePolicy):
    r"""The base class of algorithms that act by a distribution and learn from whole roll-outs.

    It implements acting, values, returns and advantages, minibatches, transfers to the device, compiled gradient steps,
    and one transfer of the losses back from the device.

    An algorithm defines :meth:`gradient_step`; ``stats_class``, which has a field with a summary for each loss; and, if
    they differ from the default, the ``columns`` that its gradient steps learn from. One without a critic sets
    ``has_critic = False`` and defines ``_compute_returns``.

    Subclasses may also override ``_compute_returns(batch, buffer, indices)``.

    :param actor: called as ``actor(obs, state=..., info=...)``; returns the arguments of ``dist_fn`` (a tuple of
        several, or one tensor), and the next hidden state.
    :param critic: called as ``critic(obs)``; returns values ``[B, 1]``.
    :param optim: an optimizer of both, or a factory such as :func:`rlfast.utils.optim.adam`, called with their
        parameters; None for a policy that only acts.
    :param dist_fn: a function that makes the distribution over actions, such as :class:`rlfast.functional.Categorical`
        of logits, ``torch.distributions.Categorical`` of probabilities, or :class:`rlfast.functional.DiagonalNormal`.
        Of the tuple that an actor may give it takes the elements; or, if it has one parameter only, the tuple.
    :param action_space: action space of one environment.
    :param discount_factor: discount of future rewards, :math:`\gamma`, in [0, 1]. Default: 0.99.
    :param gae_lambda: 0 for advantages of one step, 1 for those of whole episodes. Default: 0.95.
    :param max_batchsize: the largest batch of the networks while a roll-out is prepared. Default: 256.
    :param reward_normalization: whether returns are divided by their running standard deviation, so that values are of
        the order of 1. Default: False.
    :param deterministic_eval: whether the policy takes the mode in evaluation mode. Default: False.
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param action_scaling: whether actions are stretched to the bounds of a Box; no effect on other spaces. Default:
        True.
    :param action_bound_method: how actions are bounded to [-1, 1] before that: ``"clip"`` (default), ``"tanh"``, or
        None.
    :param lr_scheduler: a schedule that takes a step after each update. Default: None.
    :param compile: whether a gradient step is compiled into one graph, which is up to twice as fast after some ten
        seconds; see :class:`DQNPolicy`. Default: False.
    :raises ValueError: for a value out of range, or scaling to a Box without finite bounds.
    """

    counts_from_zero = True
    stats_class: ClassVar[type[Any]]
    """The class of the statistics, which has a field with a summary for each loss."""
    columns: ClassVar[tuple[str, ...]] = ("act", "logp_old", "adv", "returns", "v_s")
    """What :meth:`gradient_step` takes of each row besides its observation. Log-probabilities of the policy that acted
    are computed if they are among it."""
    has_critic: ClassVar[bool] = True
    """Whether there is a critic."""
    acting_facts: ClassVar[tuple[str, ...]] = (*DRAWING_FACTS, "dist_fn")
    shortcuts: ClassVar[Shortcuts] = {
        "_make_chooser": Shortcut(("_dist",), "_no_chooser"),
        "described": Shortcut(("_dist", "__call__", "forward"), "_no_chooser"),
    }
    recompute_adv: bool = False
    """Whether advantages are computed again before each pass."""
    _sde: StateDependentNoise | None = None

    @validate_arguments
    def __init__(
        self,
        *,
        actor: nn.Module,
        critic: nn.Module | None = None,
        optim: OptionalOptimizer,
        dist_fn: TDistFn,
        action_space: Any,
        discount_factor: UnitFloat = 0.99,
        gae_lambda: UnitFloat = 0.95,
        max_batchsize: PositiveInt = 256,
        reward_normalization: bool = False,
        deterministic_eval: bool = False,
        action_scaling: bool = True,
        action_bound_method: Literal["clip", "tanh"] | None = "clip",
        compile: bool = False,
        **options: Unpack[PolicyOptions],
    ) -> None:
        check_networks(**{"actor": actor, "critic": critic} if self.has_critic else {"actor": actor})
        check_function("dist_fn", dist_fn)
        check_output(actor, action_space)
        scaling = action_scaling and isinstance(action_space, Box)
        super().__init__(
            action_space=action_space, action_scaling=scaling, action_bound_method=action_bound_method, **options
        )
        self.actor = actor
        if critic is not None:
            self.critic = critic
        self.optim = make_optimizer(optim, self.optimized(*self._networks))
        self.dist_fn = dist_fn
        self._dist_call = (dist_fn, takes_a_tuple(dist_fn))
        self.gamma, self.gae_lambda = discount_factor, gae_lambda
        self.max_batchsize = max_batchsize
        self.rew_norm = reward_normalization
        self.deterministic_eval = deterministic_eval
        self.ret_rms = RunningMeanStd()
        self._eps = 1e-8  # added to a variance that is divided by
        self._compiled: Any = compile or None  # the graph, when all networks are there
        vars(self)["_sde"] = state_dependent_noise(actor)  # a part of the actor
        self._buffer: ReplayBuffer | None = None  # of a roll-out whose advantages are recomputed
        self._indices: Index | None = None

    def completed(self) -> None:
        """Compile the gradient step, if ``compile`` is True.

        :raises ValueError: see :meth:`BasePolicy.compiled`.
        """
        if self._compiled is not None:
            self._compiled = self.compiled(self._whole_step, *self._networks)

    @property
    def learns_from(self) -> LearnsFrom | None:
        """See :attr:`BasePolicy.learns_from`."""
        return "rollouts"

    # -- methods that an algorithm defines -----------------------------------------------------------------------------

    @abstractmethod
    def gradient_step(self, batch: Minibatch) -> Mapping[str, torch.Tensor]:
        """Learn from one minibatch, in most algorithms by one gradient step. It must work compiled and not compiled.

        :param batch: the rows; :meth:`dist` returns the distribution over actions at them, by the present weights.
        :return: the losses before the step: scalars without gradient, by the names of the fields of the statistics.
        """

    def optimized(self, *networks: nn.Module) -> Iterable[nn.Parameter]:
        """Return the parameters for an optimizer that a factory makes: those of all networks, shared ones once.

        :param networks: the actor, and the critic if there is one.
        """
        return nn.ModuleList(networks).parameters()

    # -- acting --------------------------------------------------------------------------------------------------------

    def forward(self, batch: ObsBatchProtocol, state: object = None, **kwargs: Any) -> DistBatchProtocol:
        """Choose actions at random, or by the mode in evaluation mode with ``deterministic_eval``.

        :param batch: a batch with ``obs`` and ``info``. If ``obs`` is a batch, ``obs.mask``, ``[B, actions]``, is True
            for legal actions; networks of rlfast read ``obs.obs``.
        :param state: hidden state of the actor.
        :return: ``act``, ``[B, ...]``; ``dist``, their distribution; ``logits``, the output of the actor, where several
            tensors of one shape are stacked; ``state``, the next hidden state.
        """
        mode = self.deterministic_eval and not self.training
        sde = None if mode else self._sde
        before = state if sde is None else sde.next_state(state, len(batch.obs), self._torch_rng)
        logits, hidden = self.actor(batch.obs, state=before, info=batch.info)
        dist = self._dist(logits, action_mask(batch.obs))
        if sde is not None:
            act = dist.mean.detach() + hidden[EXPLORATION]["noise"]
        else:
            act = dist.mode if mode else draw(dist, self._torch_rng)
        if isinstance(logits, tuple) and len({part.shape for part in logits}) == 1:
            logits = torch.stack(logits)
        return cast(DistBatchProtocol, wrap({"logits": logits, "act": act, "state": hidden, "dist": dist}))

    def _dist(self, logits: object, mask: torch.Tensor | None = None) -> torch.distributions.Distribution:
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

    def _make_chooser(self, form: Form) -> Chooser:
        if self.action_type == "continuous":
            return NormalChooser(self, form, (-1,), dist=self._dist)
        if self._torch_rng is not None and self.dist_fn is torch.distributions.Categorical:
            raise NotNativeError("the Categorical of torch draws from a stream that is seeded for each choice")
        return ClockChooser(self, form, self.dist_fn)

    def described(self, shape: tuple[int, ...] | Form) -> Described:
        """Return how this policy computes its actions; see :meth:`BasePolicy.described`."""
        dist_fn = self.dist_fn
        if isinstance(dist_fn, partial) and dist_fn.func is MultiCategorical and not dist_fn.args:
            random = self.training or not self.deterministic_eval
            return described_groups(self.acting_network, shape, sizes_of(self.action_space), random=random)
        return super().described(shape)

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

    @instead_of_forward(lambda result: result.dist)
    def dist(self, batch: Minibatch) -> torch.distributions.Distribution:
        """Return the distribution over actions at the observations of a minibatch, by the present weights.

        :param batch: the minibatch.
        """
        info = info_of(batch.batch)
        return self._dist(self.actor(batch.obs, state=batch.state, info=info)[0], batch.mask)

    def process_fn(self, batch: RolloutBatchProtocol, buffer: ReplayBuffer, indices: Index) -> Any:
        """Add values, returns, advantages and log-probabilities to a roll-out.

        :param batch: rows in order of time, as ``sample(0)`` returns them.
        :return: with ``v_s``, ``returns``, ``adv`` and ``logp_old``, tensors ``[B]``; ``act`` is a tensor, too, and so
            is ``obs`` if it is an array and the networks are not on the CPU.
        :raises ValueError: the numbers of rows and indices differ, or ``obs.mask`` calls an action illegal.
        """
        check_indices(batch, indices)
        check_legal(batch, self.action_space)
        rollout = cast("Any", batch)
        rollout.act = to_torch(batch.act, self._act_dtype, self._device)
        rollout.obs = moved_once(batch.obs, self._device)
        add_stored_state(rollout, buffer, indices)
        if self.recompute_adv:
            self._buffer, self._indices = buffer, indices
        rollout = self._compute_returns(rollout, buffer, indices)
        if "logp_old" in self.columns:
            with torch.no_grad():
                parts = (self._minibatch(rollout[part], ("act",)) for part in self._parts(len(indices)))
                rollout.logp_old = torch.cat([log_prob_of(self.dist(part), part.act) for part in parts])
        return rollout

    def update(self, sample_size: int | None, buffer: ReplayBuffer | None, **kwargs: Any) -> TrainingStats:
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
            if self._sde is not None:
                self._sde.rollout += 1
            self._buffer = self._indices = None

    def learn(self, batch: RolloutBatchProtocol, batch_size: int | None, repeat: int, *args: Any, **kwargs: Any) -> Any:
        """Pass over a roll-out, with a gradient step for each minibatch.

        :param batch: the result of :meth:`process_fn`, of N rows.
        :param batch_size: number of rows of a minibatch; the last one also has the remaining rows. None for all rows.
        :param repeat: number of passes, each in a new random order.
        """
        return self.stats_class(**self.summaries_of_passes(batch, batch_size, repeat))

    def summaries_of_passes(
        self, batch: RolloutBatchProtocol, batch_size: int | None, repeat: int
    ) -> dict[str, SequenceSummaryStats]:
        """Pass over a roll-out; see :meth:`learn`.

        :return: a summary of each loss.
        """
        return summaries_of(self.losses_of_passes(batch, batch_size, repeat))

    def losses_of_passes(
        self, batch: RolloutBatchProtocol, batch_size: int | None, repeat: int
    ) -> list[Mapping[str, torch.Tensor]]:
        """Pass over a roll-out; see :meth:`learn`.

        :return: the losses of each gradient step, at least one.
        """
        check_passes(batch_size, repeat)
        rollout = self._as_tensors(batch)
        losses: list[Mapping[str, torch.Tensor]] = []
        for step in range(repeat):
            if step and self._buffer is not None and self._indices is not None:
                rollout = self._as_tensors(self._compute_returns(rollout, self._buffer, self._indices))
            for minibatch in self._minibatches(rollout, batch_size):
                if losses and self.is_finished(minibatch):
                    return losses
                losses.append(self._step(minibatch))
        return losses

    def is_finished(self, batch: Minibatch) -> bool:
        """Return whether the passes over the roll-out end before the gradient step on a minibatch; False by default.

        :param batch: the minibatch, which is not the first one.
        """
        return False

    def _step(self, minibatch: Minibatch) -> Mapping[str, torch.Tensor]:
        with shared_features():
            return self.gradient_step(minibatch) if self._compiled is None else self._compiled(minibatch)

    def _whole_step(self, minibatch: Minibatch) -> Mapping[str, torch.Tensor]:
        """Do a gradient step: the function that is compiled."""
        result: Mapping[str, torch.Tensor] = sharing_features(lambda: self.gradient_step(minibatch))
        return result

    def _minibatches(self, rollout: Any, batch_size: int | None) -> Iterator[Minibatch]:
        """Yield minibatches in random order; the last one also has the remaining rows."""
        order = self.rng.permutation(len(rollout.returns))
        shuffled = self._rows(rollout)[order]
        for part in minibatches_of(len(order), batch_size):
            yield self._minibatch(shuffled[part], self.columns)

    def _rows(self, rollout: Any) -> Batch:
        """Return a roll-out with the fields that minibatches have."""
        names = ("obs", "info", "state", *self.columns)
        return wrap({name: rollout[name] for name in names if name in rollout})

    def _minibatch(self, rows: Batch, columns: tuple[str, ...]) -> Minibatch:
        fields = {name: rows[name] for name in columns}
        mask, state = action_mask(rows.obs), as_returned(rows.get("state"))
        if self._compiled is not None:
            mask = None if mask is None else to_torch(mask, device=self._device)
            obs = to_torch(inner_obs(rows.obs), device=self._device)
            return Minibatch(obs=obs, state=state, mask=mask, **fields)
        return Minibatch(obs=rows.obs, state=state, mask=mask, batch=rows, **fields)

    def _as_tensors(self, batch: Any) -> Any:
        """Convert columns to tensors that an overridden ``process_fn`` has left as arrays."""
        for name in self.columns:
            value = batch[name]
            if not isinstance(value, torch.Tensor):
                dtype = self._act_dtype if name == "act" else dtype_of(self._networks[-1])
                batch[name] = to_torch(value, dtype, self._device)
        return batch

    def _compute_returns(self, rollout: Any, buffer: ReplayBuffer, indices: Index) -> Any:
        """Add ``v_s``, ``returns`` and ``adv``, tensors ``[B]``. Subclasses may override it."""
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
