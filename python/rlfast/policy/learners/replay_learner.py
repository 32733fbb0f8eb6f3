"""The template of algorithms that learn from sampled transitions, online or offline."""

from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, cast

import numpy as np
import torch
from torch import nn

from rlfast.data import Batch, to_torch
from rlfast.functional.losses import bootstrapped_return
from rlfast.policy.base import BasePolicy, LearnsFrom, TrainingStats
from rlfast.policy.components.action_masks import check_legal
from rlfast.policy.components.memory.hidden_state import add_stored_state, stored_state
from rlfast.policy.components.memory.sequences import Sequences, add_sums, flattened, has_sequences, priority_errors
from rlfast.policy.components.returns import Index, nstep_sums
from rlfast.utils.net.common import device_of
from rlfast.utils.optim import descend

if TYPE_CHECKING:
    from rlfast.data import ReplayBuffer
    from rlfast.data.types import BatchWithReturnsProtocol, RolloutBatchProtocol

Losses: TypeAlias = Mapping[str, torch.Tensor]
"""Losses by the names of the fields of the statistics: scalar tensors without gradient."""


class Sample(NamedTuple):
    """The B transitions of a gradient step: those of a sample, or all steps of its sequences that are learned from.

    Of sequences, ``obs`` and ``obs_next`` are :class:`rlfast.policy.components.memory.sequences.Sequences`. Otherwise
    they are tensors if the networks are known to accept them, or as the buffer returns them. All other fields are
    tensors on the device of the networks.
    """

    batch: Any
    """The sample after :meth:`ReplayLearner.process_fn`; None within a graph."""
    obs: Any
    state: Any
    """Hidden state before ``obs``, or None."""
    act: torch.Tensor
    weight: torch.Tensor | None
    """Importance weights of prioritized replay, ``[B]``."""
    is_due: bool
    """Whether this gradient step is one of the periodic ones, see :attr:`ReplayLearner.period`; or what an algorithm
    says instead, such as whether its actor still imitates."""
    draws: tuple[torch.Tensor, ...]
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


class ReplayLearner(BasePolicy):
    """The template of algorithms that learn from sampled transitions.

    It implements n-step sums, stored hidden states, transfers to the device, compiled updates, learning through a
    ``forward`` that was replaced or has hooks, priorities, the count of gradient steps, and one transfer of the losses
    back from the device.

    A buffer with ``unit=Sequence(length, burn_in)`` gives sequences, from each step of which a recurrent network
    learns. Its hidden state is the stored one, refreshed by the burn-in. N-step returns end with the sequence. The
    priority of a sequence mixes the largest and the mean error by ``eta``
    (:func:`rlfast.functional.sequences.sequence_priority`).

    An algorithm defines

    - :meth:`next_value` and :meth:`gradient_step`, and ``stats_class``, which has a field for each loss;
    - :meth:`draw_next` and :meth:`draw_step`, if these need random numbers, as a graph cannot draw them;
    - in both, actions and values by :meth:`call_forward` where :meth:`must_call_forward` is True.

    An algorithm that needs more than returns, such as their distribution, sets ``learns_from_returns`` to False. Its
    samples then have ``reward_sum``, ``discount`` and ``obs_next`` instead of ``returns``.

    :param gamma: discount of future rewards, in [0, 1].
    :param n_step: the largest number of steps to sum rewards over, at least 1.
    :param options: arguments of :class:`BasePolicy`.
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
    due_first: ClassVar[bool] = True
    """Whether ``sample.is_due`` in the first gradient step of each :attr:`period`, or in the last."""
    eta: float = 0.9
    """The share of the largest error in the priority of a sequence, in [0, 1]."""
    rew_norm: bool = False
    """Passed to :meth:`compute_nstep_return`, which refuses True."""

    def __init__(self, *, gamma: float, n_step: int, **options: Any) -> None:
        super().__init__(**options)
        self.gamma = gamma
        self.n_step = n_step
        self._iter = 0
        self._last_losses: dict[str, Any] = {}
        self._compiled: Any = None

    @property
    def learns_from(self) -> LearnsFrom | None:
        """See :attr:`BasePolicy.learns_from`."""
        return "transitions"

    # -- methods that an algorithm defines -----------------------------------------------------------------------------

    def next_value(self, obs_next: Any, state: Any = None, *draws: torch.Tensor) -> torch.Tensor:
        """Return the value of the observation after the last reward. It is called without gradients, and only where
        samples have ``returns``.

        :param obs_next: B observations.
        :param state: hidden state before them, or None.
        :param draws: the random numbers of :meth:`draw_next`; none if actions come from a ``forward`` that was
            replaced.
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

    def draw_next(self, rows: int) -> tuple[torch.Tensor, ...]:  # noqa: ARG002
        """Draw the random numbers of :meth:`next_value`; none by default.

        :param rows: number of rows of the sample.
        """
        return ()

    def draw_step(self, rows: int) -> tuple[torch.Tensor, ...]:  # noqa: ARG002
        """Draw the random numbers of :meth:`gradient_step`; none by default.

        :param rows: number of rows of the sample.
        """
        return ()

    @property
    def period(self) -> int:
        """The number of gradient steps of which one has ``sample.is_due``, see :attr:`due_first`; 0 for none."""
        return 0

    @property
    def acting_network(self) -> nn.Module:
        """The network that chooses actions; its device is that of the learner."""
        raise NotImplementedError

    def state_after(self, obs: Any, state: Any) -> Any:
        """Return the hidden state after observations.

        :param obs: observations.
        :param state: hidden state before them.
        """
        return self.acting_network(self.inputs(obs), state=state, info={})[1]

    # -- methods for algorithms ----------------------------------------------------------------------------------------

    def must_call_forward(self, *names: str) -> bool:
        """Return whether :meth:`forward` was replaced or has hooks, so that learning must call it.

        :param names: names of other methods whose replacement counts, too.
        """
        return not torch.compiler.is_compiling() and self._has_custom_forward(*names)

    def call_forward(self, obs: Any, state: Any = None, batch: Any = None, **options: Any) -> Any:
        """Return the result of :meth:`forward`, with its hooks, for use where :meth:`must_call_forward` is True.

        :param obs: observations.
        :param state: hidden state.
        :param batch: the sample that the observations belong to, if any.
        :param options: arguments of :meth:`forward`.
        """
        return self(Batch(obs=obs, info=[None] * len(obs)) if batch is None else batch, state, **options)

    def inputs(self, obs: Any) -> Any:
        """Return observations in the form that the networks accept; foreign networks get them as buffers return them.

        :param obs: observations.
        """
        return obs if self._compiled is None else to_torch(obs, device=self._device)

    def actions(self, act: Any, device: torch.device) -> torch.Tensor:
        """Return stored actions as a tensor for :meth:`gradient_step`.

        :param act: actions, ``[B, ...]``.
        :param device: device of the result.
        """
        return torch.as_tensor(act, dtype=self._dtype, device=device)

    def compile_update(self, compile: bool, *networks: nn.Module) -> None:
        """Compile targets and gradient step into one graph, if ``compile`` is True. Constructors call this last.

        :param compile: whether to compile.
        :param networks: the networks of the update.
        :raises ValueError: see :meth:`BasePolicy.compiled`.
        """
        self._compiled = self.compiled(self._whole_update, *networks) if compile else None

    # -- one update ----------------------------------------------------------------------------------------------------

    def process_fn(
        self, batch: "RolloutBatchProtocol", buffer: "ReplayBuffer", indices: Index
    ) -> "BatchWithReturnsProtocol":
        """Add n-step returns, ``[B, 1]``; see :meth:`BasePolicy.compute_nstep_return`. A compiled algorithm, or one
        with ``learns_from_returns = False``, gets ``reward_sum``, ``discount`` and the ``obs_next`` after the last
        reward.

        For samples of sequences, all of these are ``[N]``, for the N steps that are learned from.

        :raises TypeError: if a compiled algorithm gets observations that are not one array.
        :raises ValueError: if sequences would be learned from by a compiled update, or through a replaced method; or an
            algorithm that learns from log-probabilities gets an action that ``obs.mask`` calls illegal.
        """
        if self.learns_log_probs:
            check_legal(batch, self.action_space)
        if has_sequences(batch):
            return cast("BatchWithReturnsProtocol", self._process_sequences(batch))
        if self._compiled is not None:
            self.check_not_replaced()
            if not isinstance(batch.obs, np.ndarray | torch.Tensor):
                kind = type(batch.obs).__name__
                raise TypeError(f"compile=True needs observations that are one array, got a {kind}")
            if self.learns_from_rewards:
                self._add_nstep_parts(batch, buffer, indices)
            return cast("BatchWithReturnsProtocol", batch)
        add_stored_state(batch, buffer, indices)
        if not self.learns_from_rewards:
            return cast("BatchWithReturnsProtocol", batch)
        if not self.learns_from_returns:
            last = self._add_nstep_parts(batch, buffer, indices)
            state_next = stored_state(batch, buffer, last, after=self.state_after)
            if state_next is not None:
                cast("Any", batch).state_next = state_next
            return cast("BatchWithReturnsProtocol", batch)
        target_q = self._target_q if self.is_replaced("_target_q") else partial(self._value_after, batch)
        return self.compute_nstep_return(batch, buffer, indices, target_q, self.gamma, self.n_step, self.rew_norm)

    def _process_sequences(self, batch: Any) -> Any:
        if not self.learns_from_sequences:
            raise ValueError(f"{type(self).__name__} learns from transitions: give the buffer another unit")
        replaced = self._replaceable.keys() & {"_target_q", "_mse_optimizer"}
        if self._compiled is not None or self.must_call_forward(*replaced):
            raise ValueError(
                f"{type(self).__name__} learns from sequences by its own methods, without a graph: leave compile at "
                "False, and forward, _target_q and _mse_optimizer as they are; or give the buffer another unit"
            )
        add_sums(batch, self.n_step, self.gamma)
        if self.learns_from_returns:
            rows = flattened(batch, self._device)
            with torch.no_grad():
                draws = self.draw_next(len(rows.act))
                value = self.next_value(rows.obs_next, rows.get("state_next"), *draws)
                batch.returns = self.returns_of(rows, value)
        return batch

    def _add_nstep_parts(self, batch: Any, buffer: "ReplayBuffer", indices: Index) -> Index:
        batch.reward_sum, batch.discount, last = nstep_sums(batch, buffer, indices, self.gamma, self.n_step)
        if self.n_step > 1:
            batch.obs_next = buffer.get(last, "obs_next")
        return last

    def _target_q(self, buffer: "ReplayBuffer", indices: Index) -> torch.Tensor:
        """Return the value of the observation after each of some rows. Subclasses may override it."""
        return self._value_after(None, buffer, indices)

    def _value_after(self, batch: "RolloutBatchProtocol | None", buffer: "ReplayBuffer", last: Index) -> torch.Tensor:
        """Return the value of the observation after each of some rows.

        :param batch: the sample whose rows these are, from which next observations are taken; None to read the buffer.
        """
        rows: Any = buffer[last] if batch is None else batch
        obs_next = rows.obs_next if batch is None or self.n_step == 1 else buffer.get(last, "obs_next")
        state = stored_state(rows, buffer, last, after=self.state_after)
        if self.must_call_forward():  # such a forward gets observations as they were sampled, and draws itself
            return self.next_value(obs_next, state)
        return self.next_value(self.inputs(obs_next), state, *self.draw_next(len(last)))

    def learn(self, batch: "RolloutBatchProtocol", *args: Any, **kwargs: Any) -> Any:  # noqa: ARG002
        """Do one gradient step.

        :param batch: the result of :meth:`process_fn`, to which ``td_error``, ``[B]``, is added.
        :return: the losses as an object of ``stats_class``.
        """
        sample = self._as_sample(batch)
        step = self.gradient_step if self._compiled is None else self._compiled
        losses, error_B = step(sample)
        self._iter += 1
        if error_B is not None:
            self._set_td_error(batch, priority_errors(batch, error_B, self.eta))
        tensors = [*losses.values()]
        values = [tensors[0].item()] if len(tensors) == 1 else torch.stack(tensors).tolist()
        self._last_losses.update(zip(losses, values, strict=True))
        return self.stats_class(**self._last_losses)

    def _is_due(self) -> bool:
        """Return ``sample.is_due`` of the next gradient step."""
        period = self.period
        return period > 0 and self._iter % period == (0 if self.due_first else period - 1)

    def _as_sample(self, batch: Any) -> Sample:
        device = self._device
        if has_sequences(batch):
            batch = flattened(batch, device)
        rows = len(batch.act)
        graph, heard = self._compiled is not None, self.must_call_forward()  # a replaced forward draws its own numbers
        head = (
            None if graph or isinstance(batch.obs, Sequences) else batch,
            self.inputs(batch.obs),
            None if graph else batch.get("state"),
            self.actions(batch.act, device),
            torch.as_tensor(batch.weight, dtype=torch.float32, device=device) if "weight" in batch else None,
            self._is_due(),
        )
        extras = tuple(torch.as_tensor(batch[name], device=device) for name in self.extra_names)
        if not self.learns_from_rewards:
            return Sample(*head, () if heard else self.draw_step(rows), extras=extras)
        if self.learns_from_returns and not graph:
            returns = _column(torch.as_tensor(batch.returns, dtype=self._dtype, device=device))
            return Sample(*head, () if heard else self.draw_step(rows), returns, extras=extras)
        draws_next = () if heard else self.draw_next(rows)  # drawn before draw_step, as without a graph
        return Sample(
            *head,
            () if heard else self.draw_step(rows),
            reward_sum=torch.as_tensor(batch.reward_sum, device=device),
            discount=torch.as_tensor(batch.discount, device=device),
            obs_next=self.inputs(batch.obs_next),
            state_next=None if graph else batch.get("state_next"),
            draws_next=draws_next,
            extras=extras,
        )

    def _whole_update(self, sample: Sample) -> tuple[Losses, torch.Tensor | None]:
        """Compute targets and do a gradient step: the function that is compiled."""
        if self.learns_from_rewards and self.learns_from_returns:
            with torch.no_grad():
                value = self.next_value(sample.obs_next, None, *sample.draws_next)
                returns = self.returns_of(sample, value)
            sample = sample._replace(returns=returns)
        return self.gradient_step(sample)

    @staticmethod
    def returns_of(sample: Any, next_value: torch.Tensor) -> torch.Tensor:
        """Return the n-step returns of a sample with ``reward_sum`` and ``discount``.

        :param sample: the sample, or a batch with the same two fields.
        :param next_value: values of its next observations, ``[B]`` or ``[B, m]``.
        :return: returns in the shape of ``next_value``.
        """
        shape = (-1, *[1] * (next_value.dim() - 1))
        reward_sum = sample.reward_sum.to(next_value.dtype).reshape(shape)
        discount = sample.discount.to(next_value.dtype).reshape(shape)
        return bootstrapped_return(reward_sum, discount, next_value)

    @staticmethod
    def descend_mean(loss_B: torch.Tensor, sample: Sample, optim: Any) -> torch.Tensor:
        """Do one gradient step on the mean loss of the rows, each with its importance weight if the sample has weights.

        :param loss_B: the losses of the rows, ``[B]``.
        :param sample: the sample.
        :param optim: the optimizer.
        :return: the mean before the step, without gradient.
        """
        loss = (loss_B if sample.weight is None else sample.weight * loss_B).mean()
        descend(loss, optim)
        return loss.detach()

    def _set_td_error(self, batch: Any, error_B: torch.Tensor) -> None:
        """Set ``td_error`` for priorities, and ``weight``, which is its name in Tianshou."""
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


def _column(returns: torch.Tensor) -> torch.Tensor:
    """Return ``[B, 1]`` as ``[B]``, and ``[B, m]`` as it is."""
    return returns if returns.dim() > 1 and returns.shape[1] > 1 else returns.flatten()


def concatenated(first: Any, second: Any) -> Any:
    """Return two batches of observations as one.

    :param first: a tensor, an array, or a ``Batch`` of these.
    :param second: of the same kind.
    """
    if isinstance(first, torch.Tensor):
        return torch.cat([first, second])
    return np.concatenate([first, second]) if isinstance(first, np.ndarray) else Batch.cat([first, second])
