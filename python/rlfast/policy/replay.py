"""The base class of algorithms that learn from sampled transitions, online or offline."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, Unpack, cast

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from rlfast.data import Batch, ReplayBuffer, to_torch
from rlfast.data.types import BatchWithReturnsProtocol, RolloutBatchProtocol
from rlfast.functional.losses import bootstrapped_return
from rlfast.policy.base import BasePolicy, LearnsFrom, PolicyOptions, TrainingStats
from rlfast.policy.components.action_masks import check_legal
from rlfast.policy.components.memory.hidden_state import add_stored_state, as_returned, stored_state
from rlfast.policy.components.memory.sequences import Sequences, add_sums, flattened, has_sequences, priority_errors
from rlfast.policy.components.returns import Index, nstep_sums
from rlfast.utils.net.common import RunningNorm, device_of

Losses: TypeAlias = Mapping[str, torch.Tensor]
"""Losses by the names of the fields of the statistics: scalar tensors without gradient."""


class Sample(NamedTuple):
    """The B transitions of a gradient step: those of a sample, or all steps of its sequences that are learned from.

    Observations are as the buffer returns them, since networks convert them; within a graph they are tensors. Of
    sequences, they are :class:`rlfast.policy.components.memory.sequences.Sequences`. All other fields are tensors on
    the device of the networks.
    """

    batch: Any
    """The sample after :meth:`ReplayLearner.process_fn`; None within a graph."""
    obs: Any
    state: Any
    """Hidden state before ``obs``, or None."""
    act: torch.Tensor
    weight: Any
    """Importance weights of prioritized replay, ``[B]``; 1.0 without."""
    is_due: bool
    """The result of :meth:`ReplayLearner.is_due`."""
    draws: tuple[torch.Tensor, ...] = ()
    """The random numbers of :meth:`ReplayLearner.draw_step`."""
    returns: Any = None
    """N-step returns, ``[B]``, or ``[B, m]`` if next values have m columns."""
    reward_sum: Any = None
    """Discounted sums of up to n rewards, ``[B]``; None if there are ``returns``."""
    discount: Any = None
    """The factor of the value after these rewards, ``[B]``; 0 after a terminal state."""
    obs_next: Any = None
    """The observations after these rewards."""
    state_next: Any = None
    """Hidden state before ``obs_next``, or None."""
    draws_next: tuple[torch.Tensor, ...] = ()
    """The random numbers of :meth:`ReplayLearner.draw_next`."""
    extras: tuple[torch.Tensor, ...] = ()
    """The columns of :attr:`ReplayLearner.extra_names`."""

    def bootstrapped(self, next_value: torch.Tensor) -> torch.Tensor:
        """Return the n-step returns of a sample with ``reward_sum`` and ``discount``.

        :param next_value: values of the next observations, ``[B]`` or ``[B, m]``.
        :return: returns in the shape of ``next_value``.
        """
        return returns_of(self, next_value)


class ReplayOptions(PolicyOptions, total=False):
    """The arguments of :class:`ReplayLearner` that algorithms pass on."""

    compile: bool


class ReplayLearner(BasePolicy):
    """The base class of algorithms that learn from sampled transitions.

    An update samples a batch, of which ``process_fn`` makes ``returns = reward_sum + discount * next_value`` (y in the
    formulas of algorithms) and ``learn`` a :class:`Sample`, whose tensors ``gradient_step`` learns from.

    It implements n-step sums, stored hidden states, transfers to the device, compiled updates, priorities, the count of
    gradient steps, and one transfer of the losses back from the device.

    A buffer with ``unit=Sequence(length, burn_in)`` gives sequences, from each step of which a recurrent network
    learns. Its hidden state is the stored one, refreshed by the burn-in. N-step returns end with the sequence. The
    priority of a sequence mixes the largest and the mean error by ``eta``
    (:func:`rlfast.functional.sequences.sequence_priority`).

    An algorithm defines

    - :meth:`next_value`, the value in its targets, and :meth:`gradient_step`, its losses and steps;
    - ``stats_class``, which has a field for each loss;
    - :meth:`draw_next` and :meth:`draw_step`, if these need random numbers, as a graph cannot draw them;
    - :meth:`is_due`, if a part of the gradient step is periodic.

    An algorithm that needs more than returns, such as their distribution, sets ``learns_from_returns`` to False. Its
    samples then have ``reward_sum``, ``discount`` and ``obs_next`` instead of ``returns``.

    A subclass of an algorithm may also override ``_target_q(buffer, indices)``.

    :param gamma: discount of future rewards, in [0, 1].
    :param n_step: the largest number of steps to sum rewards over, at least 1.
    :param action_space: action space of one environment.
    :param action_scaling: whether actions are stretched from [-1, 1] to the bounds of a Box. Default: False.
    :param action_bound_method: how actions are bounded to [-1, 1] before that: ``"clip"`` (default), ``"tanh"``, or
        None.
    :param compile: whether a whole update is compiled into one graph. Default: False.
    :param options: of :class:`rlfast.policy.BasePolicy`.
    """

    stats_class: ClassVar[type[TrainingStats]]
    """The class of the statistics, which has a field for each loss."""
    learns_from_returns: ClassVar[bool] = True
    """Whether samples have ``returns``, and not ``reward_sum`` and ``discount``."""
    learns_from_rewards: ClassVar[bool] = True
    """Whether samples have rewards and what follows them; False for learning from observations and actions alone."""
    learns_log_probs: ClassVar[bool] = False
    """Whether it learns from log-probabilities of the actions in the data, which must be legal then."""
    extra_names: tuple[str, ...] = ()
    """Further columns of a processed sample, which ``sample.extras`` has as tensors."""
    learns_from_sequences: ClassVar[bool] = False
    """Whether samples may be sequences. Then ``network_output``, ``actor_output`` and ``critic_output`` must call all
    networks."""
    eta: float = 0.9
    """The share of the largest error in the priority of a sequence, in [0, 1]."""
    rew_norm: bool = False
    """Passed to :meth:`compute_nstep_return`, which refuses True."""
    tau: float = 1.0
    """Size of the steps of target networks, in [0, 1]; 1 copies the trained ones."""
    _targets: tuple[tuple[str, str], ...] = ()  # names of target networks and of the trained ones

    def __init__(
        self,
        *,
        gamma: float,
        n_step: int,
        action_space: gym.Space[Any],
        action_scaling: bool = False,
        action_bound_method: Literal["clip", "tanh"] | None = "clip",
        compile: bool = False,
        **options: Unpack[PolicyOptions],
    ) -> None:
        super().__init__(
            action_space=action_space, action_scaling=action_scaling, action_bound_method=action_bound_method, **options
        )
        self.gamma = gamma
        self.n_step = n_step
        self._iter = 0
        self._last_losses: dict[str, Any] = {}
        self._sampled: Any = None  # the sample whose targets are computed, which has what follows its rows
        self._norms: list[RunningNorm] = []  # of observations, in all networks
        self._compiled: Any = compile or None  # the graph, when all networks are there

    def completed(self) -> None:
        """Find the running normalizations of observations, and compile the update, if ``compile`` is True.

        :raises ValueError: see :meth:`BasePolicy.compiled`.
        """
        self._norms = [module for module in self.modules() if isinstance(module, RunningNorm)]
        if self._compiled is not None:
            self._compiled = self.compiled(self._whole_update, self)

    @property
    def learns_from(self) -> LearnsFrom | None:
        """See :attr:`BasePolicy.learns_from`."""
        return "transitions"

    # -- methods that an algorithm defines -----------------------------------------------------------------------------

    def next_value(self, obs_next: object, state: object = None, *draws: torch.Tensor) -> torch.Tensor:
        """Return the value of the observation after the last reward. It is called without gradients, and only where
        samples have ``returns``.

        :param obs_next: B observations.
        :param state: hidden state before them, or None.
        :param draws: the random numbers of :meth:`draw_next`.
        :return: ``[B]``, or ``[B, m]`` for m returns of each row.
        """
        raise NotImplementedError

    @abstractmethod
    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor | None]:
        """Do one gradient step. It must work both compiled and not compiled.

        :param sample: the transitions.
        :return: the losses before the step, where a missing loss keeps its last value; and the errors ``[B]`` whose
            absolute values become priorities, or None for no priorities.
        """

    def draw_next(self, rows: int) -> tuple[torch.Tensor, ...]:
        """Draw the random numbers of :meth:`next_value`; none by default.

        :param rows: number of rows of the sample.
        """
        return ()

    def draw_step(self, rows: int) -> tuple[torch.Tensor, ...]:
        """Draw the random numbers of :meth:`gradient_step`; none by default.

        :param rows: number of rows of the sample.
        """
        return ()

    def is_due(self) -> bool:
        """Return ``sample.is_due`` of the next gradient step: whether it includes the periodic part."""
        return True

    def add_targets(self, *names: str, suffix: str = "_old") -> None:
        """Make target networks, which :meth:`sync_weight` moves towards the trained ones.

        :param names: attributes with trained networks.
        :param suffix: what the names of their target networks end with. Default: ``"_old"``.
        """
        self._targets = tuple((f"{name}{suffix}", name) for name in names)
        for target, name in self._targets:
            setattr(self, target, self.lagged_copy(getattr(self, name)))

    def sync_weight(self) -> None:
        """Move the networks of :meth:`add_targets` a step of :attr:`tau` towards the trained ones."""
        for target, name in self._targets:
            self.soft_update(getattr(self, target), getattr(self, name), self.tau)

    @property
    def acting_network(self) -> nn.Module:
        """The network that chooses actions; its device is that of the learner."""
        return cast("nn.Module", self.actor)

    def state_after(self, obs: object, state: object) -> Any:
        """Return the hidden state after observations.

        :param obs: observations.
        :param state: hidden state before them.
        """
        return self.acting_network(obs, state=state, info={})[1]

    def inputs(self, obs: object) -> Any:
        """Return observations for :meth:`gradient_step`: as buffers return them, or tensors for a graph.

        :param obs: observations.
        """
        return obs if self._compiled is None or isinstance(obs, Sequences) else to_torch(obs, device=self._device)

    def actions(self, act: object, device: torch.device) -> torch.Tensor:
        """Return stored actions as a tensor for :meth:`gradient_step`.

        :param act: actions, ``[B, ...]``.
        :param device: device of the result.
        """
        return torch.as_tensor(act, dtype=self._dtype, device=device)

    # -- one update ----------------------------------------------------------------------------------------------------

    def process_fn(self, batch: RolloutBatchProtocol, buffer: ReplayBuffer, indices: Index) -> BatchWithReturnsProtocol:
        """Add n-step returns, ``[B, 1]``; see :meth:`BasePolicy.compute_nstep_return`. A compiled algorithm, or one
        with ``learns_from_returns = False``, gets ``reward_sum``, ``discount`` and the ``obs_next`` after the last
        reward.

        For samples of sequences, all of these are ``[N]``, for the N steps that are learned from.

        :raises TypeError: if a compiled algorithm gets observations that are not one array.
        :raises ValueError: if sequences would be learned from by a compiled update, or through an overridden method; or
            an algorithm that learns from log-probabilities gets an action that ``obs.mask`` calls illegal.
        """
        if self.learns_log_probs:
            check_legal(batch, self.action_space)
        if has_sequences(batch):
            return cast(BatchWithReturnsProtocol, self._process_sequences(batch))
        for norm in self._norms:
            norm.update(cast("Any", batch.obs))
        if self._compiled is None:
            add_stored_state(batch, buffer, indices)
        elif not isinstance(batch.obs, np.ndarray | torch.Tensor):
            kind = type(batch.obs).__name__
            raise TypeError(f"compile=True needs observations that are one array, got a {kind}")
        if not self.learns_from_rewards:
            return cast(BatchWithReturnsProtocol, batch)
        if self.learns_from_returns and self._compiled is None:
            try:
                vars(self)["_sampled"] = batch  # spares nn.Module's search among parameters
                return self.compute_nstep_return(
                    batch, buffer, indices, self._target_q, self.gamma, self.n_step, self.rew_norm
                )
            finally:
                vars(self)["_sampled"] = None
        last = self._add_sums(batch, buffer, indices)
        if self._compiled is None and (state := stored_state(batch, buffer, last, after=self.state_after)) is not None:
            cast("Any", batch).state_next = state
        return cast(BatchWithReturnsProtocol, batch)

    def _add_sums(self, batch: Any, buffer: ReplayBuffer, indices: Index) -> Index:
        """Add sums of rewards and what follows them; return the last row of each sum."""
        batch.reward_sum, batch.discount, last = nstep_sums(batch, buffer, indices, self.gamma, self.n_step)
        if self.n_step > 1:
            batch.obs_next = buffer.get(last, "obs_next")
        return last

    def _process_sequences(self, batch: Any) -> Any:
        if not self.learns_from_sequences:
            raise ValueError(f"{type(self).__name__} learns from transitions: give the buffer another unit")
        if self._compiled is not None or not self._learns_by_own_methods:
            raise ValueError(
                f"{type(self).__name__} learns from sequences by its own methods, without a graph: leave compile at "
                "False, and forward, _target_q and _mse_optimizer as they are; or give the buffer another unit"
            )
        if self._norms:
            raise ValueError("networks with a RunningNorm learn from transitions: give the buffer another unit")
        add_sums(batch, self.n_step, self.gamma)
        if self.learns_from_returns:
            rows = flattened(batch, self._device)
            with torch.no_grad():
                state = as_returned(rows.get("state_next"))
                value = self.next_value(rows.obs_next, state, *self.draw_next(len(rows.act)))
                batch.returns = returns_of(rows, value)
        return batch

    def _target_q(self, buffer: ReplayBuffer, indices: Index) -> torch.Tensor:
        """Return the value of the observation after each of some rows, ``[B]``. Subclasses may override it."""
        batch = self._sampled
        obs_next = buffer.get(indices, "obs_next") if batch is None or self.n_step > 1 else batch.obs_next
        state = as_returned(stored_state(batch, buffer, indices, after=self.state_after))
        return self.next_value(obs_next, state, *self.draw_next(len(indices)))

    def learn(self, batch: RolloutBatchProtocol, *args: Any, **kwargs: Any) -> Any:
        """Do one gradient step.

        :param batch: the result of :meth:`process_fn`, to which ``td_error``, ``[B]``, is added.
        :return: the losses as an object of ``stats_class``.
        """
        step = self.gradient_step if self._compiled is None else self._compiled
        losses, error_B = step(self._as_sample(batch))
        self._iter += 1
        if error_B is not None:
            self._set_td_error(batch, priority_errors(batch, error_B, self.eta))
        tensors = [*losses.values()]
        values = [tensors[0].item()] if len(tensors) == 1 else torch.stack(tensors).tolist()
        self._last_losses.update(zip(losses, values, strict=True))
        return self.stats_class(**self._last_losses)

    def _as_sample(self, batch: Any) -> Sample:
        device, graph = self._device, self._compiled is not None
        if has_sequences(batch):
            batch = flattened(batch, device)
        rows = len(batch.act)
        fields: dict[str, Any] = {
            "batch": None if graph or isinstance(batch.obs, Sequences) else batch,
            "obs": self.inputs(batch.obs),
            "state": None if graph else as_returned(batch.get("state")),
            "act": self.actions(batch.act, device),
            "weight": torch.as_tensor(batch.weight, dtype=torch.float32, device=device) if "weight" in batch else 1.0,
            "is_due": self.is_due(),
            "extras": tuple(torch.as_tensor(batch[name], device=device) for name in self.extra_names),
        }
        if self.learns_from_rewards:
            if self.learns_from_returns and "returns" in batch:
                fields["returns"] = _column(torch.as_tensor(batch.returns, dtype=self._dtype, device=device))
            else:
                fields["reward_sum"] = torch.as_tensor(batch.reward_sum, device=device)
                fields["discount"] = torch.as_tensor(batch.discount, device=device)
                fields["obs_next"] = self.inputs(batch.obs_next)
                fields["state_next"] = None if graph else as_returned(batch.get("state_next"))
                fields["draws_next"] = self.draw_next(rows)  # drawn before draw_step, as without a graph
        return Sample(**fields, draws=self.draw_step(rows))

    def _whole_update(self, sample: Sample) -> tuple[Losses, torch.Tensor | None]:
        """Compute targets and do a gradient step: the function that is compiled."""
        if self.learns_from_rewards and self.learns_from_returns:
            with torch.no_grad():
                value = self.next_value(sample.obs_next, None, *sample.draws_next)
            sample = sample._replace(returns=sample.bootstrapped(value))
        return self.gradient_step(sample)

    def _set_td_error(self, batch: Any, error_B: torch.Tensor) -> None:
        """Set ``td_error`` for priorities, and ``weight``, another name for it."""
        batch.td_error = batch.weight = error_B

    # -- attributes ----------------------------------------------------------------------------------------------------

    @property
    def estimation_step(self) -> int:
        """Another name for ``n_step``."""
        return self.n_step

    @estimation_step.setter
    def estimation_step(self, value: int) -> None:
        self.n_step = value

    @property
    def _device(self) -> torch.device:
        return device_of(self.acting_network) or torch.device("cpu")

    @property
    def _dtype(self) -> torch.dtype | None:
        """The dtype that actions and returns are converted to; None leaves them as they are."""
        return None


def returns_of(sample: Sample, next_value: torch.Tensor) -> torch.Tensor:
    """Return the n-step returns of rows with ``reward_sum`` and ``discount``, each ``[B]``.

    :param sample: the rows, a :class:`Sample` or a batch.
    :param next_value: values of the next observations, ``[B]`` or ``[B, m]``.
    :return: returns in the shape of ``next_value``.
    """
    shape = (-1, *[1] * (next_value.dim() - 1))
    reward_sum, discount = (one.to(next_value.dtype).reshape(shape) for one in (sample.reward_sum, sample.discount))
    return bootstrapped_return(reward_sum, discount, next_value)


def _column(returns: torch.Tensor) -> torch.Tensor:
    """Return ``[B, 1]`` as ``[B]``, and ``[B, m]`` as it is."""
    return returns if returns.dim() > 1 and returns.shape[1] > 1 else returns.flatten()


def rows_of_both(first: Any, second: Any) -> Any:
    """Return two batches of observations as one.

    :param first: a tensor, an array, or a ``Batch`` of these.
    :param second: of the same kind.
    """
    if isinstance(first, torch.Tensor):
        return torch.cat([first, second])
    return np.concatenate([first, second]) if isinstance(first, np.ndarray) else Batch.cat([first, second])
