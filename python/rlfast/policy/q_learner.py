"""The base class of algorithms that learn values of discrete actions and choose the greatest."""

from typing import Any, ClassVar, Literal, Required, Self, cast

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Discrete
from numpy.typing import NDArray
from torch import nn

from rlfast._core import explore
from rlfast.data import Batch, to_torch
from rlfast.data.batch.batch import wrap
from rlfast.data.forms import Form
from rlfast.data.types import ModelOutputBatchProtocol, ObsBatchProtocol
from rlfast.policy.base import TLearningRateScheduler
from rlfast.policy.components.action_masks import action_mask, inner_obs, legal_values
from rlfast.policy.components.batches import info_of
from rlfast.policy.components.memory.hidden_state import as_field
from rlfast.policy.components.memory.sequences import Sequences, at_steps
from rlfast.policy.components.network_checks import check_networks
from rlfast.policy.components.shortcuts import Shortcut, Shortcuts, instead_of_forward
from rlfast.policy.native.choosers import Chooser
from rlfast.policy.replay import ReplayLearner, ReplayOptions
from rlfast.utils.arguments.checks import ArgumentError
from rlfast.utils.arguments.validation import NonNegativeInt, PositiveInt, UnitFloat, validate_arguments
from rlfast.utils.optim import OptionalOptimizer, make_optimizer
from rlfast.utils.runtime.native import NotNativeError
from rlfast.utils.tree import as_host
from rlfast.utils.warning import warn_user


class QOptions(ReplayOptions, total=False):
    """The arguments of :class:`QLearner` that all its algorithms pass on."""

    action_space: Required[gym.Space[Any]]
    reward_normalization: bool
    is_double: bool
    clip_loss_grad: bool


class DQNOptions(QOptions, total=False):
    """All arguments of :class:`QLearner`."""

    model: Required[nn.Module]
    optim: Required[OptionalOptimizer]
    discount_factor: float
    estimation_step: int
    target_update_freq: int


def greedy_actions_of(result: Any) -> torch.Tensor:
    """Return the actions that ``forward`` chose as a tensor, int64 ``[B]``.

    :param result: the result of ``forward``.
    """
    return cast("torch.Tensor", to_torch(result.act, torch.int64)).flatten()


class QLearner(ReplayLearner):
    r"""A learner of values of discrete actions, which chooses the action with the greatest value, and a random one with
    probability :attr:`eps`.

    Subclasses may override :meth:`forward` and :meth:`compute_q_value`, through which the algorithm then also learns.

    :param model: called as ``model(obs, state=None, info={})``; returns ``[B, actions, ...]`` and the next hidden
        state.
    :param optim: an optimizer of ``model``, a factory such as :func:`rlfast.utils.optim.adam`, called with its
        parameters; or None for a policy that only acts.
    :param action_space: action space of one environment, a ``Discrete``.
    :param discount_factor: discount of future rewards, :math:`\gamma`, in [0, 1]. Default: 0.99.
    :param estimation_step: the largest number of steps to sum rewards over, n. Default: 1.
    :param target_update_freq: number of gradient steps between copies to the target network; 0 for no target network.
        Default: 0.
    :param reward_normalization: must be False.
    :param is_double: whether the trained network chooses the actions whose values by the target network are the targets
        (arXiv:1509.06461), and not the target network itself. Default: True.
    :param clip_loss_grad: see the algorithm. Default: False.
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param lr_scheduler: a schedule that takes a step after each update. Default: None.
    :param compile: whether a whole update is compiled into one graph, which is up to twice as fast after some ten
        seconds; see :class:`DQNPolicy`. Default: False.
    :raises ValueError: for a value out of range, another action space, or an update that cannot be compiled.
    """

    counts_from_zero = True
    takes: ClassVar[tuple[type[gym.Space[Any]], ...]] = (Discrete,)
    """Action spaces that are taken."""
    acting_facts: ClassVar[tuple[str, ...]] = ("max_action_num",)
    shortcuts: ClassVar[Shortcuts] = {"_make_chooser": Shortcut(("compute_q_value", "network"), "_no_chooser")}

    @validate_arguments
    def __init__(
        self,
        *,
        model: nn.Module,
        optim: OptionalOptimizer,
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
            raise ArgumentError(
                "reward_normalization must be False: normalized rewards have no Q-values; scale the rewards instead"
            )
        super().__init__(
            gamma=discount_factor,
            n_step=estimation_step,
            action_space=action_space,
            observation_space=observation_space,
            action_bound_method=None,
            lr_scheduler=lr_scheduler,
            compile=compile,
        )
        if not isinstance(action_space, self.takes):
            raise ArgumentError(
                f"{type(self).__name__.removesuffix('Policy')} chooses one of the actions 0, 1, 2, ..., but the action "
                f"space is {action_space}. The space of one of several environments is their single_action_space or "
                "action_space[0]; wrap an environment with a MultiDiscrete space in MultiDiscreteToDiscrete, and one "
                "with a Box in ContinuousToDiscrete, or use another algorithm, such as PPO"
            )
        self.model = model
        self.optim = make_optimizer(optim, model.parameters())
        self.model_old: nn.Module | None = None
        if target_update_freq:
            self.add_targets("model")
        self.freq = target_update_freq
        self.is_double, self.clip_loss_grad = is_double, clip_loss_grad
        self.rew_norm = False  # for subclasses that give it to compute_nstep_return
        self.eps = 0.0
        self.max_action_num: int | None = int(action_space.n) if isinstance(action_space, Discrete) else None

    @property
    def _target(self) -> bool:
        """Whether there is a target network."""
        return self.freq > 0

    def is_due(self) -> bool:
        """Return whether the next gradient step begins with a copy to the target network."""
        return self.freq > 0 and self._iter % self.freq == 0

    @property
    def acting_network(self) -> nn.Module:
        """The trained network."""
        return self.model

    def train(self, mode: bool = True) -> Self:
        """Set training or evaluation mode for the trained network. Other networks of a subclass keep theirs.

        :param mode: True for training mode.
        :return: this policy.
        """
        self.training = mode
        self.model.train(mode)
        return self

    # -- acting --------------------------------------------------------------------------------------------------------

    def forward(
        self,
        batch: ObsBatchProtocol,
        state: object = None,
        model: Literal["model", "model_old"] = "model",
        **kwargs: Any,
    ) -> ModelOutputBatchProtocol:
        """Choose the actions with the greatest values.

        :param batch: a batch with ``obs`` and ``info``. If ``obs`` is a batch, the model gets ``obs.obs`` if it exists,
            and ``obs.mask``, ``[B, actions]``, is True for legal actions.
        :param state: hidden state of the model.
        :param model: name of the network, the trained one or its target network.
        :param kwargs: ignored.
        :return: ``act``, int64 ``[B]``; ``logits``, the output of the model; ``state``, the next hidden state; and
            ``policy``, if :meth:`stored_of` returns anything.
        :raises ValueError: if there is no target network.
        """
        logits, hidden = network_output(self.network(model), batch.obs, batch.info, state)
        q_BA = self.compute_q_value(logits, action_mask(batch.obs))
        if q_BA.shape[1] != self.max_action_num:
            self._count_actions(q_BA.shape[1])
        act = as_host(q_BA).argmax(axis=1)
        result: Any = wrap({"logits": logits, "act": act, "state": as_field(hidden)})
        if stored := self.stored_of(q_BA):
            result.policy = stored
        return result  # type: ignore[no-any-return]

    def stored_of(self, q_BA: torch.Tensor) -> dict[str, Any]:
        """Return what the buffer keeps of a choice under ``policy``, by name; nothing by default.

        :param q_BA: the values that actions are chosen by.
        """
        return {}

    def network(self, model: Literal["model", "model_old"]) -> nn.Module:
        """Return the trained network, or its target.

        :param model: ``"model"`` or ``"model_old"``.
        :raises ValueError: there is no target network.
        """
        network: nn.Module | None = getattr(self, model)
        if network is None:
            raise ValueError("there is no target network to ask; set target_update_freq")
        return network

    @property
    def lagged(self) -> Literal["model", "model_old"]:
        """The name of the network that values the targets: the target network, if there is one."""
        return "model" if self.model_old is None else "model_old"

    def _count_actions(self, number: int) -> None:
        if self.max_action_num is not None:
            warn_user(
                f"the model gives {number} values, but there are {self.max_action_num} actions in {self.action_space}; "
                f"from here on there are {number}"
            )
        self.max_action_num = number

    def compute_q_value(self, logits: torch.Tensor, mask: NDArray[Any] | torch.Tensor | None) -> torch.Tensor:
        """Return action values for the model's output.

        :param logits: ``[B, actions]``.
        :param mask: ``[B, actions]``, true for legal actions; None if all are.
        :return: ``[B, actions]``, minus infinity for illegal actions.
        """
        return legal_values(logits, mask)

    def set_eps(self, eps: float) -> None:
        """Set the probability of random actions.

        :param eps: the probability; a number outside [0, 1] counts as the nearest one inside.
        :raises ValueError: if it is NaN.
        """
        if eps != eps:  # noqa: PLR0124 (NaN)
            raise ValueError(f"eps must be a probability, got {eps}")
        self.eps = eps

    def exploration_noise(self, act: Any, batch: ObsBatchProtocol) -> Any:
        """Replace each action, with probability :attr:`eps`, by one that is drawn uniformly from the legal ones.

        :param act: actions, ``[B]``; not changed. A ``Batch`` of actions is returned as it is.
        :param batch: the observations that they were chosen for, with ``obs.mask`` if actions may be illegal.
        :return: actions, ``[B]``.
        :raises ArgumentError: if the number of actions is not known, as the action space does not define it and
            :meth:`forward` was not called yet.
        """
        if self.eps <= 0 or isinstance(act, Batch):
            return act
        if self.max_action_num is None:
            raise ArgumentError("how many actions there are is not known before the first forward")
        mask, act = action_mask(batch.obs), np.asarray(act, np.int64)
        if mask is None:
            return explore(self.rng.bit_generator, self.eps, self.max_action_num, act)
        legal = as_host(mask)
        return explore(self.rng.bit_generator, self.eps, legal.shape[-1], act, legal)

    def _make_chooser(self, form: Form) -> Chooser:
        return self.for_all_actions(Chooser(self, form))

    def for_all_actions(self, chooser: Chooser) -> Chooser:
        """Return a chooser that has a number for each action.

        :param chooser: the chooser.
        :raises NotNativeError: it has more or fewer.
        """
        if chooser.network.outputs != self.max_action_num:
            raise NotNativeError("the number of actions is not the number of outputs of the network")
        return chooser

    def native_exploration(self) -> tuple[float, int, Any] | None:
        """Return the probability and the number of random actions; see :meth:`BasePolicy.native_exploration`."""
        if self.eps <= 0 or self.max_action_num is None:
            return None
        return min(self.eps, 1.0), self.max_action_num, self.rng.bit_generator

    # -- learning ------------------------------------------------------------------------------------------------------

    @instead_of_forward(lambda result: result.logits)
    def values(
        self, obs: object, state: object = None, batch: object = None, model: Literal["model", "model_old"] = "model"
    ) -> torch.Tensor:
        """Return the output of a network for observations.

        :param obs: observations.
        :param state: hidden state before them.
        :param batch: the sample that the observations belong to, if any.
        :param model: name of the network, the trained one or its target network.
        :return: ``[B, actions, ...]``.
        """
        return network_output(self.network(model), obs, info_of(batch), state)[0]

    @instead_of_forward(greedy_actions_of)
    def greedy_actions(self, obs: object, state: object = None) -> torch.Tensor:
        """Return the actions with the greatest values by the trained network, ``[B]``.

        :param obs: observations.
        :param state: hidden state before them.
        """
        return self.compute_q_value(self.values(obs, state), action_mask(obs)).argmax(dim=1)

    def next_actions(self, obs_next: object, state: object, output: torch.Tensor) -> torch.Tensor:
        """Return the actions whose values are the targets, ``[B]`` (arXiv:1509.06461, equation 4).

        :param obs_next: the next observations.
        :param state: hidden state before them.
        :param output: that of :attr:`lagged` for them; with ``is_double``, the trained network chooses the actions.
        """
        if self.is_double and self.model_old is not None:
            return self.greedy_actions(obs_next, state)
        return self.compute_q_value(output, action_mask(obs_next)).argmax(dim=1)

    def actions(self, act: object, device: torch.device) -> torch.Tensor:
        """Return stored actions as int64 ``[B]``."""
        return torch.as_tensor(act, dtype=torch.int64, device=device).flatten()

    def state_after(self, obs: object, state: object) -> Any:
        """Return the hidden state after observations, from the one before them."""
        return network_output(self.model, obs, {}, state)[1]


def network_output(network: nn.Module, obs: object, info: object, state: object = None) -> tuple[torch.Tensor, Any]:
    """Return the output of a network for observations, without their mask, and its next hidden state.

    :param network: called as ``network(obs, state=..., info=...)``.
    :param obs: observations; a batch with ``obs`` may have a mask, too.
    :param info: infos of the observations.
    :param state: hidden state before them.
    :return: the output for each observation, or for each step of sequences that is learned from; and the next hidden
        state, None for sequences.
    """
    if isinstance(obs, Sequences):
        return at_steps(lambda part, before: network_output(network, part, {}, before), network, obs, state), None
    logits: torch.Tensor
    logits, hidden = network(inner_obs(obs), state=state, info=info)
    return logits, hidden


def output_of_actions(logits: torch.Tensor, act_B: torch.Tensor) -> torch.Tensor:
    """Return the outputs of one action for each row.

    :param logits: ``[B, A, ...]``.
    :param act_B: actions, int64 ``[B]``.
    :return: ``[B, ...]``.

    >>> output_of_actions(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]), torch.tensor([1])).tolist()
    [[3.0, 4.0]]
    """
    return logits[torch.arange(len(act_B), device=logits.device), act_B]
