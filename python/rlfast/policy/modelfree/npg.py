from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, Unpack

import torch
from torch import nn
from torch.distributions import Distribution

from rlfast.data import ReplayBuffer
from rlfast.data.stats import SequenceSummaryStats
from rlfast.data.types import RolloutBatchProtocol
from rlfast.functional import normalize
from rlfast.functional.losses import policy_gradient_loss, value_loss
from rlfast.functional.natural_gradient import NaturalStep
from rlfast.policy.base import TrainingStats
from rlfast.policy.components.distributions import log_prob_of
from rlfast.policy.components.returns import Index
from rlfast.policy.modelfree.a2c import A2CPolicy
from rlfast.policy.rollout import CriticOptions, Minibatch, RolloutLearner
from rlfast.utils.arguments.validation import FiniteFloat, PositiveInt, validate_arguments
from rlfast.utils.net._shared import separate_features
from rlfast.utils.optim import descend


@dataclass(kw_only=True)
class NPGTrainingStats(TrainingStats):
    """The statistics of the steps on one roll-out."""

    actor_loss: SequenceSummaryStats
    """Before each step."""
    vf_loss: SequenceSummaryStats
    """Before the last of the critic's steps on each minibatch."""
    kl: SequenceSummaryStats
    """How far each step changed the distribution over actions."""


TNPGTrainingStats = TypeVar("TNPGTrainingStats", bound=NPGTrainingStats)


class NPGOptions(CriticOptions, total=False):
    """The arguments of :class:`NPGPolicy`."""

    optim_critic_iters: int
    actor_step_size: float
    advantage_normalization: bool


@A2CPolicy.register
class NPGPolicy(RolloutLearner):
    r"""Natural policy gradient (Kakade 2001, *A natural policy gradient*).

    .. math::
        \theta \leftarrow \theta + \alpha (F + 0.1\, I)^{-1} \nabla_\theta \frac1B \sum \log \pi_\theta(a \mid s)\, A

    (section 2, with F the Fisher matrix of the distribution over actions.) The linear system is solved by at most ten
    conjugate gradients. The estimate of advantages by :func:`rlfast.functional.gae`, and the critic, which takes
    several steps down the mean squared error of its values on each minibatch, are not of the paper.

    :param optim: optimizes the critic: an optimizer, or a factory such as :func:`rlfast.utils.optim.adam`, called with
        those of its parameters that the actor does not have; None for a policy that only acts.
    :param optim_critic_iters: gradient steps of the critic on each minibatch. Default: 5.
    :param actor_step_size: size of the actor's steps, :math:`\alpha`. Default: 0.5.
    :param advantage_normalization: whether advantages have mean 0 and deviation 1 in each roll-out. Default: True.
    :param options: of :class:`~rlfast.policy.rollout.RolloutLearner`.
    :raises ValueError: for a value out of range, or scaling to a Box without finite bounds.

    >>> from gymnasium.spaces import Discrete
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.net.discrete import Actor, Critic
    >>> from rlfast.utils.optim import adam
    >>> nets = {"actor": Actor(Net(4, hidden_sizes=[64]), 2), "critic": Critic(Net(4, hidden_sizes=[64]))}
    >>> how = {"optim": adam(1e-3), "dist_fn": torch.distributions.Categorical, "action_scaling": False}
    >>> policy = NPGPolicy(**nets, **how, action_space=Discrete(2))
    >>> sum(len(group["params"]) for group in policy.optim.param_groups)  # the critic's
    4
    """

    stats_class: ClassVar[type[Any]] = NPGTrainingStats
    columns: ClassVar[tuple[str, ...]] = ("act", "adv", "returns")
    damping = 0.1
    """Added to the diagonal of the Fisher matrix, which is singular if some parameters have no effect on any row."""

    @validate_arguments
    def __init__(
        self,
        *,
        optim_critic_iters: PositiveInt = 5,
        actor_step_size: FiniteFloat = 0.5,
        advantage_normalization: bool = True,
        **options: Unpack[CriticOptions],
    ) -> None:
        super().__init__(**options)
        self.optim_critic_iters, self.actor_step_size = optim_critic_iters, actor_step_size
        self.norm_adv = advantage_normalization

    def optimized(self, *networks: nn.Module) -> Iterable[nn.Parameter]:
        """Return the parameters of the critic that the actor does not share: only natural steps change the actor's."""
        actor, critic = networks
        taken = {id(parameter) for parameter in actor.parameters()}
        return [parameter for parameter in critic.parameters() if id(parameter) not in taken]

    def process_fn(self, batch: RolloutBatchProtocol, buffer: ReplayBuffer, indices: Index) -> Any:
        """Prepare a roll-out, and normalize its advantages; see :meth:`RolloutLearner.process_fn`."""
        rollout = super().process_fn(batch, buffer, indices)
        if self.norm_adv:
            rollout.adv = normalize(rollout.adv)
        return rollout

    def gradient_step(self, batch: Minibatch) -> Mapping[str, torch.Tensor]:
        """Do one natural step of the actor, and several gradient steps of the critic."""
        with separate_features():  # parameters change in between
            losses = self.actor_step(batch)
            for _ in range(self.optim_critic_iters):
                vf_loss = value_loss(self.critic(batch.obs).flatten(), batch.returns)
                descend(vf_loss, self.optim)
        return {**losses, "vf_loss": vf_loss.detach()}

    def actor_step(self, batch: Minibatch) -> dict[str, torch.Tensor]:
        """Step along the natural gradient, by a fixed size.

        :param batch: the minibatch.
        :return: ``actor_loss`` before the step, and ``kl``, the divergence from the policy before it.
        """

        def loss(dist: Distribution) -> torch.Tensor:
            return policy_gradient_loss(log_prob_of(dist, batch.act), batch.adv)

        step = self.natural_step(batch, loss)  # its direction is (F + damping I)^-1 g
        kl, _ = step.take(self.actor_step_size)  # theta <- theta + alpha * direction
        return {"actor_loss": step.loss, "kl": kl}

    def natural_step(self, batch: Minibatch, loss: Callable[[Distribution], torch.Tensor]) -> NaturalStep:
        """Return the direction in which a loss falls fastest per unit of KL divergence of the distribution.

        :param batch: the minibatch.
        :param loss: returns the loss of a distribution over its actions, a scalar.
        """
        parameters = [parameter for parameter in self.actor.parameters() if parameter.requires_grad]
        return NaturalStep(lambda: self.dist(batch), loss, parameters, self.damping)
