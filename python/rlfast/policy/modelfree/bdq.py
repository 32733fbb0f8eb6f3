from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar, Unpack

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from rlfast.data import Batch, to_numpy
from rlfast.data.batch.batch import wrap
from rlfast.data.forms import Form
from rlfast.env.spaces.actions import at_shares, shares_of
from rlfast.env.spaces.random_actions import random_legal, sizes_of
from rlfast.functional.losses import huber_loss, squared_loss
from rlfast.policy.components.action_masks import action_mask, legal_values
from rlfast.policy.components.memory.hidden_state import as_field
from rlfast.policy.components.shortcuts import FORWARD, Shortcut, Shortcuts
from rlfast.policy.modelfree.dqn import DQNPolicy, DQNTrainingStats
from rlfast.policy.native.described import Described, described_groups
from rlfast.policy.q_learner import DQNOptions, QLearner, network_output
from rlfast.policy.replay import Losses, Sample
from rlfast.utils.arguments.checks import ArgumentError
from rlfast.utils.optim import descend
from rlfast.utils.runtime.native import NotNativeError
from rlfast.utils.tree import as_host


@dataclass(kw_only=True)
class BDQNTrainingStats(DQNTrainingStats):
    """The statistics of one gradient step of branching DQN."""


TBDQNTrainingStats = TypeVar("TBDQNTrainingStats", bound=BDQNTrainingStats)


@DQNPolicy.register
class BranchingDQNPolicy(QLearner):
    r"""Branching dueling Q-networks for actions of several dimensions (Tavakoli et al., arXiv:1711.08946).

    Each dimension d of an action has a branch of the network, which computes the values of its choices:

    .. math::
        y &= \sum_{i=0}^{k-1} \gamma^i r_{t+i}
            + \frac{\gamma^k}{D} \sum_d Q^-_d\bigl(s_{t+k}, \arg\max_a Q_d(s_{t+k}, a)\bigr) \\
        L &= \frac1B \sum w\, \frac1D \sum_d \ell\bigl(y - Q_d(s_t, a_{t,d})\bigr)

    with :math:`\ell` the square or Huber's function. The sums of absolute errors are the errors of prioritized replay.

    Returns sum k rewards, at most ``estimation_step``; w are the importance weights of a prioritized buffer, else 1.

    :param model: called as ``model(obs, state=None, info={})``; returns values ``[B, D, choices]``, as
        :class:`rlfast.utils.net.common.BranchingNet` does, and the next hidden state. Its attributes ``num_branches``
        and ``action_per_branch`` are D and the number of choices.
    :param action_space: action space of one environment: a MultiDiscrete or Discrete, whose dimensions may have fewer
        choices than the model's, or a Box with bounds, whose dimensions are divided into evenly spaced values, bounds
        included.
    :param is_double: whether the trained network chooses the actions whose values the target network
        estimates. Default: True.
    :param clip_loss_grad: whether to use Huber's function instead of the square. Default: False.
    :param options: of :class:`~rlfast.policy.q_learner.QLearner`.
    :raises ValueError: for a value out of range, a Box without bounds, or a model with another number of branches.

    >>> from rlfast.utils.net.common import BranchingNet
    >>> from rlfast.utils.optim import adam
    >>> model = BranchingNet(3, num_branches=2, action_per_branch=5, common_hidden_sizes=[64])
    >>> policy = BranchingDQNPolicy(model=model, optim=adam(1e-3), action_space=Box(-1, 1, (2,)))
    >>> policy(Batch(obs=torch.zeros(4, 3), info={})).act.shape
    (4, 2)
    >>> policy.map_action(np.array([[0, 3]])).tolist()
    [[-1.0, 0.5]]
    """

    stats_class = BDQNTrainingStats
    takes = (MultiDiscrete, Box, Discrete)
    _maps_by_space = True  # with the conversion of indices before it
    _exists: torch.Tensor | None
    """Which choices each dimension has, bool ``[D, choices]``; None if each has all of them."""
    shortcuts: ClassVar[Shortcuts] = {"described": Shortcut((*FORWARD, "legal_choices", "map_action"), "_no_chooser")}
    values = QLearner.values  # forward differs in the choice alone

    def __init__(self, **options: Unpack[DQNOptions]) -> None:
        space = options["action_space"]
        if isinstance(space, Box) and not (space.is_bounded() and len(space.shape) == 1):
            raise ValueError(f"a Box of actions to be cut into values needs bounds and one axis, got {space}")
        super().__init__(**options)
        self.register_buffer("_exists", self._existing_choices(), persistent=False)

    def _existing_choices(self) -> torch.Tensor | None:
        if not hasattr(self.model, "num_branches"):
            return None
        if self.num_branches != np.prod(self.action_space.shape or (), dtype=int):
            raise ArgumentError(
                f"the model has {self.num_branches} branches, but the action space is {self.action_space}"
            )
        exists = torch.arange(self.choices) < torch.tensor(sizes_of(self.action_space))[:, None]
        return None if exists.all() else exists

    @property
    def num_branches(self) -> int:
        """D, the number of dimensions of an action."""
        return int(self.model.num_branches)  # type: ignore[arg-type]

    @property
    def choices(self) -> int:
        """The number of choices in each dimension."""
        return int(self.model.action_per_branch)  # type: ignore[arg-type]

    def legal_choices(self, obs: object) -> Any:
        """Return which choices are legal, bool ``[B, D, choices]``, or ``[D, choices]`` for all rows; None if all are.

        :param obs: observations, with ``obs.mask``, ``[B, D, choices]``, if choices may be illegal.
        """
        mask = action_mask(obs)
        if self._exists is None or mask is None:
            return mask if self._exists is None else self._exists
        return self._exists & torch.as_tensor(mask, device=self._exists.device)

    def map_action(self, act: Any) -> Any:
        """Return actions for the environment: of a Box, the values at the indices ``act``."""
        if isinstance(self.action_space, Box):
            return at_shares(self.action_space, to_numpy(act) / (self.choices - 1))
        return super().map_action(to_numpy(act).reshape(*np.shape(act)[:-1], *(self.action_space.shape or ())))

    def map_action_inverse(self, act: Any) -> Any:
        """Return the indices of an environment's actions: of a Box, those of the nearest values."""
        if isinstance(self.action_space, Box):
            return np.rint(shares_of(self.action_space, to_numpy(act)) * (self.choices - 1)).astype(np.int64)
        axes = np.ndim(act) - len(self.action_space.shape or ())
        return super().map_action_inverse(act).reshape(*np.shape(act)[:axes], -1)

    def forward(
        self, batch: Any, state: Any = None, model: Literal["model", "model_old"] = "model", **kwargs: Any
    ) -> Any:
        """Choose the actions of the greatest values, ``act`` ``[B, D]``; see :meth:`QLearner.forward`."""
        logits, hidden = network_output(self.network(model), batch.obs, batch.info, state)
        act = as_host(legal_values(logits, self.legal_choices(batch.obs))).argmax(axis=-1)
        return wrap({"logits": logits, "act": act, "state": as_field(hidden)})

    def described(self, shape: tuple[int, ...] | Form) -> Described:
        """Return how this policy computes its actions; see :meth:`BasePolicy.described`."""
        if isinstance(self.action_space, Box):
            raise NotNativeError("actions of a Box are values at whole numbers")
        return described_groups(self.acting_network, shape, sizes_of(self.action_space))

    def exploration_noise(self, act: Any, batch: Any) -> Any:
        """Replace each action, with probability :attr:`eps`, by one drawn uniformly in every dimension."""
        if self.eps <= 0 or isinstance(act, Batch):
            return act
        legal = self.legal_choices(batch.obs)
        legal = np.ones((), bool) if legal is None else to_numpy(legal)
        drawn = random_legal(self.rng, np.broadcast_to(legal, (*np.shape(act), self.choices)))
        return np.where(self.rng.random((len(act), 1)) < self.eps, drawn, act)

    def next_value(self, obs_next: object, state: object = None, *draws: torch.Tensor) -> torch.Tensor:
        """Return the value of the observation after the last reward, ``[B]``, the mean over branches (equation 6)."""
        target_BDA = self.values(obs_next, state, model=self.lagged)
        online_BDA = self.values(obs_next, state) if self.is_double and self.model_old is not None else target_BDA
        act_BD1 = legal_values(online_BDA, self.legal_choices(obs_next)).argmax(dim=-1, keepdim=True)
        return target_BDA.gather(-1, act_BD1).squeeze(-1).mean(dim=1)

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Update the target network if it is due, and do one gradient step on the loss (equation 7)."""
        if sample.is_due:
            self.sync_weight()
        q_BDA = self.values(sample.obs, sample.state, sample.batch)
        error_BD = sample.returns[:, None] - q_BDA.gather(-1, sample.act[..., None]).squeeze(-1)
        weight = sample.weight[:, None] if isinstance(sample.weight, torch.Tensor) else sample.weight
        loss = (huber_loss if self.clip_loss_grad else squared_loss)(error_BD, weight)
        descend(loss, self.optim)
        return {"loss": loss.detach()}, error_BD.detach()

    def actions(self, act: Any, device: torch.device) -> torch.Tensor:
        """Return stored actions as a tensor of indices, ``[B, D]``."""
        return torch.as_tensor(act, dtype=torch.int64, device=device).reshape(len(act), -1)

    def _set_td_error(self, batch: Any, error_BD: torch.Tensor) -> None:
        """Store errors for priorities, and their sums as ``weight``."""
        batch.td_error, batch.weight = error_BD.abs().sum(dim=1), error_BD.sum(dim=1)
