import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from torch import nn
from torch.distributions import kl_divergence

from rlfast.functional import Categorical
from rlfast.policy import NPGPolicy
from rlfast.policy.rollout import Minibatch


class Fixed(nn.Module):
    """An actor or critic whose outputs, by the number of the observation, are its parameters."""

    def __init__(self, values):
        super().__init__()
        self.values = nn.Parameter(torch.tensor(values))

    def forward(self, obs, state=None, info=None):
        out = self.values[torch.as_tensor(obs).long()]
        return (out, state) if self.values.shape[1] > 1 else out


def test_a_step_by_hand():
    actor, critic = Fixed([[0.0, 0.0], [0.0, 0.0]]), Fixed([[1.0], [2.0]])
    optim = torch.optim.SGD([critic.values], lr=0.5)
    given = {"action_space": Discrete(2), "action_scaling": False, "dist_fn": Categorical}
    policy = NPGPolicy(actor=actor, critic=critic, optim=optim, optim_critic_iters=2, actor_step_size=0.7, **given)
    act, adv, returns = torch.tensor([0, 1]), torch.tensor([3.0, -1.0]), torch.tensor([2.0, 4.0])
    losses = policy.gradient_step(Minibatch(torch.tensor([0, 1]), act, adv, returns))
    assert losses["actor_loss"].item() == pytest.approx(np.log(2) * (3 - 1) / 2)
    # gradient -+0.75 and -+0.25 along (1, -1), where the Fisher matrix, 0.125 (1, -1) (1, -1)', has the eigenvalue
    # 0.25; the second row's action 1 becomes less likely
    first, second = 0.7 * 0.75 / (0.25 + 0.1), 0.7 * 0.25 / (0.25 + 0.1)
    assert actor.values.flatten().tolist() == pytest.approx([first, -first, second, -second])
    kl = kl_divergence(Categorical(torch.zeros(2, 2)), Categorical(actor.values)).mean()
    assert losses["kl"].item() == pytest.approx(kl.item())
    # each step of the critic halves its errors, 1 and 2
    assert losses["vf_loss"].item() == pytest.approx((0.5**2 + 1**2) / 2)
    assert critic.values.flatten().tolist() == pytest.approx([1.75, 3.5])
