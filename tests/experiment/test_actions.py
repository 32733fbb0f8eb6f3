"""Every algorithm gives environments elements of their action space: random actions, noise and masks included."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from rlfast.data import Batch, Collector, ReplayBuffer, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.experiment.networks import Networks
from rlfast.policy import BranchingDQNPolicy, RandomPolicy
from rlfast.utils.net.common import BranchingNet

SEEN = Box(-1, 1, (4,), np.float32)
BOXES = [
    Box(np.float32([-1.3812797, 0.1]), np.float32([0.82177013, 0.3])),
    Box(np.float64([-1.3812797, 0.1]), np.float64([0.82177013, 0.3]), dtype=np.float64),
    Box(np.float16([-1.381, 0.1]), np.float16([0.8217, 0.3]), dtype=np.float16),
    Box(np.int8([-128, 3]), np.int8([127, 5]), dtype=np.int8),
]
COUNTED = [Discrete(3, start=2, dtype=np.int32), MultiDiscrete([2, 3], start=[4, -5], dtype=np.int16)]


class Strict(gym.Env):
    """An environment that takes elements of its space only; of masked actions, the first and the last."""

    def __init__(self, space, *, masked):
        self.action_space, self.masked = space, masked
        sizes = np.ravel(getattr(space, "nvec", getattr(space, "n", 0)))
        self.mask = np.concatenate([np.isin(np.arange(size), [0, size - 1]) for size in sizes]).astype(np.int8)
        self.observation_space = Dict(obs=SEEN, mask=MultiBinary(len(self.mask))) if masked else SEEN
        self.legal = {0, *(sizes - 1).tolist()}

    def show(self):
        obs = self.np_random.uniform(-1, 1, 4).astype(np.float32)
        return {"obs": obs, "mask": self.mask} if self.masked else obs

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.show(), {}

    def step(self, action):
        self.time += 1
        assert self.action_space.contains(action)
        assert action.dtype == self.action_space.dtype
        if self.masked:
            parts = np.split(self.mask, np.cumsum(np.ravel(getattr(self.action_space, "nvec", [])))[:-1])
            choices = np.ravel(action - self.action_space.start)
            assert all(part[choice] for part, choice in zip(parts, choices, strict=True))
        return self.show(), 1.0, False, self.time == 7, {}


def play(policy, space, *, masked=False):
    for mode in (None, "next-step", "same-step"):
        envs = DummyVectorEnv([partial(Strict, space, masked=masked)] * 2, autoreset_mode=mode)
        collector = Collector(policy, envs, VectorReplayBuffer(400, 2), exploration_noise=True)
        for random in (False, True, False):
            collector.collect(n_step=30, random=random)
        envs.close()


def made(name, space):
    """The policy, in a state in which it explores; None for an algorithm that does not have such actions."""
    algorithm = ALGORITHMS[name]
    config = algorithm.config(env="Own-v0", hidden_sizes=(8,))
    try:
        policy = config.build(Networks(config, algorithm.title, SEEN, space))
    except (TypeError, ValueError):
        return None
    policy.seed(0)
    if hasattr(policy, "set_eps"):
        policy.set_eps(0.5)
    return policy


@pytest.mark.parametrize("name", ALGORITHMS)
def test_actions_are_elements_of_the_space(name):
    policies = [(made(name, space), space) for space in BOXES + COUNTED]
    assert any(policy is not None for policy, _ in policies)
    for policy, space in policies:
        if policy is not None:
            play(policy, space)
            action = policy.compute_action(np.zeros(4, np.float32))
            assert space.contains(action)
            assert isinstance(space, Discrete) or action.dtype == space.dtype


@pytest.mark.parametrize("space", COUNTED, ids=str)
@pytest.mark.parametrize("name", ["dqn", "c51", "ppo", "discrete-sac"])
def test_actions_are_legal(name, space):
    if (policy := made(name, space)) is not None:
        play(policy, space, masked=True)


@pytest.mark.parametrize(
    "space", [*BOXES, *COUNTED, MultiDiscrete([[2, 3]], start=[[1, 2]]), MultiBinary((2, 2)), Box(3, 7, (2,))], ids=str
)
def test_random_policies(space):
    kinds = [{}, {"action_bound_method": None}, {"action_bound_method": "tanh"}]
    kinds += [{"action_scaling": True, **one} for one in kinds] if isinstance(space, Box) else []
    for options in kinds:
        play(RandomPolicy(action_space=space, **options), space)
    if isinstance(space, Discrete | MultiDiscrete):
        play(RandomPolicy(action_space=space), space, masked=True)


@pytest.mark.parametrize(
    ("space", "dimensions", "choices"),
    [
        (Discrete(4, start=2), 1, 4),
        (MultiDiscrete([3, 5]), 2, 5),
        (MultiDiscrete([[3, 2], [2, 3]], start=[[1, 2], [3, 4]]), 4, 3),
        *((box, 2, 4) for box in BOXES),
    ],
    ids=str,
)
def test_branches(space, dimensions, choices):
    model = BranchingNet(4, dimensions, choices, [8])
    policy = BranchingDQNPolicy(model=model, optim=None, action_space=space)
    policy.set_eps(0.5)
    play(policy, space)
    assert space.contains(policy.compute_action(np.zeros(4, np.float32)))
    assert not [name for name in policy.state_dict() if "exists" in name]
    with pytest.raises(ValueError, match=f"the model has {dimensions + 1} branches"):
        BranchingDQNPolicy(model=BranchingNet(4, dimensions + 1, choices, [8]), optim=None, action_space=space)


def recorded(space, choices):
    """Transitions with masks, whose actions are ``choices``, counted from 0."""
    env = Strict(space, masked=True)
    env.reset(seed=0)
    buffer = ReplayBuffer(len(choices))
    for k, act in enumerate(choices):
        row = {"obs": env.show(), "act": act, "rew": 1.0, "terminated": False, "truncated": k % 7 == 6}
        buffer.add(Batch(row, obs_next=env.show(), info={}))
    return buffer


@pytest.mark.parametrize("space", COUNTED, ids=str)
@pytest.mark.parametrize("name", ["pg", "a2c", "ppo", "npg", "trpo", "il", "discrete-crr"])
def test_illegal_actions_are_not_learned_from(name, space):
    """Their log-probability is minus infinity, and losses and weights would no longer be numbers."""
    if (policy := made(name, space)) is None:
        return
    options = {} if name in ("il", "discrete-crr") else {"batch_size": 8, "repeat": 1}
    legal = [2, 0] * 20 if isinstance(space, Discrete) else [[1, 2], [0, 0]] * 20
    policy.update(0, recorded(space, legal), **options)
    before = {key: value for key, value in policy.state_dict().items() if key != "_extra_state"}
    assert all(torch.isfinite(value).all() for value in before.values())
    for wrong in (1, 3, -1):
        choices = [*legal[:30], wrong if isinstance(space, Discrete) else [0, wrong], *legal[30:]]
        with pytest.raises(ValueError, match=r"row 30 of the sample has the action .* calls illegal"):
            policy.update(0, recorded(space, choices), **options)
        assert all(torch.equal(value, before[key]) for key, value in policy.state_dict().items() if key in before)


@pytest.mark.parametrize("name", ["dqn", "c51", "qrdqn", "discrete-sac", "discrete-cql"])
def test_values_of_illegal_actions_are_learned(name):
    policy = made(name, COUNTED[0])
    policy.update(16, recorded(COUNTED[0], [1, 0] * 20))
    assert all(torch.isfinite(value).all() for key, value in policy.state_dict().items() if key != "_extra_state")
