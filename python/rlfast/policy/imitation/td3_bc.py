from dataclasses import dataclass
from typing import TypeVar, Unpack

import torch

from rlfast.functional.offline import regularized_actor_loss
from rlfast.policy.critics import q_values
from rlfast.policy.modelfree.td3 import TD3Options, TD3Policy, TD3TrainingStats
from rlfast.policy.replay import Sample
from rlfast.utils.arguments.validation import NonNegativeFloat, validate_arguments


@dataclass(kw_only=True)
class TD3BCTrainingStats(TD3TrainingStats):
    """The statistics of one update of TD3+BC: each loss before its gradient step."""


TTD3BCTrainingStats = TypeVar("TTD3BCTrainingStats", bound=TD3BCTrainingStats)


class TD3BCPolicy(TD3Policy):
    r"""TD3 with behavioural cloning, from fixed data (Fujimoto and Gu, arXiv:2106.06860).

    The critics learn as those of :class:`TD3Policy`, whose smoothed actions may lie beyond -1 and 1, unlike in the
    authors' code. The actor's loss also has the distance from the actions of the data:

    .. math::
        L(\mu) = -\frac{\alpha}{\frac1B \sum |Q_1(s, \mu(s))|} \frac1B \sum Q_1\bigl(s, \mu(s)\bigr)
            + \frac1{BD} \sum \|\mu(s) - a\|^2

    :param alpha: :math:`\alpha`, weight of the value, 0 or more; 0 is imitation. Default: 2.5.
    :param options: of :class:`TD3Policy`.
    :raises ValueError: for a value out of range, another kind of action space, or an optimizer for a ``critic2`` that
        is not given.

    >>> from gymnasium.spaces import Box
    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.net.continuous import Actor, Critic
    >>> from rlfast.utils.optim import adam
    >>> critic, optim = Critic(Net(3, 1, hidden_sizes=[64], concat=True)), adam(3e-4)
    >>> nets = {"actor": Actor(Net(3, hidden_sizes=[64]), 1), "critic": critic}
    >>> policy = TD3BCPolicy(**nets, actor_optim=optim, critic_optim=optim, action_space=Box(-2.0, 2.0))
    >>> policy(Batch(obs=torch.zeros(5, 3), info={})).act.shape
    torch.Size([5, 1])
    """

    stats_class = TD3BCTrainingStats
    learns_from_sequences = False

    @validate_arguments
    def __init__(self, *, alpha: NonNegativeFloat = 2.5, **options: Unpack[TD3Options]) -> None:
        super().__init__(**options)
        self.alpha = alpha

    def actor_loss(self, sample: Sample) -> torch.Tensor:
        """Return the loss of the actor: value, and the distance from the actions of the data (equations 3 and 5)."""
        act = self.act(sample.obs, sample.state, sample.batch)
        q_B = q_values(self.critic, sample.obs, act)
        actor_loss = regularized_actor_loss(q_B, act, sample.act, self.alpha)
        return actor_loss
