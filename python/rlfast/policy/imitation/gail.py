from dataclasses import dataclass
from typing import Any, TypeVar, Unpack, cast

import torch
from gymnasium.spaces import Discrete
from torch import nn
from torch.nn import functional

from rlfast.data import ReplayBuffer
from rlfast.data.stats import SequenceSummaryStats
from rlfast.data.types import RolloutBatchProtocol
from rlfast.functional.offline import discriminator_loss
from rlfast.policy.components.minibatches import minibatches_of, summaries_of
from rlfast.policy.components.network_checks import check_networks
from rlfast.policy.components.returns import Index
from rlfast.policy.modelfree.ppo import PPOOptions, PPOPolicy, PPOTrainingStats
from rlfast.utils.arguments.validation import PositiveInt, validate_arguments
from rlfast.utils.net._layers import placed_like, without_mask
from rlfast.utils.optim import OptionalOptimizer, descend, make_optimizer


@dataclass(kw_only=True)
class GailTrainingStats(PPOTrainingStats):
    """The statistics of the gradient steps on one roll-out: each loss before its gradient step."""

    disc_loss: SequenceSummaryStats
    """Of the discriminator."""
    acc_pi: SequenceSummaryStats
    """The share of the policy's actions that the discriminator takes for the policy's."""
    acc_exp: SequenceSummaryStats
    """The share of the expert's actions that the discriminator takes for the expert's."""


TGailTrainingStats = TypeVar("TGailTrainingStats", bound=GailTrainingStats)


class GAILPolicy(PPOPolicy):
    r"""Generative adversarial imitation of an expert (Ho and Ermon, arXiv:1606.03476, algorithm 1), by PPO.

    A discriminator :math:`D = \mathrm{sigmoid}(x)` learns to tell the expert's actions from those of the policy, and
    the policy learns as :class:`PPOPolicy` does, from the reward

    .. math:: r = -\log\bigl(1 - D(s, a)\bigr)

    :param expert_buffer: what the expert did; its actions are in the policy's form.
    :param disc_net: x, called with observations and actions concatenated, ``[B, state + action]``, where discrete
        actions are one-hot and continuous ones bounded by ``action_bound_method``; returns ``[B, 1]``.
    :param disc_optim: an optimizer of ``disc_net``, a factory, or None for a policy that only acts.
    :param disc_update_num: number of gradient steps of the discriminator on each roll-out. Default: 4.
    :param options: of :class:`PPOPolicy`.
    :raises ValueError: for a value out of range, or an expert that did nothing.
    """

    stats_class = GailTrainingStats

    @validate_arguments
    def __init__(
        self,
        *,
        expert_buffer: ReplayBuffer,
        disc_net: nn.Module,
        disc_optim: OptionalOptimizer,
        disc_update_num: PositiveInt = 4,
        **options: Unpack[PPOOptions],
    ) -> None:
        check_networks(disc_net=disc_net)
        super().__init__(**options)
        self.expert_buffer, self.disc_net, self.disc_update_num = expert_buffer, disc_net, disc_update_num
        self.disc_optim = make_optimizer(disc_optim, disc_net.parameters())
        self.action_dim = getattr(self.actor, "output_dim", None)

    def disc(self, batch: Any) -> torch.Tensor:
        """Return the discriminator's logits, ``[B, 1]``, above 0 for the expert's.

        Actions of a Box count as the environment gets them, bounded by ``action_bound_method``: unbounded draws of the
        policy would differ from the expert's actions by their size alone.

        :param batch: a batch with ``obs`` and ``act``.
        """
        obs, act = (placed_like(self.disc_net, one) for one in (without_mask(batch.obs), batch.act))
        if isinstance(self.action_space, Discrete):
            act = functional.one_hot(act.long().flatten(), int(self.action_space.n))
        elif self.action_bound_method is not None:
            act = act.clamp(-1.0, 1.0) if self.action_bound_method == "clip" else act.tanh()
        return cast("torch.Tensor", self.disc_net(torch.cat([obs.flatten(1), act.flatten(1).to(obs.dtype)], dim=1)))

    def process_fn(self, batch: RolloutBatchProtocol, buffer: ReplayBuffer, indices: Index) -> Any:
        """Replace the rewards by those of the discriminator before it learns from the roll-out (algorithm 1 has those
        after it), and prepare the roll-out; see :class:`RolloutLearner`.
        """
        with torch.no_grad():
            batch.rew = functional.softplus(self.disc(batch)).flatten().cpu().numpy()
        return super().process_fn(batch, buffer, indices)

    def learn(self, batch: RolloutBatchProtocol, batch_size: int | None, repeat: int, *args: Any, **kwargs: Any) -> Any:
        """Train the discriminator, and then pass over the roll-out; see :meth:`RolloutLearner.learn`."""
        losses = [*self._train_discriminator(batch)]
        summaries = self.summaries_of_passes(batch, batch_size, repeat) | summaries_of(losses)
        return self.stats_class(**cast("Any", summaries))

    def _train_discriminator(self, batch: Any) -> Any:
        size = max(len(batch.act) // self.disc_update_num, 1)
        order, expert = self.rng.permutation(len(batch.act)), self.expert_buffer.sample_indices(0)
        if not len(expert):
            raise ValueError("the expert_buffer is empty: there is nobody to imitate")
        for part in minibatches_of(len(order), size):
            ours = self.disc(batch[order[part]])  # the rows of the expert are drawn by the policy's own stream
            theirs = self.disc(self.expert_buffer[expert[self.rng.integers(len(expert), size=size)]])
            loss = discriminator_loss(ours, theirs)
            descend(loss, self.disc_optim)
            accuracy, accuracy_expert = (ours < 0).float().mean(), (theirs > 0).float().mean()
            yield {"disc_loss": loss.detach(), "acc_pi": accuracy, "acc_exp": accuracy_expert}
