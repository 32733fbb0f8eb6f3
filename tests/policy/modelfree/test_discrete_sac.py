import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete

from distributional import Table
from policy.given import calls_of, forwarding
from rlfast.data import Batch
from rlfast.policy import AutoAlpha, DiscreteSACPolicy
from rlfast.policy.modelfree.discrete_sac import DiscreteSACTrainingStats
from rlfast.utils.net.common import Net, Recurrent
from rlfast.utils.net.discrete import Actor, Critic
from rlfast.utils.optim import adam


class Values(Table):
    """A table that is asked as critics are."""

    def forward(self, obs, **kwargs):
        return super().forward(obs)[0]


def make(seed=0, **options):
    torch.manual_seed(seed)
    nets = {"actor": Actor(Net(4, hidden_sizes=[8]), 2, softmax_output=False)}
    nets |= {"critic": Critic(Net(4, hidden_sizes=[8]), last_size=2)}
    optims = {"actor_optim": adam(1e-2), "critic_optim": adam(1e-2)}
    policy = DiscreteSACPolicy(**{**nets, **optims, "action_space": Discrete(2), **options})
    policy.seed(seed)
    return policy


PROBS = [[0.25, 0.75], [0.5, 0.5]]
ENTROPY = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))


def by_hand(**options):
    actor = Table(np.log(PROBS).astype(np.float32).tolist())
    critic, critic2 = Values([[1.0, 4.0], [0.0, 0.0]]), Values([[2.0, 3.0], [0.0, 0.0]])
    nets = {"actor": actor, "critic": critic, "critic2": critic2}
    optims = {f"{name}_optim": torch.optim.SGD(net.parameters(), lr=1.0) for name, net in nets.items()}
    return make(**nets, **optims, **options)


def test_an_actor_of_another_width():
    with pytest.warns(UserWarning, match="the actor gives 2 numbers, but Discrete"):
        make(action_space=Discrete(3))


def test_actions_are_drawn_in_training_and_the_likeliest_in_evaluation():
    policy, batch = by_hand(), Batch(obs=np.zeros(2000, int), info={})
    assert policy(batch).act.float().mean().item() == pytest.approx(0.75, abs=0.05)
    assert policy.eval()(batch).act.tolist() == [1] * 2000
    drawn = []
    for number in range(2):
        policy = by_hand(seed=7)
        torch.manual_seed(number)
        drawn.append(policy(batch).act.tolist())
    assert drawn[0] == drawn[1]
    noise = np.zeros(3, int)
    assert policy.exploration_noise(noise, batch) is noise


def test_the_soft_value_by_hand():
    policy = by_hand(alpha=0.5)
    assert policy.next_value(np.array([0])).item() == pytest.approx(0.25 * 1 + 0.75 * 3 + 0.5 * ENTROPY, rel=1e-5)
    with torch.no_grad():
        policy.critic_old.values[0] = torch.tensor([0.0, 8.0])  # target networks, and not the trained ones
    assert policy.next_value(np.array([0])).item() == pytest.approx(0.75 * 3 + 0.5 * ENTROPY, rel=1e-5)


def test_an_update_by_hand():
    policy = by_hand(alpha=0.5, tau=0.5)
    returns = torch.tensor([[3.0], [3.0]])
    batch = Batch(obs=np.array([0, 1]), act=np.array([1, 0]), info={}, returns=returns, weight=np.array([1.0, 0.0]))
    stats = policy.learn(batch)
    assert isinstance(stats, DiscreteSACTrainingStats)
    assert (stats.critic1_loss, stats.critic2_loss) == (pytest.approx(0.5), pytest.approx(0.0))
    assert policy.critic.values[0].tolist() == [1.0, 3.0]  # a step of 1 down the mean of (Q - 3)^2
    assert policy.critic_old.values[0].tolist() == [1.0, 3.5]
    assert batch.td_error.tolist() == [-0.5, 3.0]
    assert batch.weight.tolist() == [0.5, -3.0]
    worth = [0.25 * 1 + 0.75 * 3 + 0.5 * ENTROPY, 0.5 * np.log(2)]
    assert stats.actor_loss == pytest.approx(-sum(worth) / 2, rel=1e-5)
    assert (stats.alpha, stats.alpha_loss) == (0.5, None)
    soft = np.array([1.0, 3.0]) - 0.5 * np.log(PROBS[0])
    slope = PROBS[0] * (soft - np.dot(PROBS[0], soft)) / 2
    assert policy.actor.values[0].detach().numpy() == pytest.approx(np.log(PROBS[0]) + slope, rel=1e-4)


def test_a_learned_temperature_by_hand():
    policy = by_hand(alpha=AutoAlpha(0.9, 0.0, lambda parameters: torch.optim.SGD(parameters, lr=1.0)))
    batch = Batch(obs=np.array([0]), act=np.array([1]), info={}, returns=torch.tensor([[3.0]]))
    stats = policy.learn(batch)
    assert stats.alpha_loss == pytest.approx(0.0, abs=1e-6)  # times the logarithm of 1
    assert policy.log_alpha.item() == pytest.approx(0.9 - ENTROPY, rel=1e-5)
    assert stats.alpha == pytest.approx(np.exp(0.9 - ENTROPY), rel=1e-5)


def test_illegal_actions_are_neither_taken_nor_worth_anything():
    policy = by_hand(alpha=0.5)
    observed = Batch(obs=np.zeros(20, int), mask=np.eye(2, dtype=bool)[np.arange(20) % 2])
    for mode in (True, False):
        assert policy.train(mode)(Batch(obs=observed, info={})).act.tolist() == [0, 1] * 10
    assert policy.next_value(observed).tolist() == pytest.approx([1.0, 3.0] * 10)
    batch = Batch(obs=observed, act=np.arange(20) % 2, info={}, returns=torch.ones(20, 1))
    assert np.isfinite(policy.learn(batch).actor_loss)
    assert policy.actor.values.isfinite().all()


def test_the_actor_is_given_hidden_states_and_a_forward_of_ones_own_the_sample():
    policy = by_hand()
    calls = calls_of(policy.actor)
    policy.next_value(np.array([0]), "before")
    batch = Batch(obs=np.array([0]), act=np.array([1]), info={}, returns=torch.tensor([[3.0]]), state=torch.ones(1, 1))
    policy.learn(batch)
    assert [call["state"] for call in calls] == ["before", batch.state]
    given = forwarding(policy)
    policy.learn(batch)
    assert [call.args for call in given] == [(batch, batch.state)]


def test_it_has_a_memory_on_a_recurrent_network():
    policy = make(actor=Actor(Recurrent(1, 4, 6, hidden_layer_size=5), 2, softmax_output=False))
    result = policy(Batch(obs=np.zeros((2, 4), np.float32), info={}))
    assert result.state["hidden"].shape == (2, 1, 5)
