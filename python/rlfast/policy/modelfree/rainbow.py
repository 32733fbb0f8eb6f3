from dataclasses import dataclass
from typing import TypeVar, Unpack

import torch

from rlfast.functional.losses import cross_entropy
from rlfast.policy.modelfree.c51 import C51Options, C51Policy, C51TrainingStats
from rlfast.policy.q_learner import output_of_actions
from rlfast.policy.replay import Losses, Sample
from rlfast.utils.net.discrete import NoisyLinear, scaled_noise
from rlfast.utils.optim import descend


@dataclass(kw_only=True)
class RainbowTrainingStats(C51TrainingStats):
    """The statistics of one gradient step of Rainbow."""


TRainbowTrainingStats = TypeVar("TRainbowTrainingStats", bound=RainbowTrainingStats)


class RainbowPolicy(C51Policy):
    r"""Rainbow (Hessel et al., arXiv:1710.02298): what C51 learns, from n steps, with noise in place of random actions.

    .. math::
        a^* &= \arg\max_a \sum_i z_i\, p_i(s_{t+k}, a; \epsilon), \qquad
        G_j = \sum_{i=0}^{k-1} \gamma^i r_{t+i} + \gamma^k z_j \\
        L &= -\frac1B \sum w \sum_i \bigl(\Phi\, p^-(s_{t+k}, a^*; \epsilon^-)\bigr)_i \log p_i(s_t, a_t; \epsilon)

    with the projection :math:`\Phi` of :func:`rlfast.functional.losses.projected_distribution`. Dueling streams and the
    noise :math:`\epsilon` (arXiv:1706.10295) are a matter of the network, whose layers of
    :class:`rlfast.utils.net.discrete.NoisyLinear` get new noise at each update, those of the target network noise of
    their own; prioritized replay is a matter of the buffer. The cross-entropies are the errors that it gets.

    Returns sum k rewards, at most ``estimation_step``; w are the importance weights of a prioritized buffer, else 1.

    :param options: of :class:`C51Policy`.
    :raises ValueError: for a value out of range.

    >>> from gymnasium.spaces import Discrete
    >>> from rlfast.data import Batch
    >>> from rlfast.utils.net.common import Net
    >>> from rlfast.utils.net.discrete import NoisyLinear
    >>> from rlfast.utils.optim import adam
    >>> streams = {"hidden_sizes": [64], "linear_layer": NoisyLinear}
    >>> model = Net(4, 2, [64], softmax=True, num_atoms=51, dueling_param=(streams, streams))
    >>> space = Discrete(2)
    >>> policy = RainbowPolicy(model=model, optim=adam(1e-3), action_space=space, target_update_freq=100)
    >>> policy(Batch(obs=torch.zeros(3, 4), info={})).logits.shape
    torch.Size([3, 2, 51])
    """

    stats_class = RainbowTrainingStats

    def __init__(self, **options: Unpack[C51Options]) -> None:
        super().__init__(**options)
        for layer in self._noisy("model_old"):
            layer.train()

    def _noisy(self, *names: str) -> list[NoisyLinear]:
        networks = (getattr(self, name) for name in names)
        return [
            layer for net in networks if net is not None for layer in net.modules() if isinstance(layer, NoisyLinear)
        ]

    def draw_step(self, rows: int) -> tuple[torch.Tensor, ...]:
        """Draw the noise of both networks, the trained one's first."""
        noise = (noise for layer in self._noisy("model", "model_old") for noise in (layer.eps_p, layer.eps_q))
        return tuple(scaled_noise(self.draw_normal(tuple(eps.shape), eps.dtype, eps.device)) for eps in noise)

    def gradient_step(self, sample: Sample) -> tuple[Losses, torch.Tensor]:
        """Update the target network if it is due, draw new noise for both, and do one gradient step on the loss."""
        if sample.is_due:
            self.sync_weight()
        noise = iter(sample.draws)
        for layer in self._noisy("model", "model_old"):
            layer.eps_p.copy_(next(noise))
            layer.eps_q.copy_(next(noise))
        with torch.no_grad():
            target_BN = self.target_distribution(sample)  # n steps, equation 7 of C51
        prob_BN = output_of_actions(self.values(sample.obs, sample.state, sample.batch), sample.act)
        error_B = cross_entropy(target_BN, prob_BN)
        loss = (sample.weight * error_B).mean()  # prioritized by the loss itself
        descend(loss, self.optim)
        return {"loss": loss.detach()}, error_B.detach()
