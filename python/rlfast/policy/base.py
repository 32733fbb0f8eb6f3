import time
import warnings
from abc import abstractmethod
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, cast

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rlfast.functional import gae
from rlfast.functional.losses import bootstrapped_return
from rlfast.policy.acting import ActingPolicy
from rlfast.policy.stats import TrainingStats
from rlfast.utils import MultipleLRSchedulers

if TYPE_CHECKING:
    from rlfast.data import ReplayBuffer
    from rlfast.data.types import BatchWithReturnsProtocol, RolloutBatchProtocol

__all__ = ["ActingPolicy", "BasePolicy", "TLearningRateScheduler", "TrainingStats"]

TLearningRateScheduler: TypeAlias = torch.optim.lr_scheduler.LRScheduler | MultipleLRSchedulers

Index: TypeAlias = NDArray[np.int64]


class BasePolicy(ActingPolicy):
    """A policy that learns: :meth:`update` is sample, :meth:`process_fn`, :meth:`learn`, :meth:`post_process_fn`.

    Its ``state_dict`` has all that training goes on from: the networks' weights, and under ``_extra_state`` the state
    of every optimizer that is an attribute, of the learning rate scheduler and of the random stream. A file with
    weights alone loads too, with a warning.

    :param action_space: see :class:`ActingPolicy`, as for ``observation_space``, ``action_scaling`` and
        ``action_bound_method``.
    :param lr_scheduler: takes a step after each update. Default: None.
    :raises ValueError: as :class:`ActingPolicy`.
    """

    def __init__(
        self,
        *,
        action_space: gym.Space[Any],
        observation_space: gym.Space[Any] | None = None,
        action_scaling: bool = False,
        action_bound_method: Literal["clip", "tanh"] | None = "clip",
        lr_scheduler: TLearningRateScheduler | None = None,
    ) -> None:
        super().__init__(
            action_space=action_space,
            observation_space=observation_space,
            action_scaling=action_scaling,
            action_bound_method=action_bound_method,
        )
        self.lr_scheduler = lr_scheduler
        self.agent_id = 0
        self.updating = False
        self._lagged: list[nn.Module] = []
        self.register_load_state_dict_post_hook(_accept_weights_alone)  # type: ignore[no-untyped-call]

    def __class_getitem__(cls, _: Any) -> type[Self]:
        """Accept ``BasePolicy[MyStats]``, as scripts for Tianshou 1.0 spell it."""
        return cls

    def set_agent_id(self, agent_id: int) -> None:
        """Say which agent this is, where several learn in one environment."""
        self.agent_id = agent_id

    # -- one update ----------------------------------------------------------------------------------------------------

    def process_buffer(self, buffer: "ReplayBuffer") -> "ReplayBuffer":
        """Prepare a whole buffer, once, before training from it begins; nothing here.

        :param buffer: what offline training will sample from.
        :return: the buffer to sample from.
        """
        return buffer

    def process_fn(
        self,
        batch: "RolloutBatchProtocol",
        buffer: "ReplayBuffer",  # noqa: ARG002 (for algorithms that look around in it)
        indices: Index,  # noqa: ARG002
    ) -> "RolloutBatchProtocol":
        """Add to a sample what learning needs, such as returns; nothing here.

        :param batch: the sample, of B rows.
        :param buffer: where it comes from.
        :param indices: the rows' places there, ``[B]``.
        """
        return batch

    @abstractmethod
    def learn(self, batch: "RolloutBatchProtocol", *args: Any, **kwargs: Any) -> TrainingStats:
        """Improve the networks by a processed sample.

        The absolute values of what it leaves as ``batch.td_error``, ``[B]``, become the rows' priorities in a
        prioritized buffer. (A new ``batch.weight``, Tianshou 1.0's way, is understood as well.)

        :param batch: what :meth:`process_fn` gave; with ``weight``, ``[B]``, from a prioritized buffer.
        :return: the losses, read back from the device once.
        """

    def post_process_fn(self, batch: "RolloutBatchProtocol", buffer: "ReplayBuffer", indices: Index) -> None:
        """Tell a prioritized buffer the new priorities.

        :param batch: after :meth:`learn`. Nothing happens unless it has a ``weight``, which says that the buffer is
            prioritized.
        :param buffer: where it comes from.
        :param indices: as sampled; updates of rows overwritten since then are refused by the buffer.
        """
        if "weight" not in batch:
            return
        if "td_error" not in batch:
            warnings.warn(
                f"the buffer is prioritized, but {type(self).__name__}.learn sets no batch.td_error: priorities stay",
                stacklevel=2,
            )
            return
        buffer.update_weight(indices, batch.td_error)

    def update(self, sample_size: int | None, buffer: "ReplayBuffer", **kwargs: Any) -> TrainingStats:
        """Learn from one sample.

        :param sample_size: rows to draw; 0 for all rows in order of time, None for as many as there are, drawn at
            random.
        :param buffer: to sample from.
        :param kwargs: given on to :meth:`learn`.
        :return: what ``learn`` gave, with ``train_time``.
        """
        start = time.perf_counter()
        sample, indices = buffer.sample(sample_size)
        self.updating = True
        try:
            batch = self.process_fn(cast("RolloutBatchProtocol", sample), buffer, indices)
            weight = batch.get("weight")
            stats = self.learn(batch, **kwargs)
            if "td_error" not in batch and batch.get("weight") is not weight:
                batch.td_error = batch.weight
            self.post_process_fn(batch, buffer, indices)
            if self.lr_scheduler is not None:
                self.lr_scheduler.step()
        finally:
            self.updating = False
        return replace(stats, train_time=time.perf_counter() - start)

    # -- lagged networks -----------------------------------------------------------------------------------------------

    def lagged_copy(self, source: nn.Module) -> nn.Module:
        """Make a target network: a copy that follows only when told to, and stays in evaluation mode without gradients.

        :param source: the network that is trained.
        """
        target = deepcopy(source).eval().requires_grad_(False)
        self._lagged.append(target)
        return target

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation mode for all but the target networks."""
        super().train(mode)
        for target in self._lagged:
            target.eval()
        return self

    @staticmethod
    @torch.no_grad()
    def soft_update(tgt: nn.Module, src: nn.Module, tau: float) -> None:
        r"""Move a target network a step towards its source (Lillicrap et al., arXiv:1509.02971, algorithm 1).

        .. math:: \theta^- \leftarrow \theta^- + \tau\,(\theta - \theta^-)

        Buffers, such as the statistics of batch normalization, are copied.

        :param tgt: the target network, of the same structure as ``src``.
        :param src: the trained network.
        :param tau: in [0, 1].
        :raises ValueError: for another ``tau``, or if the networks differ in structure or share a parameter.
        """
        if not 0 <= tau <= 1:
            raise ValueError(f"tau must be in [0, 1], got {tau}")
        targets: list[torch.Tensor] = [*tgt.parameters()]
        sources: list[torch.Tensor] = [*src.parameters()]
        for target, source in zip(targets, sources, strict=True):
            if target.numel() and target.data_ptr() == source.data_ptr():
                raise ValueError(
                    f"target and source share a parameter of shape {tuple(source.shape)}: copy the network first"
                )
        torch._foreach_lerp_(targets, sources, tau)  # one call for all parameters
        for target, source in zip(tgt.buffers(), src.buffers(), strict=True):
            target.copy_(source)

    # -- state ---------------------------------------------------------------------------------------------------------

    def get_extra_state(self) -> dict[str, Any]:
        """Give what ``state_dict`` holds besides weights."""
        return {
            "optimizers": {name: optim.state_dict() for name, optim in self._optimizers().items()},
            "lr_scheduler": None if self.lr_scheduler is None else self.lr_scheduler.state_dict(),
            "random": self.random_state(),
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`get_extra_state` gave.

        :raises ValueError: if this policy has other optimizers or another scheduler; nothing is changed then.
        """
        optimizers = self._optimizers()
        if optimizers.keys() != state["optimizers"].keys():
            raise ValueError(f"got the state of optimizers {[*state['optimizers']]}, this policy has {[*optimizers]}")
        if (self.lr_scheduler is None) != (state["lr_scheduler"] is None):
            raise ValueError("lr_scheduler: either the policy or the saved state has one, but not both")
        for name, optim in optimizers.items():
            optim.load_state_dict(state["optimizers"][name])
        if self.lr_scheduler is not None:
            self.lr_scheduler.load_state_dict(state["lr_scheduler"])
        self.set_random_state(state["random"])

    def _optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {name: value for name, value in vars(self).items() if isinstance(value, torch.optim.Optimizer)}

    # -- returns -------------------------------------------------------------------------------------------------------

    @staticmethod
    def value_mask(buffer: "ReplayBuffer", indices: Index) -> NDArray[np.bool_]:
        """Say where the next observation has a value: everywhere but at a terminal state. A time limit is none.

        :param buffer: holds the rows.
        :param indices: rows, ``[B]``.
        :return: ``[B]``.
        """
        mask: NDArray[np.bool_] = ~buffer.terminated[indices]
        return mask

    @staticmethod
    def compute_episodic_return(
        batch: "RolloutBatchProtocol",
        buffer: "ReplayBuffer",
        indices: Index,
        v_s_: NDArray[np.floating] | torch.Tensor | None = None,
        v_s: NDArray[np.floating] | torch.Tensor | None = None,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""Estimate advantages and returns of whole episodes (Schulman et al., arXiv:1506.02438, equations 11 to 16).

        .. math::
            \delta_t = r_t + \gamma V(s_{t+1}) - V(s_t), \qquad
            A_t = \delta_t + \gamma\lambda A_{t+1}, \qquad
            G_t = A_t + V(s_t)

        Episodes end where the batch says so and at the newest row of those that still run. A terminal state has value
        0, whatever is given for it; one cut off by time keeps its value.

        :param batch: B rows in order of time, with ``rew``, ``terminated`` and ``truncated``.
        :param buffer: where they come from.
        :param indices: their places there, ``[B]``.
        :param v_s_: values of the next observations, B of them; None for 0, which needs ``gae_lambda=1``.
        :param v_s: values of the observations, B of them. None takes those of the rows before from ``v_s_``; the first
            row of an episode has none before and gets 0: its return is right all the same, its advantage has no
            baseline.
        :param gamma: discount. Default: 0.99.
        :param gae_lambda: 0 for one-step, 1 for Monte Carlo advantages. Default: 0.95.
        :return: returns and advantages, each ``[B]``.
        :raises ValueError: if ``v_s_`` is None and ``gae_lambda`` is not 1, or the numbers of rows differ.
        """
        if len(indices) != len(batch.rew):
            raise ValueError(f"got {len(batch.rew)} rows and {len(indices)} indices")
        if v_s_ is None and not np.isclose(gae_lambda, 1.0):
            raise ValueError(
                f"gae_lambda={gae_lambda} needs the next observations' values v_s_; without them it must be 1"
            )
        unfinished = buffer.unfinished_index()
        running = np.zeros(1 + max(np.max(indices, initial=0), np.max(unfinished, initial=0)), bool)
        running[unfinished] = True
        end = batch.terminated | batch.truncated | running[indices]
        next_values = np.zeros(len(indices)) if v_s_ is None else _flat(v_s_)
        if v_s is None:
            values = np.zeros(len(indices))
            values[1:] = np.where(end[:-1], 0.0, next_values[:-1])
        else:
            values = _flat(v_s)
        advantage = gae(batch.rew, values, next_values, batch.terminated, end, gamma, gae_lambda)
        return advantage + values, advantage

    @staticmethod
    def compute_nstep_return(
        batch: "RolloutBatchProtocol",
        buffer: "ReplayBuffer",
        indices: Index,
        target_q_fn: "Callable[[ReplayBuffer, Index], torch.Tensor]",
        gamma: float = 0.99,
        n_step: int = 1,
        rew_norm: bool = False,
    ) -> "BatchWithReturnsProtocol":
        r"""Add n-step returns to a sample.

        .. math:: G_t = \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k (1 - d)\, Q(s_{t+k})

        (Sutton and Barto, 2nd edition, section 7.1): over the :math:`k \le n` steps that are left in the episode, d
        saying that
        :math:`s_{t+k}` is terminal. The sum over rewards is made by the buffer, the rest on the device of Q. A sample
            of a
        buffer with ``unit=NStep`` brings its sums along; its number of steps and its discount hold then.

        :param batch: the sample, of B rows. Its ``weight``, if any, becomes a tensor.
        :param buffer: where it comes from.
        :param indices: the rows' places there, ``[B]``.
        :param target_q_fn: called, without gradients, with the buffer and the last row of each sum; gives the value of
            the observation after that row, B of them or ``[B, m]``.
        :param gamma: discount. Default: 0.99.
        :param n_step: most steps to sum over, at least 1. Default: 1.
        :param rew_norm: must be False.
        :return: the batch, with ``returns``, ``[B, m]``, of the dtype and device of Q (m is 1 if Q has one dimension).
        :raises ValueError: if the numbers of rows differ, ``rew_norm`` is set, or both ``n_step`` and the unit sum
            rewards.
        """
        if rew_norm:
            raise ValueError(
                "rew_norm must be False: bootstrapped returns of normalized rewards are not defined; scale the rewards"
            )
        if len(indices) != len(batch.rew):
            raise ValueError(f"got {len(batch.rew)} rows and {len(indices)} indices")
        if "discount" not in batch:
            reward_sum, discount, last = buffer.nstep(indices, n_step, gamma)
        elif n_step == 1:  # drawn with unit=NStep: a transition is n steps already
            reward_sum, discount, last = batch.rew, batch.discount, batch.last_index
        else:
            raise ValueError(f"the buffer's unit sums rewards already, n_step={n_step} would do so again; set it to 1")
        with torch.no_grad():
            target_q = target_q_fn(buffer, last).reshape(len(indices), -1)
            tensor = partial(torch.as_tensor, dtype=target_q.dtype, device=target_q.device)
            batch.returns = bootstrapped_return(
                tensor(reward_sum.reshape(len(indices), -1)), tensor(discount.reshape(-1, 1)), target_q
            )
            if "weight" in batch:
                batch.weight = tensor(batch.weight)
        return cast("BatchWithReturnsProtocol", batch)


def _flat(values: NDArray[np.floating] | torch.Tensor) -> NDArray[np.float64]:
    array = values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
    return array.reshape(-1).astype(np.float64, copy=False)


def _accept_weights_alone(policy: nn.Module, incompatible: Any) -> None:
    if "_extra_state" in incompatible.missing_keys:
        incompatible.missing_keys.remove("_extra_state")
        warnings.warn(
            f"only weights were loaded into {type(policy).__name__}: optimizers, schedulers and random streams stay",
            stacklevel=4,
        )
