from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypeVar

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from rlfast.data.stats import SequenceSummaryStats
from rlfast.functional.losses import policy_gradient_loss
from rlfast.policy.base import TLearningRateScheduler, TrainingStats
from rlfast.policy.components.distributions import log_prob_of
from rlfast.policy.components.returns import Index
from rlfast.policy.learners.rollout_learner import RolloutLearner, TDistFn, TDistribution
from rlfast.utils.arguments.validation import UnitFloat, validate_arguments
from rlfast.utils.net.common import dtype_of
from rlfast.utils.optim import OptimizerFactory, descend

if TYPE_CHECKING:
    from rlfast.data import ReplayBuffer

TDistributionFunction: TypeAlias = TDistFn
TDistFnContinuous: TypeAlias = TDistFn
TDistFnDiscrete: TypeAlias = TDistFn
TDistFnDiscrOrCont: TypeAlias = TDistFn


@dataclass(kw_only=True)
class PGTrainingStats(TrainingStats):
    """What the gradient steps on one roll-out tell; the loss before each step."""

    loss: SequenceSummaryStats


TPGTrainingStats = TypeVar("TPGTrainingStats", bound=PGTrainingStats)


class PGPolicy(RolloutLearner):
    r"""REINFORCE (Williams 1992, doi:10.1007/BF00992696), with returns of whole roll-outs.

    .. math::
        L = -\frac1B \sum \log \pi(a_t \mid s_t)\, G_t, \qquad G_t = \sum_{i=t}^{T} \gamma^{i-t} r_i

    (Sutton and Barto, 2nd edition, section 13.3, without the :math:`\gamma^t` of its algorithm.) Nothing is known of
    what follows an episode that is cut off, by time or by the end of the roll-out: it counts as the mean of all
    returns before, if ``reward_normalization`` keeps that, and as 0 otherwise.

    If a subclass or an assignment replaces :meth:`forward` or ``_compute_returns(batch, buffer, indices)``, or there
    are hooks, learning calls these methods.

    :param actor: called as ``actor(obs, state=..., info=...)``; returns the arguments of ``dist_fn`` (a tuple of
        several, or one tensor), and the next hidden state.
    :param optim: optimizes the actor: an optimizer, or a factory such as :func:`rlfast.utils.optim.adam`, called with
        its parameters; None for a policy that only acts.
    :param dist_fn: a function that makes the distribution over actions; see :class:`PPOPolicy`.
    :param action_space: action space of one environment.
    :param discount_factor: discount of future rewards, :math:`\gamma`, in [0, 1]. Default: 0.99.
    :param reward_normalization: whether the mean of all returns before is subtracted from returns, as a baseline, and
        they are divided by their standard deviation. Default: False.
    :param deterministic_eval: whether the policy takes the mode in evaluation mode. Default: False.
    :param observation_space: observation space of one environment. It is kept, but not used. Default: None.
    :param action_scaling: whether actions are stretched to the bounds of a Box; no effect on other spaces. Default:
        True.
    :param action_bound_method: how actions are bounded to [-1, 1] before that: ``"clip"`` (default), ``"tanh"``, or
        None.
    :param lr_scheduler: a schedule that takes a step after each update. Default: None.
    :param compile: whether a gradient step is compiled into one graph; see :class:`DQNPolicy`. Default: False.
    :raises ValueError: for a value out of range, or scaling to a Box without finite bounds.

    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.net.discrete import Actor
    >>> from rlfast.utils.optim import adam
    >>> how = {"optim": adam(1e-3), "dist_fn": torch.distributions.Categorical, "action_scaling": False}
    >>> policy = PGPolicy(actor=Actor(Net(4, hidden_sizes=[64]), 2), **how, action_space=gym.spaces.Discrete(2))
    >>> policy(Batch(obs=torch.zeros(5, 4), info={})).act.shape
    torch.Size([5])
    """

    stats_class = PGTrainingStats
    columns: ClassVar[tuple[str, ...]] = ("act", "returns")
    has_critic = False

    @validate_arguments
    def __init__(
        self,
        *,
        actor: nn.Module,
        optim: torch.optim.Optimizer | OptimizerFactory | None,
        dist_fn: TDistFn,
        action_space: gym.Space[Any],
        discount_factor: UnitFloat = 0.99,
        reward_normalization: bool = False,
        deterministic_eval: bool = False,
        observation_space: gym.Space[Any] | None = None,
        action_scaling: bool = True,
        action_bound_method: Literal["clip", "tanh"] | None = "clip",
        lr_scheduler: TLearningRateScheduler | None = None,
        compile: bool = False,
    ) -> None:
        super().__init__(
            actor=actor,
            optim=optim,
            dist_fn=dist_fn,
            gamma=discount_factor,
            reward_normalization=reward_normalization,
            deterministic_eval=deterministic_eval,
            action_space=action_space,
            observation_space=observation_space,
            action_scaling=action_scaling,
            action_bound_method=action_bound_method,
            lr_scheduler=lr_scheduler,
        )
        self.compile_update(compile, actor)

    def _compute_returns(self, rollout: Any, buffer: "ReplayBuffer", indices: Index) -> Any:
        """Add ``returns``, ``[B]``: Monte Carlo sums, of which those of other episodes are the baseline."""
        mean, deviation = float(self.ret_rms.mean), float(np.sqrt(self.ret_rms.var + self._eps))
        after = np.full(len(indices), mean)
        returns, _ = self.compute_episodic_return(rollout, buffer, indices, after, gamma=self.gamma, gae_lambda=1.0)
        scaled = (returns - mean) / deviation if self.rew_norm else returns
        rollout.returns = torch.as_tensor(scaled, dtype=dtype_of(self.actor), device=self._device)
        if self.rew_norm:
            self.ret_rms.update(returns)
        return rollout

    def gradient_step(
        self,
        distribution: TDistribution,
        obs: Any,  # noqa: ARG002 (for a critic)
        *columns: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        """Do one gradient step on the loss of a minibatch."""
        act, returns_B = columns
        loss = policy_gradient_loss(log_prob_of(distribution(), act), returns_B)
        descend(loss, self.optim)
        return {"loss": loss.detach()}
