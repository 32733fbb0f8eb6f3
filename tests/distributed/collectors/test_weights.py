import gymnasium as gym
import pytest
import torch

from rlfast.distributed.cluster.actors import InProcessCluster
from rlfast.distributed.collectors.weights import Broadcast, acting_module, acting_weights, take_weights
from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.experiment.networks import Networks
from rlfast.policy import RandomPolicy


def policy(name="dqn", seed=0, env="CartPole-v1"):
    torch.manual_seed(seed)
    algorithm, made = ALGORITHMS[name], gym.make(env)
    config = algorithm.config(env=env, hidden_sizes=(8,))
    return algorithm.build(Networks(config, algorithm.title, made.observation_space, made.action_space))


@pytest.mark.parametrize(
    ("name", "env", "attribute"),
    [("dqn", "CartPole-v1", "model"), ("sac", "Pendulum-v1", "actor"), ("ppo", "CartPole-v1", "actor")],
)
def test_only_what_acts_is_sent(name, env, attribute):
    ours, theirs = policy(name, 0, env), policy(name, 1, env)
    assert acting_module(ours) is getattr(ours, attribute)
    take_weights(theirs, acting_weights(ours))
    for one, other in zip(getattr(ours, attribute).parameters(), getattr(theirs, attribute).parameters(), strict=True):
        assert torch.equal(one, other)
    assert len(acting_weights(ours)) < len(ours.state_dict())


def test_a_policy_without_networks_is_sent_as_it_is():
    random = RandomPolicy(action_space=gym.spaces.Discrete(2))
    assert acting_module(random) is random


def test_copies_do_not_change_with_the_policy():
    ours = policy()
    weights = acting_weights(ours)
    before = {name: value.clone() for name, value in weights.items()}
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.add_(1.0)
    assert all(torch.equal(weights[name], before[name]) for name in weights)


def test_weights_of_another_network_are_an_error():
    with pytest.raises(RuntimeError, match="weights of another network"):
        take_weights(policy(), {"other": torch.zeros(1)})


def test_weights_are_never_older_than_was_said():
    ours = policy()
    broadcast = Broadcast(InProcessCluster(), ours, every=4)
    versions = [broadcast.newest(step).version for step in range(12)]
    assert versions == [0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8]
    assert broadcast.newest(9).shared is broadcast.newest(10).shared
    broadcast.forget()
    assert broadcast.newest(9).version == 9
    assert broadcast.newest(5).version == 5  # a checkpoint was loaded: the learner is back


def test_every_is_at_least_one():
    with pytest.raises(ValueError, match="every must be at least 1"):
        Broadcast(InProcessCluster(), policy(), every=0)
