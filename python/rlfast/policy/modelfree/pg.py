from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, TypeVar, Unpack

import numpy as np
import torch

from rlfast.data import ReplayBuffer
from rlfast.data.stats import SequenceSummaryStats
from rlfast.functional.losses import policy_gradient_loss
from rlfast.policy.base import TrainingStats
from rlfast.policy.components.distributions import log_prob_of
from rlfast.policy.components.returns import Index
from rlfast.policy.rollout import ActorOptions, Minibatch, RolloutLearner, TDistFn
from rlfast.utils.net.common import dtype_of
from rlfast.utils.optim import descend

TDistributionFunction: TypeAlias = TDistFn
TDistFnContinuous: TypeAlias = TDistFn
TDistFnDiscrete: TypeAlias = TDistFn
TDistFnDiscrOrCont: TypeAlias = TDistFn


@dataclass(kw_only=True)
class PGTrainingStats(TrainingStats):
    """What the gradient steps on one roll-out tell; the loss before each step."""

    loss: SequenceSummaryStats


TPGTrainingStats = TypeVar("TPGTrainingStats", bound=PGTrainingStats)


class PGOptions(ActorOptions, total=False):
    """The arguments of :class:`PGPolicy`."""

    compile: bool


class PGPolicy(RolloutLearner):
    r"""REINFORCE (Williams 1992, doi:10.1007/BF00992696), with returns of whole roll-outs.

    .. math::
        L = -\frac1B \sum \log \pi(a_t \mid s_t)\, G_t, \qquad G_t = \sum_{i=t}^{T} \gamma^{i-t} r_i

    (Sutton and Barto, 2nd edition, section 13.3, without the :math:`\gamma^t` of its algorithm.) Nothing is known of
    what follows an episode that is cut off, by time or by the end of the roll-out: it counts as the mean of all
    returns before, if ``reward_normalization`` keeps that, and as 0 otherwise.

    :param options: of :class:`~rlfast.policy.rollout.RolloutLearner`. There is neither ``critic`` nor
        ``gae_lambda``.
    :raises ValueError: for a value out of range, or scaling to a Box without finite bounds.

    >>> from gymnasium.spaces import Discrete
    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.net.discrete import Actor
    >>> from rlfast.utils.optim import adam
    >>> how = {"optim": adam(1e-3), "dist_fn": torch.distributions.Categorical, "action_scaling": False}
    >>> policy = PGPolicy(actor=Actor(Net(4, hidden_sizes=[64]), 2), **how, action_space=Discrete(2))
    >>> policy(Batch(obs=torch.zeros(5, 4), info={})).act.shape
    torch.Size([5])
    """

    stats_class = PGTrainingStats
    columns: ClassVar[tuple[str, ...]] = ("act", "returns")
    has_critic = False

    def __init__(self, **options: Unpack[PGOptions]) -> None:
        super().__init__(**options)

    def _compute_returns(self, rollout: Any, buffer: ReplayBuffer, indices: Index) -> Any:
        """Add ``returns``, ``[B]``: Monte Carlo sums, of which those of other episodes are the baseline."""
        mean, deviation = float(self.ret_rms.mean), float(np.sqrt(self.ret_rms.var + self._eps))
        after = np.full(len(indices), mean)
        returns, _ = self.compute_episodic_return(rollout, buffer, indices, after, gamma=self.gamma, gae_lambda=1.0)
        scaled = (returns - mean) / deviation if self.rew_norm else returns
        rollout.returns = torch.as_tensor(scaled, dtype=dtype_of(self.actor), device=self._device)
        if self.rew_norm:
            self.ret_rms.update(returns)
        return rollout

    def gradient_step(self, batch: Minibatch) -> dict[str, torch.Tensor]:
        """Do one gradient step on the loss of a minibatch."""
        log_prob = log_prob_of(self.dist(batch), batch.act)
        loss = policy_gradient_loss(log_prob, batch.returns)
        descend(loss, self.optim)
        return {"loss": loss.detach()}
