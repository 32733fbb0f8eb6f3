"""Reaching goals for a reward that says only whether a goal is reached."""

import sys

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from rlfast.data import Collector, HERVectorReplayBuffer, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.experiment.networks import Encoded, Encoder
from rlfast.exploration import GaussianNoise
from rlfast.policy import DDPGPolicy, SACPolicy, TD3Policy
from rlfast.trainer import OffpolicyTrainer
from rlfast.utils.net.common import Net
from rlfast.utils.net.continuous import Actor, ActorProb, Critic
from rlfast.utils.optim import adam

STEPS, NEAR, SPEED = 20, 0.15, 0.25


def reward(achieved, desired):
    return -(np.linalg.norm(achieved - desired, axis=-1) > NEAR).astype(np.float64)


class Reach(gym.Env):
    """Move a point to a place in a cube of side 2: a reward of 0 at the place, and of -1 elsewhere, for 20 steps."""

    def __init__(self):
        places = Box(-1, 1, (3,))
        self.observation_space = gym.spaces.Dict(observation=places, achieved_goal=places, desired_goal=places)
        self.action_space = Box(-1, 1, (3,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.goal = self.np_random.uniform(-1, 1, (2, 3)).astype(np.float32)
        self.left = STEPS
        return self.observe(), {}

    def step(self, action):
        self.place = np.clip(self.place + SPEED * action, -1, 1).astype(np.float32)
        self.left -= 1
        return self.observe(), float(reward(self.place, self.goal)), False, self.left == 0, {}

    def observe(self):
        return {"observation": self.place, "achieved_goal": self.place, "desired_goal": self.goal}


def make_policy(kind):
    space, sizes = Reach().observation_space, [64, 64]
    critic = Encoded(Encoder(space), Critic(Net(9, 3, hidden_sizes=sizes, concat=True)))
    if kind is SACPolicy:
        head, more = ActorProb(Net(9, hidden_sizes=sizes), 3, unbounded=True, conditioned_sigma=True), {"alpha": 0.05}
    else:
        head, more = Actor(Net(9, hidden_sizes=sizes), 3), {"exploration_noise": GaussianNoise(sigma=0.2)}
    return kind(
        actor=Encoded(Encoder(space), head),
        actor_optim=adam(1e-3),
        critic=critic,
        critic_optim=adam(1e-3),
        action_space=Box(-1, 1, (3,)),
        gamma=0.95,
        tau=0.02,
        **more,
    )


def share_solved(kind, seed, hindsight):
    """Return the share of 100 test episodes that end at their goals, after 8,000 steps."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    torch.set_num_threads(1)
    train_envs, test_envs = (DummyVectorEnv([Reach] * number) for number in (8, 20))
    train_envs.seed(seed)
    test_envs.seed(1000 + seed)
    for i, space in enumerate(train_envs.action_space):
        space.seed(seed + i)
    policy = make_policy(kind)
    policy.seed(seed)
    if hindsight:
        buffer = HERVectorReplayBuffer(20_000, 8, compute_reward_fn=reward, horizon=STEPS, future_k=5, seed=seed)
    else:
        buffer = VectorReplayBuffer(20_000, 8, seed=seed)
    OffpolicyTrainer(
        policy,
        1,
        256,
        Collector(policy, train_envs, buffer, exploration_noise=True),
        None,
        step_per_epoch=8_000,
        step_per_collect=8,
        update_per_step=0.5,
        start_timesteps=1_000,
        verbose=False,
        show_progress=False,
    ).run()
    policy.eval()
    collector = Collector(policy, test_envs, VectorReplayBuffer(100 * STEPS, 20))
    collector.collect(n_episode=100)
    stored = collector.buffer[:]
    solved = stored.rew[stored.done]
    return float((solved == 0).mean())


@pytest.mark.learning
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("kind", "seed"), [(DDPGPolicy, 0), (DDPGPolicy, 1), (DDPGPolicy, 2), (TD3Policy, 0), (SACPolicy, 0)]
)
def test_goals_are_reached_with_hindsight(kind, seed):
    share = share_solved(kind, seed, hindsight=True)
    sys.stdout.write(f"{kind.__name__} with hindsight, seed {seed}: {share:.0%} of goals reached\n")
    assert share >= 0.95


@pytest.mark.learning
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(3))
def test_and_not_without_it(seed):
    share = share_solved(DDPGPolicy, seed, hindsight=False)
    sys.stdout.write(f"DDPG without hindsight, seed {seed}: {share:.0%} of goals reached\n")
    assert share < 0.5
