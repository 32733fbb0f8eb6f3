"""Observations that do not fit their space or the network are named, not only the product of matrices that failed."""

from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

from rlfast.data import Batch, Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.policy import DQNPolicy, PPOPolicy, SACPolicy
from rlfast.utils.arguments.checks import ObservationError
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import ActorProb
from rlfast.utils.net.continuous import Critic as RealCritic
from rlfast.utils.net.discrete import Actor, Critic
from rlfast.utils.optim import adam

DISCRETE, BOX = gym.spaces.Discrete(2), gym.spaces.Box(-1, 1, (1,), np.float32)


def space(*shape):
    return gym.spaces.Box(-9, 9, shape, np.float32)


class Wide(gym.Env):
    """Declares one shape, and gives observations of another."""

    spec = SimpleNamespace(id="Wide-v0", reward_threshold=None)

    def __init__(self, given, declared, actions=DISCRETE):
        self.observation_space, self.action_space, self.given = space(*declared), actions, given

    def reset(self, *, seed=None, options=None):
        return np.zeros(self.given, np.float32), {}

    def step(self, action):
        return np.zeros(self.given, np.float32), 1.0, False, False, {}


class Pictures(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 2), nn.Flatten(), nn.LazyLinear(2))
        self.layers(torch.zeros(1, 3, 4, 4))

    def forward(self, obs, state=None, info=None):
        return self.layers(torch.as_tensor(obs)), state


def dqn(**options):
    return DQNPolicy(model=Net(4, 2, [8]), optim=adam(1e-3), action_space=DISCRETE, **options)


def ppo(**options):
    return PPOPolicy(
        actor=Actor(Net(4, hidden_sizes=[8]), 2, softmax_output=False),
        critic=Critic(Net(4, hidden_sizes=[8])),
        optim=adam(1e-3),
        dist_fn=lambda logits: torch.distributions.Categorical(logits=logits),
        action_space=DISCRETE,
        action_scaling=False,
        **options,
    )


def sac(**options):
    critics = {name: RealCritic(Net((4,), (1,), [8], concat=True)) for name in ("critic", "critic2")}
    return SACPolicy(
        actor=ActorProb(Net(4, hidden_sizes=[8]), (1,), unbounded=True, conditioned_sigma=True),
        actor_optim=adam(1e-3),
        critic_optim=adam(1e-3),
        critic2_optim=adam(1e-3),
        action_space=BOX,
        **critics,
        **options,
    )


POLICIES = {"DQN": dqn, "PPO": ppo, "SAC": sac}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_names_what_its_network_takes(name):
    wrong = Batch(obs=np.zeros((2, 5), np.float32), info={})
    with pytest.raises(ObservationError, match=rf"{name}Policy takes 4 numbers, got .* shape \(5,\)"):
        POLICIES[name]()(wrong)
    with pytest.raises(ObservationError, match=rf"{name}Policy takes 4 numbers, got .* shape \(5,\)"):
        POLICIES[name]().compute_action(wrong.obs[0])
    named = POLICIES[name](observation_space=space(4))
    with pytest.raises(ObservationError, match=rf"{name}Policy takes observations of Box.*\(4,\).* of shape \(5,\)"):
        named(wrong)
    with pytest.raises(ObservationError, match="takes observations of Box"):
        named.compute_action(wrong.obs[0])


@pytest.mark.parametrize("name", POLICIES)
def test_a_collect_names_the_environment_and_its_space(name):
    policy = POLICIES[name]()
    actions = policy.action_space
    for declared, text in (
        (
            (4,),
            r"environment 0 \(Wide-v0\) gives observations of shape \(5,\), but its observation_space is Box\(.*\(4,\)",
        ),
        ((5,), rf"environment 0 \(Wide-v0\): the first layer of {name}Policy takes 4 numbers, got .* shape \(5,\)"),
    ):
        envs = DummyVectorEnv([lambda declared=declared: Wide((5,), declared, actions)] * 2)
        with pytest.raises(ObservationError, match=text):
            Collector(policy, envs, VectorReplayBuffer(20, 2)).collect(n_step=4)


def test_what_works_needs_no_space():
    envs = DummyVectorEnv([lambda: Wide((4,), (9, 9))] * 2)
    assert Collector(dqn(), envs, VectorReplayBuffer(20, 2)).collect(n_step=4).n_collected_steps == 4


@pytest.mark.parametrize("name", POLICIES)
def test_an_update_names_what_the_network_takes(name):
    policy = POLICIES[name]()
    buffer = VectorReplayBuffer(20, 1)
    act = np.zeros(1, np.float32) if name == "SAC" else 0
    row = Batch(act=act, rew=1.0, terminated=False, truncated=False, info={})
    row.obs = row.obs_next = np.zeros(5, np.float32)
    for _ in range(8):
        buffer.add(Batch.stack([row]))
    policy.train()
    options = {"batch_size": 4, "repeat": 1} if name == "PPO" else {}
    with pytest.raises(ObservationError, match=rf"{name}Policy takes 4 numbers, got .* shape \(5,\)"):
        policy.update(0, buffer, **options)


@pytest.mark.parametrize("shape", [(4, 4, 3), (16,), (1, 4, 4)])
def test_pictures(shape):
    policy = DQNPolicy(model=Pictures(), optim=adam(1e-3), action_space=DISCRETE)
    with pytest.raises(ObservationError, match=rf"takes pictures of 3 channels.* got .* shape \({shape[0]},"):
        policy(Batch(obs=np.zeros((2, *shape), np.float32), info={}))


def test_other_errors_stay():
    class Broken(nn.Module):
        def __init__(self, error):
            super().__init__()
            self.layer, self.error = nn.Linear(4, 2), error

        def forward(self, obs, state=None, info=None):
            raise self.error

    for error in (RuntimeError("own"), ValueError("own"), KeyError("own")):
        policy = DQNPolicy(model=Broken(error), optim=adam(1e-3), action_space=DISCRETE)
        with pytest.raises(type(error), match="own") as raised:
            policy(Batch(obs=np.zeros((2, 4), np.float32), info={}))
        assert raised.value is error


class TwoChoices(gym.Env):
    observation_space = gym.spaces.Box(0, 1, (3,), np.float32)
    action_space = gym.spaces.MultiDiscrete([2, 2])

    def reset(self, *, seed=None, options=None):
        self.taken = []
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.taken.append(action)
        return np.zeros(3, np.float32), 0.0, False, False, {}


def categorical(kind=PPOPolicy):
    actor, critic = Actor(Net(3, hidden_sizes=[4]), 4, softmax_output=False), Critic(Net(3, hidden_sizes=[4]))
    return kind(
        actor=actor,
        critic=critic,
        optim=torch.optim.Adam([*actor.parameters(), *critic.parameters()]),
        dist_fn=lambda logits: torch.distributions.Categorical(logits=logits),
        action_space=gym.spaces.MultiDiscrete([2, 2]),
        action_scaling=False,
    )


@pytest.mark.parametrize("count", [1, 2, 3])
def test_one_choice_for_several_is_refused_before_a_step(count):
    envs = DummyVectorEnv([TwoChoices] * count)
    collector = Collector(categorical(), envs, VectorReplayBuffer(20, count))
    collector.reset()
    with pytest.raises(ValueError, match=r"actions of MultiDiscrete\(\[2 2\]\) must have the shape .*, got \(\d,\)"):
        collector.collect(n_step=count)
    assert envs.get_env_attr("taken") == [[]] * count
    assert len(collector.buffer) == 0


def test_a_users_map_action_may_make_several_choices_of_one():
    class Maps(PPOPolicy):
        def map_action(self, act):
            act = np.asarray(act)
            return np.stack([act // 2, act % 2], axis=-1)

    envs = DummyVectorEnv([TwoChoices] * 2)
    Collector(categorical(Maps), envs, VectorReplayBuffer(20, 2)).collect(n_step=8)
    assert {np.shape(action) for taken in envs.get_env_attr("taken") for action in taken} == {(2,)}
