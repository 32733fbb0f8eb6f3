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
from rlfast.policy._hidden import add_stored_state, stored_state
from rlfast.policy._returns import Index, nstep_sums
from rlfast.policy.base import BasePolicy, TrainingStats
from rlfast.utils.net.common import device_of

if TYPE_CHECKING:
    from rlfast.data import ReplayBuffer
    from rlfast.data.types import BatchWithReturnsProtocol, RolloutBatchProtocol

Losses: TypeAlias = Mapping[str, torch.Tensor]
"""Scalars without gradient, by the names of the statistics' fields."""


class Sample(NamedTuple):
    """What a gradient step learns from: B transitions.

    ``obs`` and ``obs_next`` are tensors where the networks are known to take them, and as the buffer gives them
    otherwise; all else is tensors on the networks' device.
    """

    batch: Any
    """The sample as :meth:`ReplayLearner.process_fn` left it; None within a graph."""
    obs: Any
    state: Any
    """Hidden state before ``obs``, or None."""
    act: torch.Tensor
    weight: torch.Tensor | None
    """Importance weights of prioritized replay, ``[B]``."""
    is_due: bool
    """Whether what happens every so many gradient steps happens in this one; see :attr:`ReplayLearner.period`."""
    draws: tuple[torch.Tensor, ...]
    """What :meth:`ReplayLearner.draw_step` gave."""
    returns: Any = None
    """N-step returns, a tensor ``[B]``, or ``[B, m]`` where next values have m columns."""
    reward_sum: Any = None
    """Sums of up to n rewards, a tensor ``[B]``; None if there are ``returns`` instead."""
    discount: Any = None
    """What a value after these rewards counts, ``[B]``: 0 after a terminal state."""
    obs_next: Any = None
    """The observations after these rewards."""
    state_next: Any = None
    """Hidden state before ``obs_next``, or None."""
    draws_next: tuple[torch.Tensor, ...] = ()
    """What :meth:`ReplayLearner.draw_next` gave."""


class ReplayLearner(BasePolicy):
    """Learns from sampled transitions; an algorithm says what the next state is worth and what a gradient step is.

    Here are n-step sums, stored hidden states, transfers to the device, updates as one graph, learning through a
    ``forward`` that is replaced or listened to, priorities, the count of gradient steps, and the one time that losses
    are read back.

    An algorithm has

    - :meth:`next_value` and :meth:`gradient_step`, and ``stats_class``, whose fields the losses are;
    - where random numbers are needed, :meth:`draw_next` and :meth:`draw_step`, for a graph draws none;
    - in both, actions and values from :meth:`through_forward` where :meth:`is_heard`.

    One that needs more than returns, such as the distribution of them, sets ``learns_from_returns`` to False: its
    samples have ``reward_sum``, ``discount`` and ``obs_next`` in their place.

    :param gamma: discount, in [0, 1].
    :param n_step: most steps to sum rewards over, 1 or more.
    :param options: of :class:`BasePolicy`.
    """

    stats_class: ClassVar[type[TrainingStats]]
    """Made of the losses by their names."""
    learns_from_returns: ClassVar[bool] = True
    """Whether samples have ``returns``; else ``reward_sum`` and ``discount``."""
    rew_norm: bool = False
    """Given on to :meth:`compute_nstep_return`, which refuses True."""

    def __init__(self, *, gamma: float, n_step: int, **options: Any) -> None:
        super().__init__(**options)
        self.gamma = gamma
        self.n_step = n_step
        self._iter = 0
        self._last_losses: dict[str, Any] = {}
        self._compiled: Any = None

    # -- what an algorithm says ----------------------------------------------------------------------------------------

    @abstractmethod
    def next_value(self, obs_next: Any, state: Any = None, *draws: torch.Tensor) -> torch.Tensor:
        """Rate the observation after the last reward, without gradients.

        :param obs_next: B observations.
        :param state: hidden state before them, or None.
        :param draws: what :meth:`draw_next` gave; none where actions come from a ``forward`` that is replaced.
        :return: ``[B]``, or ``[B, m]`` for m returns of each row.
        """

    @abstractmethod
    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor | None]:
        """Do one gradient step, in a graph as well as line by line.

        :return: the losses before the step, of which one that is missing keeps its last value; and the errors ``[B]``
            whose absolute values become priorities, None for no priorities.
        """

    def draw_next(self, rows: int) -> tuple[torch.Tensor, ...]:  # noqa: ARG002
        """Draw the random numbers of :meth:`next_value`."""
        return ()

    def draw_step(self, rows: int) -> tuple[torch.Tensor, ...]:  # noqa: ARG002
        """Draw the random numbers of :meth:`gradient_step`."""
        return ()

    @property
    def period(self) -> int:
        """After how many gradient steps ``sample.is_due`` is True again, the first one included; 0 for never."""
        return 0

    @property
    def acting_network(self) -> nn.Module:
        """The network that actions come from, whose device learning happens on."""
        raise NotImplementedError

    def state_after(self, obs: Any, state: Any) -> Any:
        """Give the hidden state after an observation, from the one before it."""
        return self.acting_network(self.inputs(obs), state=state, info={})[1]

    # -- what it can rely on -------------------------------------------------------------------------------------------

    def is_heard(self, *names: str) -> bool:
        """Whether :meth:`forward` is replaced or listened to, so that learning has to go through it.

        :param names: of other methods that count as well.
        """
        return not torch.compiler.is_compiling() and self._asks_itself(*names)

    def through_forward(self, obs: Any, state: Any = None, batch: Any = None, **options: Any) -> Any:
        """Give what :meth:`forward` gives, for where :meth:`is_heard`.

        :param obs: observations.
        :param state: hidden state.
        :param batch: the sample that they belong to, if any.
        :param options: of :meth:`forward`.
        """
        return self(Batch(obs=obs, info=[None] * len(obs)) if batch is None else batch, state, **options)

    def inputs(self, obs: Any) -> Any:
        """Give observations as the networks take them: for those of others, as buffers give them."""
        return obs if self._compiled is None else to_torch(obs, device=self._device)

    def actions(self, act: Any, device: torch.device) -> torch.Tensor:
        """Give stored actions as :meth:`gradient_step` takes them."""
        return torch.as_tensor(act, dtype=self._dtype, device=device)

    def compile_update(self, compile: bool, *networks: nn.Module) -> None:
        """Make one graph of targets and gradient step, if asked to: the last line of a constructor.

        :raises ValueError: see :meth:`BasePolicy.compiled`.
        """
        self._compiled = self.compiled(self._whole_update, *networks) if compile else None

    # -- one update ----------------------------------------------------------------------------------------------------

    def process_fn(
        self, batch: "RolloutBatchProtocol", buffer: "ReplayBuffer", indices: Index
    ) -> "BatchWithReturnsProtocol":
        """Add n-step returns, ``[B, 1]``; see :meth:`BasePolicy.compute_nstep_return`. An algorithm that is compiled or
        needs more than returns gets ``reward_sum``, ``discount`` and the last ``obs_next`` instead.
        """
        if self._compiled is not None:
            self.check_graph_is_stock()
            if not isinstance(batch.obs, np.ndarray | torch.Tensor):
                kind = type(batch.obs).__name__
                raise TypeError(f"compile=True needs observations that are one array, got a {kind}")
            self._add_nstep_parts(batch, buffer, indices)
            return cast("BatchWithReturnsProtocol", batch)
        add_stored_state(batch, buffer, indices)
        if not self.learns_from_returns:
            last = self._add_nstep_parts(batch, buffer, indices)
            state_next = stored_state(batch, buffer, last, after=self.state_after)
            if state_next is not None:
                cast("Any", batch).state_next = state_next
            return cast("BatchWithReturnsProtocol", batch)
        target_q = self._target_q if self.is_replaced("_target_q") else partial(self._value_after, batch)
        return self.compute_nstep_return(batch, buffer, indices, target_q, self.gamma, self.n_step, self.rew_norm)

    def _add_nstep_parts(self, batch: Any, buffer: "ReplayBuffer", indices: Index) -> Index:
        batch.reward_sum, batch.discount, last = nstep_sums(batch, buffer, indices, self.gamma, self.n_step)
        if self.n_step > 1:
            batch.obs_next = buffer.get(last, "obs_next")
        return last

    def _target_q(self, buffer: "ReplayBuffer", indices: Index) -> torch.Tensor:
        """Rate the observation after each of some rows; the method that subclasses override."""
        return self._value_after(None, buffer, indices)

    def _value_after(self, batch: "RolloutBatchProtocol | None", buffer: "ReplayBuffer", last: Index) -> torch.Tensor:
        """Rate the observation after each of some rows.

        :param batch: the sample that the rows belong to, whose next observations spare looking for them.
        """
        rows: Any = buffer[last] if batch is None else batch
        obs_next = rows.obs_next if batch is None or self.n_step == 1 else buffer.get(last, "obs_next")
        state = stored_state(rows, buffer, last, after=self.state_after)
        if self.is_heard():  # to whom observations are given as they were sampled, and who draws by himself
            return self.next_value(obs_next, state)
        return self.next_value(self.inputs(obs_next), state, *self.draw_next(len(last)))

    def learn(self, batch: "RolloutBatchProtocol", *args: Any, **kwargs: Any) -> Any:  # noqa: ARG002
        """Do one gradient step.

        :param batch: what :meth:`process_fn` gave; ``td_error``, ``[B]``, is added to it.
        """
        sample = self._as_sample(batch)
        step = self.gradient_step if self._compiled is None else self._compiled
        losses, error_B = step(sample)
        self._iter += 1
        if error_B is not None:
            self._leave_errors(batch, error_B)
        tensors = [*losses.values()]
        values = [tensors[0].item()] if len(tensors) == 1 else torch.stack(tensors).tolist()
        self._last_losses.update(zip(losses, values, strict=True))
        return self.stats_class(**self._last_losses)

    def _as_sample(self, batch: Any) -> Sample:
        device, rows = self._device, len(batch.act)
        graph, heard = self._compiled is not None, self.is_heard()  # a forward that is heard draws by itself
        period = self.period
        head = (
            None if graph else batch,
            self.inputs(batch.obs),
            None if graph else batch.get("state"),
            self.actions(batch.act, device),
            torch.as_tensor(batch.weight, dtype=torch.float32, device=device) if "weight" in batch else None,
            period > 0 and self._iter % period == 0,
        )
        if self.learns_from_returns and not graph:
            returns = _column(torch.as_tensor(batch.returns, dtype=self._dtype, device=device))
            return Sample(*head, () if heard else self.draw_step(rows), returns)
        draws_next = () if heard else self.draw_next(rows)  # in the order of process_fn and learn
        return Sample(
            *head,
            () if heard else self.draw_step(rows),
            reward_sum=torch.as_tensor(batch.reward_sum, device=device),
            discount=torch.as_tensor(batch.discount, device=device),
            obs_next=self.inputs(batch.obs_next),
            state_next=None if graph else batch.get("state_next"),
            draws_next=draws_next,
        )

    def _whole_update(self, sample: Sample) -> tuple[Losses, torch.Tensor | None]:
        """Do as one graph what :meth:`process_fn` and :meth:`learn` do in turn."""
        if self.learns_from_returns:
            with torch.no_grad():
                value = self.next_value(sample.obs_next, None, *sample.draws_next)
                returns = self.returns_of(sample, value)
            sample = sample._replace(returns=returns)
        return self.gradient_step(sample)

    @staticmethod
    def returns_of(sample: Sample, next_value: torch.Tensor) -> torch.Tensor:
        """Give n-step returns of a sample with ``reward_sum`` and ``discount``, in the shape of the next values."""
        shape = (-1, *[1] * (next_value.dim() - 1))
        reward_sum = sample.reward_sum.to(next_value.dtype).reshape(shape)
        discount = sample.discount.to(next_value.dtype).reshape(shape)
        return bootstrapped_return(reward_sum, discount, next_value)

    def _leave_errors(self, batch: Any, error_B: torch.Tensor) -> None:
        """Leave errors for priorities, and under the name that Tianshou gives them."""
        batch.td_error = batch.weight = error_B

    # -- small things --------------------------------------------------------------------------------------------------

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
        """What actions and returns are converted to; None leaves them."""
        return None


def _column(returns: torch.Tensor) -> torch.Tensor:
    """Give one return of each row as ``[B]``; several stay ``[B, m]``."""
    return returns if returns.dim() > 1 and returns.shape[1] > 1 else returns.flatten()
