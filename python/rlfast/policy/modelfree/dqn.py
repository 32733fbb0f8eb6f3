import warnings
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from rlfast._core import explore
from rlfast.data import Batch, to_numpy
from rlfast.data.batch.batch import parse, wrap
from rlfast.functional.losses import bootstrapped_return, double_q_value, huber_loss, max_value, squared_loss, td_error
from rlfast.policy._checks import check_networks
from rlfast.policy._compiled import with_nstep_parts
from rlfast.policy._hidden import add_stored_state, stored_state
from rlfast.policy._replaced import stock
from rlfast.policy.base import BasePolicy, Index, TLearningRateScheduler, TrainingStats
from rlfast.policy.random import action_mask, random_legal
from rlfast.utils.net.common import device_of
from rlfast.utils.optim import OptimizerFactory, descend, make_optimizer
from rlfast.utils.validation import NonNegativeInt, PositiveInt, UnitFloat, validate_arguments

if TYPE_CHECKING:
    from rlfast.data import ReplayBuffer
    from rlfast.data.types import (
        BatchWithReturnsProtocol,
        ModelOutputBatchProtocol,
        ObsBatchProtocol,
        RolloutBatchProtocol,
    )


@dataclass(kw_only=True)
class DQNTrainingStats(TrainingStats):
    """What one gradient step of DQN tells."""

    loss: float
    """The loss before the step."""


TDQNTrainingStats = TypeVar("TDQNTrainingStats", bound=DQNTrainingStats)


@stock("__call__", "forward", "compute_q_value", "_target_q")
class DQNPolicy(BasePolicy):
    r"""Deep Q-learning (Mnih et al. 2015, doi:10.1038/nature14236), by default in its double form (arXiv:1509.06461).

    .. math::
        G_t &= \sum_{i=0}^{k-1} \gamma^i r_{t+i}
            + \gamma^k\, Q^-\bigl(s_{t+k}, \arg\max_a Q(s_{t+k}, a)\bigr) \\
        L &= \frac1B \sum w\, \ell\bigl(G_t - Q(s_t, a_t)\bigr), \qquad Q^- \leftarrow Q \text{ every } C \text{ steps}

    with :math:`\ell` the square or Huber's function and w the weights of prioritized replay (arXiv:1511.05952), 1
    without it. A dueling network (arXiv:1511.06581) is a matter of the model alone.

    A subclass that overrides :meth:`forward`, :meth:`compute_q_value` or ``_target_q(buffer, indices)`` learns through
    them, and so does a policy to which hooks or a method of its own are given.

    :param model: called as ``model(obs, state=None, info={})``; gives action values ``[B, actions]`` and the next
        hidden state.
    :param optim: optimizes ``model``: an optimizer, or a factory such as :func:`rlfast.utils.optim.adam`, called with
        its parameters; None for a policy that only acts.
    :param discount_factor: :math:`\gamma`, in [0, 1]. Default: 0.99.
    :param estimation_step: n, the most steps to sum rewards over. Default: 1.
    :param target_update_freq: C, gradient steps between copies to the target network; 0 for no target network. Default:
        0.
    :param reward_normalization: must be False.
    :param is_double: whether the trained network chooses the action that the target network rates. Default: True.
    :param clip_loss_grad: whether to use Huber's function, whose gradient is at most 1, for the square. Default: False.
    :param action_space: of one environment; another than a ``Discrete`` is taken with a warning, for subclasses and
        wrapped environments that know what to do with actions 0, 1, 2, ...
    :param observation_space: of one environment, kept for reference. Default: None.
    :param lr_scheduler: takes a step after each update. Default: None.
    :param compile: whether targets, loss, gradients and step become one graph, which is about twice as quick and takes
        some ten seconds to compile. Needs observations that are arrays, a network without recurrence, and Adam, AdamW,
        RMSprop or SGD. Default: False.
    :raises ValueError: for a value out of range, or what cannot be compiled.

    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.optim import adam
    >>> policy = DQNPolicy(model=Net(4, 2, [64]), optim=adam(1e-3), action_space=Discrete(2), target_update_freq=100)
    >>> policy(Batch(obs=np.zeros((3, 4), np.float32), info={})).act.shape
    (3,)
    """

    counts_from_zero = True

    @validate_arguments
    def __init__(
        self,
        *,
        model: torch.nn.Module,
        optim: torch.optim.Optimizer | OptimizerFactory | None,
        action_space: gym.Space[Any],
        discount_factor: UnitFloat = 0.99,
        estimation_step: PositiveInt = 1,
        target_update_freq: NonNegativeInt = 0,
        reward_normalization: bool = False,
        is_double: bool = True,
        clip_loss_grad: bool = False,
        observation_space: gym.Space[Any] | None = None,
        lr_scheduler: TLearningRateScheduler | None = None,
        compile: bool = False,
    ) -> None:
        check_networks(model=model)
        if reward_normalization:
            raise ValueError(
                "reward_normalization must be False: normalized rewards have no Q-values; scale the rewards instead"
            )
        super().__init__(
            action_space=action_space,
            observation_space=observation_space,
            action_bound_method=None,
            lr_scheduler=lr_scheduler,
        )
        if not isinstance(action_space, Discrete):
            warnings.warn(
                f"DQN chooses actions 0, 1, 2, ..., but the action space is {action_space}; that of one of several "
                "environments is their single_action_space or action_space[0]",
                stacklevel=4,
            )
        self.model = model
        self.optim = make_optimizer(optim, model.parameters())
        self.model_old = self.lagged_copy(model) if target_update_freq else None
        self.gamma = discount_factor
        self.n_step = estimation_step
        self.freq = target_update_freq
        self.is_double = is_double
        self.clip_loss_grad = clip_loss_grad
        self.rew_norm = False  # for subclasses that give it to compute_nstep_return
        self.eps = 0.0
        self.max_action_num: int | None = int(action_space.n) if isinstance(action_space, Discrete) else None
        self._iter = 0
        self._compiled = self.compiled(self._whole_update, model) if compile else None

    @property
    def _target(self) -> bool:
        """Whether there is a target network."""
        return self.freq > 0

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation mode for the trained network; others that a subclass has keep theirs."""
        self.training = mode
        self.model.train(mode)
        return self

    def set_eps(self, eps: float) -> None:
        """Set how often exploration takes a random action.

        :param eps: probability; a number outside [0, 1] counts as the nearest one in it.
        :raises ValueError: it is NaN.
        """
        if eps != eps:  # noqa: PLR0124 (NaN)
            raise ValueError(f"eps must be a probability, got {eps}")
        self.eps = eps

    def sync_weight(self) -> None:
        """Copy the trained network, its buffers included, to the target network."""
        if self.model_old is not None:
            self.soft_update(self.model_old, self.model, 1.0)

    def forward(
        self,
        batch: "ObsBatchProtocol",
        state: Any = None,
        model: Literal["model", "model_old"] = "model",
        **kwargs: Any,  # noqa: ARG002 (given by callers that serve other policies as well)
    ) -> "ModelOutputBatchProtocol":
        """Choose the actions of the greatest value.

        :param batch: has ``obs`` and ``info``. If ``obs`` has parts of its own, the model sees ``obs.obs`` where there
            is one, and ``obs.mask``, ``[B, actions]``, is True for legal actions.
        :param state: hidden state of the model.
        :param model: which network to ask, the trained one or its target.
        :return: ``act``, int64 ``[B]``; ``logits``, what the model gave; ``state``, the next hidden state.
        :raises ValueError: if the model gives another number of values than there are actions, or there is no target
            network.
        """
        network = getattr(self, model)
        if network is None:
            raise ValueError("there is no target network to ask; set target_update_freq")
        logits, hidden = self._ask(network, batch.obs, batch.info, state)
        q_BA = self.compute_q_value(logits, action_mask(batch.obs))
        if q_BA.shape[1] != self.max_action_num:
            self._count_actions(q_BA.shape[1])
        act = q_BA.argmax(dim=1).cpu().numpy()
        state = None if hidden is None else parse(hidden)
        return cast("ModelOutputBatchProtocol", wrap({"logits": logits, "act": act, "state": state}))

    def _count_actions(self, number: int) -> None:
        if self.max_action_num is not None:
            warnings.warn(
                f"the model gives {number} values, but there are {self.max_action_num} actions in {self.action_space}; "
                f"from here on there are {number}",
                stacklevel=3,
            )
        self.max_action_num = number

    def compute_q_value(self, logits: torch.Tensor, mask: NDArray[Any] | torch.Tensor | None) -> torch.Tensor:
        """Make action values of the model's output.

        :param logits: ``[B, actions]``.
        :param mask: ``[B, actions]``, true for legal actions; None if all are.
        :return: ``[B, actions]``, minus infinity for illegal actions.
        """
        if mask is None:
            return logits
        return logits.masked_fill(~torch.as_tensor(mask, dtype=torch.bool, device=logits.device), -torch.inf)

    def process_fn(
        self, batch: "RolloutBatchProtocol", buffer: "ReplayBuffer", indices: Index
    ) -> "BatchWithReturnsProtocol":
        """Add n-step returns, ``[B, 1]``; see :meth:`BasePolicy.compute_nstep_return`."""
        if self._compiled is not None:
            self.check_graph_is_stock()
            return with_nstep_parts(batch, buffer, indices, self.gamma, self.n_step)
        add_stored_state(batch, buffer, indices)
        target_q = self._target_q if self.is_replaced("_target_q") else partial(self._value_after, batch)
        return self.compute_nstep_return(batch, buffer, indices, target_q, self.gamma, self.n_step, self.rew_norm)

    def _target_q(self, buffer: "ReplayBuffer", indices: Index) -> torch.Tensor:
        """Rate the observation after each of some rows, ``[B]``; the method that subclasses override."""
        return self._value_after(None, buffer, indices)

    def _value_after(self, batch: "RolloutBatchProtocol | None", buffer: "ReplayBuffer", last: Index) -> torch.Tensor:
        """Rate the observation after each of some rows, ``[B]``.

        :param batch: the sample that the rows belong to, whose next observations spare looking for them.
        """
        rows: Any = buffer[last] if batch is None else batch
        obs_next = rows.obs_next if batch is None or self.n_step == 1 else buffer.get(last, "obs_next")
        state = stored_state(rows, buffer, last, after=self._state_after)
        if self._asks_itself("compute_q_value"):
            return self._asked_value(obs_next, state, len(last))
        return self._next_value(obs_next, state)

    def _asked_value(self, obs_next: Any, state: Any, size: int) -> torch.Tensor:
        """Rate observations through :meth:`forward`."""
        following: Any = Batch(obs=obs_next, info=[None] * size)
        chosen: Any = self(following, state)
        q_BA = chosen.logits if self.model_old is None else self(following, state, model="model_old").logits
        if self.model_old is None or self.is_double:
            return cast("torch.Tensor", q_BA[np.arange(size), to_numpy(chosen.act)])
        mask = action_mask(obs_next)
        return max_value(q_BA if mask is None else DQNPolicy.compute_q_value(self, q_BA, mask))

    def learn(self, batch: "RolloutBatchProtocol", *args: Any, **kwargs: Any) -> DQNTrainingStats:  # noqa: ARG002
        """Do one gradient step.

        :param batch: what :meth:`process_fn` gave; ``td_error``, ``[B]``, is added to it.
        """
        sync = self.freq > 0 and self._iter % self.freq == 0
        tensor = partial(torch.as_tensor, device=device_of(self.model))
        act_B = tensor(batch.act, dtype=torch.int64).flatten()
        weight_B = tensor(batch.weight, dtype=torch.float32) if "weight" in batch else None
        if self._compiled is not None:
            parts = (tensor(batch[name]) for name in ("obs", "obs_next", "reward_sum", "discount"))
            loss, error_B = self._compiled(*parts, act_B, weight_B, sync)
        else:
            if sync:
                self.sync_weight()
            q_BA = self._values_of(batch)
            loss, error_B = self._gradient_step(q_BA, act_B, tensor(batch.returns).flatten(), weight_B)
        self._iter += 1
        batch.td_error = batch.weight = error_B
        return DQNTrainingStats(loss=loss.item())

    def _values_of(self, batch: Any) -> torch.Tensor:
        if self._asks_itself():
            values: torch.Tensor = self(batch, batch.get("state")).logits
            return values
        return self._ask(self.model, batch.obs, batch.info, batch.get("state"))[0]

    def _gradient_step(
        self, q_BA: torch.Tensor, act_B: torch.Tensor, returns_B: torch.Tensor, weight_B: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        error_B = td_error(q_BA, act_B, returns_B)
        loss = huber_loss(error_B, weight_B) if self.clip_loss_grad else squared_loss(error_B, weight_B)
        descend(loss, self.optim)
        return loss.detach(), error_B.detach()

    def _whole_update(
        self,
        obs: torch.Tensor,
        obs_next: torch.Tensor,
        reward_sum_B: torch.Tensor,
        discount_B: torch.Tensor,
        act_B: torch.Tensor,
        weight_B: torch.Tensor | None,
        sync: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Do as one graph what :meth:`process_fn` and :meth:`learn` do in turn."""
        with torch.no_grad():
            value_B = self._next_value(obs_next)
            returns_B = bootstrapped_return(reward_sum_B.to(value_B.dtype), discount_B.to(value_B.dtype), value_B)
        if sync:
            self.sync_weight()
        return self._gradient_step(self._ask(self.model, obs, {})[0], act_B, returns_B, weight_B)

    def exploration_noise(self, act: Any, batch: "ObsBatchProtocol") -> Any:
        """Replace each action, with probability :attr:`eps`, by one that is drawn uniformly among the legal ones.

        :param act: ``[B]``; not changed. A ``Batch`` of actions comes back as it is.
        :param batch: what they were chosen for, with ``obs.mask`` where actions may be illegal.
        :raises ValueError: the number of actions is not known: it is that of the first :meth:`forward`, unless the
            action space says it.
        """
        if self.eps <= 0 or isinstance(act, Batch):
            return act
        if self.max_action_num is None:
            raise ValueError("how many actions there are is not known before the first forward")
        mask = action_mask(batch.obs)
        if mask is None:
            return explore(self.rng.bit_generator, min(self.eps, 1.0), self.max_action_num, np.asarray(act, np.int64))
        return np.where(self.rng.random(len(act)) < self.eps, random_legal(self.rng, mask), act)

    def _next_value(self, obs_next: Any, state: Any = None) -> torch.Tensor:
        """Rate the observation after the last reward, ``[B]``."""
        mask = action_mask(obs_next)

        def q_values(network: torch.nn.Module) -> torch.Tensor:
            return self.compute_q_value(self._ask(network, obs_next, {}, state)[0], mask)

        if self.model_old is None:
            return max_value(q_values(self.model))
        if self.is_double:
            return double_q_value(q_values(self.model), q_values(self.model_old))
        return max_value(q_values(self.model_old))

    def _state_after(self, obs: Any, state: Any) -> Any:
        return self._ask(self.model, obs, {}, state)[1]

    @staticmethod
    def _ask(network: torch.nn.Module, obs: Any, info: Any, state: Any = None) -> tuple[torch.Tensor, Any]:
        inner = obs.obs if isinstance(obs, Batch) and "obs" in obs else obs
        logits: torch.Tensor
        logits, hidden = network(inner, state=state, info=info)
        return logits, hidden
