from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import gymnasium as gym
import torch
from torch import nn
from torch.nn import functional

from rlfast.data import to_torch
from rlfast.data.batch.batch import wrap
from rlfast.policy.base import TLearningRateScheduler, TrainingStats
from rlfast.policy.components.action_masks import action_mask, inner_obs, legal_values
from rlfast.policy.components.network_checks import check_networks, check_output
from rlfast.policy.components.overrides import replaceable
from rlfast.policy.learners.replay_learner import Losses, ReplayLearner, Sample
from rlfast.policy.native.choosers import Chooser
from rlfast.policy.native.continuous import ContinuousChooser
from rlfast.utils.arguments.validation import validate_arguments
from rlfast.utils.net.common import dtype_of
from rlfast.utils.optim import OptimizerFactory, descend, make_optimizer

if TYPE_CHECKING:
    from rlfast.data.types import ModelOutputBatchProtocol, ObsBatchProtocol


@dataclass(kw_only=True)
class ImitationTrainingStats(TrainingStats):
    """The statistics of one gradient step of imitation."""

    loss: float = 0.0
    """The loss before the step."""


TImitationTrainingStats = TypeVar("TImitationTrainingStats", bound=ImitationTrainingStats)


@replaceable("__call__", "forward")
class ImitationPolicy(ReplayLearner):
    r"""Imitation of the actions of the data, also called behavioural cloning (Pomerleau 1991).

    .. math::
        L = \frac1{BD} \sum \|\mu(s) - a\|^2 \quad \text{for continuous actions}, \qquad
        L = -\frac1B \sum \log \pi(a \mid s) \quad \text{for discrete ones}

    If a subclass or an assignment replaces :meth:`forward`, or there are hooks, learning calls that method.

    :param actor: called as ``actor(obs, state=..., info=...)``; returns actions ``[B, size]``, or unnormalized
        log-probabilities ``[B, actions]`` of discrete ones, and the next hidden state.
    :param optim: an optimizer of ``actor``, a factory such as :func:`rlfast.utils.optim.adam`, or None for a policy
        that only acts.
    :param action_space: action space of one environment, a Box or a Discrete.
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param action_scaling: whether actions are stretched from [-1, 1] to the bounds of the Box. Default: False.
    :param action_bound_method: how actions are bounded to [-1, 1] before that: ``"clip"`` (default), ``"tanh"``, or
        None.
    :param lr_scheduler: a schedule that takes a step after each update. Default: None.
    :param compile: whether a gradient step is compiled into one graph; see :class:`DQNPolicy`. Default: False.
    :raises ValueError: for another kind of action space, or an update that cannot be compiled.

    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.optim import adam
    >>> policy = ImitationPolicy(actor=Net(4, 2, [64]), optim=adam(1e-3), action_space=gym.spaces.Discrete(2))
    >>> policy(Batch(obs=torch.zeros(3, 4), info={})).act.shape
    torch.Size([3])
    """

    stats_class = ImitationTrainingStats
    learns_from_rewards = False
    learns_log_probs = True
    counts_from_zero = True

    @validate_arguments
    def __init__(
        self,
        *,
        actor: nn.Module,
        optim: torch.optim.Optimizer | OptimizerFactory | None,
        action_space: gym.Space[Any],
        observation_space: gym.Space[Any] | None = None,
        action_scaling: bool = False,
        action_bound_method: Literal["clip", "tanh"] | None = "clip",
        lr_scheduler: TLearningRateScheduler | None = None,
        compile: bool = False,
    ) -> None:
        if not isinstance(action_space, gym.spaces.Box | gym.spaces.Discrete):
            raise ValueError(f"imitation needs a Box or a Discrete action space, got {action_space}")
        check_networks(actor=actor)
        check_output(actor, action_space)
        super().__init__(
            gamma=1.0,
            n_step=1,
            action_space=action_space,
            observation_space=observation_space,
            action_scaling=action_scaling,
            action_bound_method=action_bound_method,
            lr_scheduler=lr_scheduler,
        )
        self.actor = actor
        self.optim = make_optimizer(optim, actor.parameters())
        self.compile_update(compile, actor)

    @property
    def acting_network(self) -> nn.Module:
        """The actor."""
        return self.actor

    def forward(
        self,
        batch: "ObsBatchProtocol",
        state: Any = None,
        **kwargs: Any,  # noqa: ARG002 (given by callers that serve other policies as well)
    ) -> "ModelOutputBatchProtocol":
        """Choose actions: the actor's, or the likeliest of discrete ones; ``batch.obs.mask`` is true for legal ones.

        :param batch: a batch with ``obs`` and ``info``.
        :param state: hidden state of the actor.
        :param kwargs: ignored.
        :return: ``act``, ``[B, *shape]``; ``logits``, the output of the actor; ``state``, the next hidden state.
        """
        logits, hidden = self.actor(inner_obs(batch.obs), state=state, info=batch.info)
        if self.action_type == "discrete":
            act = legal_values(logits, action_mask(batch.obs)).argmax(dim=1)
        else:
            act = logits.reshape(len(logits), *(self.action_space.shape or ()))
        return cast("ModelOutputBatchProtocol", wrap({"logits": logits, "act": act, "state": hidden}))

    def _make_chooser(self) -> Chooser:
        names = self.methods_that_choose(ImitationPolicy)
        if self.action_type == "discrete":
            return Chooser(self, names)
        return ContinuousChooser(self, names, self.action_space.shape or ())

    def gradient_step(self, sample: Sample) -> tuple[Losses, None]:
        """Do one gradient step on the distance from the actions of the data, which need no priorities."""
        if self.must_call_forward():
            result = self.call_forward(sample.obs, sample.state, sample.batch)
            output = result.logits if self.action_type == "discrete" else result.act
        else:
            output = self.actor(inner_obs(sample.obs), state=sample.state, info={})[0]
        if self.action_type == "discrete":
            loss = functional.cross_entropy(legal_values(output, action_mask(sample.obs)), sample.act.flatten())
        else:
            loss = functional.mse_loss(output.reshape(sample.act.shape), sample.act)
        descend(loss, self.optim)
        return {"loss": loss.detach()}, None

    def inputs(self, obs: Any) -> Any:
        """Return observations as tensors; foreign networks get them as buffers return them."""
        known = self._compiled is not None or self._known_networks(self.actor)
        return to_torch(obs, device=self._device) if known else obs

    @property
    def _dtype(self) -> torch.dtype:
        return torch.int64 if self.action_type == "discrete" else dtype_of(self.actor)
