import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete

from rlfast.functional import Categorical, gae
from rlfast.policy import A2CPolicy, PPOPolicy
from rlfast.policy.rollout import Minibatch
from rlfast.utils.net.common import Net
from rlfast.utils.net.discrete import Actor, Critic
from rlfast.utils.optim import adam
from rollouts import Table, rollout, weights


def by_hand(kind=A2CPolicy, **options):
    """Give a policy of two observations and two equally likely actions, and a minibatch of two rows of it."""
    actor, critic = Table([[0.0, 0.0], [0.0, 0.0]]), Table([[1.0], [2.0]])
    optim = torch.optim.SGD([actor.values, critic.values], lr=1.0)
    given = {"action_space": Discrete(2), "action_scaling": False, "dist_fn": Categorical}
    policy = kind(actor=actor, critic=critic, optim=optim, **given, **options)
    act, adv, returns = torch.tensor([0, 1]), torch.tensor([3.0, 1.0]), torch.tensor([2.0, 4.0])
    return policy, Minibatch(torch.tensor([0, 1]), act, adv, returns)


def test_losses_and_step_by_hand():
    policy, rows = by_hand()
    loss, actor_loss, vf_loss, ent_loss = policy.gradient_step(rows).values()
    assert actor_loss.item() == pytest.approx(np.log(2) * (3 + 1) / 2)
    assert vf_loss.item() == pytest.approx((1.0 + 4.0) / 2)
    assert ent_loss.item() == pytest.approx(np.log(2))
    assert loss.item() == pytest.approx(2 * np.log(2) + 0.5 * 2.5 - 0.01 * np.log(2))
    assert policy.actor.values.flatten().tolist() == pytest.approx([0.75, -0.75, -0.25, 0.25])
    assert policy.critic.values.flatten().tolist() == pytest.approx([1.5, 3.0])  # 0.5 * 2/2 (G - V)


def test_the_entropy_is_raised():
    policy, rows = by_hand(ent_coef=2.0)
    with torch.no_grad():
        policy.actor.values += torch.tensor([1.0, 0.0])
    policy.gradient_step(rows._replace(adv=torch.zeros(2)))
    before, after = (Categorical(values).entropy() for values in (torch.tensor([1.0, 0.0]), policy.actor.values))
    assert (after > before).all()


@pytest.mark.parametrize("kind", [A2CPolicy, PPOPolicy])
@pytest.mark.parametrize("ent_coef", [0.0, 0.01])
def test_an_entropy_without_weight_gets_no_gradient(kind, ent_coef):
    asked = []

    class Loud(Categorical):
        def entropy(self):
            entropy = super().entropy()
            entropy.register_hook(asked.append)
            return entropy

    policy, rows = by_hand(kind, ent_coef=ent_coef)
    policy.dist_fn = Loud
    policy.gradient_step(rows._replace(logp_old=torch.zeros(2)))
    assert len(asked) == (ent_coef > 0)


def test_the_gradient_norm_is_that_of_both_networks():
    policy, rows = by_hand(max_grad_norm=0.5)
    before = weights(policy)
    policy.gradient_step(rows)
    assert (weights(policy) - before).norm().item() == pytest.approx(0.5, rel=1e-4)


@pytest.mark.parametrize("gae_lambda", [0.0, 0.95, 1.0])
def test_advantages(gae_lambda):
    torch.manual_seed(0)
    actor, critic = Actor(Net(4, hidden_sizes=[8]), 3, softmax_output=False), Critic(Net(4, hidden_sizes=[8]))
    given = {"dist_fn": Categorical, "action_space": Discrete(3), "action_scaling": False}
    policy = A2CPolicy(actor=actor, critic=critic, optim=adam(), gae_lambda=gae_lambda, max_batchsize=7, **given)
    buffer = rollout(policy)
    batch, indices = buffer.sample(0)
    with torch.no_grad():
        values, next_values = (critic(obs).flatten().numpy() for obs in (batch.obs, batch.obs_next))
    end = batch.truncated | np.isin(indices, buffer.unfinished_index())
    expected = gae(batch.rew, values, next_values, batch.terminated, end, 0.99, gae_lambda)
    done = policy.process_fn(batch, buffer, indices)
    assert done.adv.numpy() == pytest.approx(expected, abs=1e-5)
    assert done.returns.numpy() == pytest.approx(expected + values, abs=1e-5)
    assert "logp_old" not in done  # nobody compares with it
