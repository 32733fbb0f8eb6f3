"""Policies, native environments and collects of both, for comparisons of Rust with Python."""

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from rlfast.data import Collector, VectorReplayBuffer
from rlfast.env import NativeVectorEnv
from rlfast.policy import DDPGPolicy, DiscreteSACPolicy, DQNPolicy, PGPolicy, SACPolicy
from rlfast.utils.net import continuous, discrete
from rlfast.utils.net.common import Net
from rlfast.utils.optim import adam

ENVS = 4
SPACE = gym.spaces.Discrete(2)
LOW = np.array([-2.0], np.float32)
MODES = [None, "NextStep", "SameStep"]


def dqn(eps=0.2, inputs=4) -> DQNPolicy:
    torch.manual_seed(0)
    policy = DQNPolicy(model=Net(inputs, 2, [16]), optim=None, action_space=SPACE)
    policy.seed(3)
    policy.set_eps(eps)
    return policy


def undecided() -> DQNPolicy:
    """A policy whose values are often equal, so that torch must choose."""
    policy = dqn()
    last = policy.model.model.model[-1]
    nn.init.zeros_(last.bias)
    with torch.no_grad():
        last.weight[1] = last.weight[0]
        last.weight[1, :2] += 0.1  # equal where these neurons are silent
    return policy


def pg() -> PGPolicy:
    torch.manual_seed(0)
    actor, dist_fn = discrete.Actor(Net(4, hidden_sizes=[16]), 2), torch.distributions.Categorical
    return PGPolicy(actor=actor, optim=None, dist_fn=dist_fn, action_space=SPACE, action_scaling=False)


def discrete_sac() -> DiscreteSACPolicy:
    torch.manual_seed(0)
    actor = discrete.Actor(Net(4, hidden_sizes=[16]), 2, softmax_output=False)
    nets = {"actor": actor, "critic": discrete.Critic(Net(4, hidden_sizes=[8]), last_size=2)}
    policy = DiscreteSACPolicy(**nets, actor_optim=adam(1e-3), critic_optim=adam(1e-3), action_space=SPACE)
    policy.seed(3)
    return policy


def sac(width=3, kind=SACPolicy, **options) -> SACPolicy:
    torch.manual_seed(0)
    actor = continuous.ActorProb(Net(width, hidden_sizes=[16]), 1, conditioned_sigma=True, unbounded=True)
    return kind(actor=actor, **_critic(width), action_space=gym.spaces.Box(LOW, -LOW), **options)


def deterministic(width=3, kind=DDPGPolicy, low=-0.5, **options) -> DDPGPolicy:
    torch.manual_seed(0)
    actor = continuous.Actor(Net(width, hidden_sizes=[16]), 1)
    space = gym.spaces.Box(np.float32([low]), np.float32([2.0]))
    return kind(actor=actor, **_critic(width), action_space=space, **{"exploration_noise": None, **options})


def _critic(width):
    critic = continuous.Critic(Net(width, 1, hidden_sizes=[8], concat=True))
    return {"critic": critic, "actor_optim": adam(1e-3), "critic_optim": adam(1e-3)}


def cart_poles(mode=None, envs=ENVS) -> NativeVectorEnv:
    """Environments that the collector resets, or that reset themselves."""
    return NativeVectorEnv("CartPole-v1", envs, autoreset_mode=mode)


def seed_spaces(one: Collector) -> list:
    spaces = one.action_space if isinstance(one.action_space, list) else [one.action_space]
    for space in spaces:
        space.seed(5)
    return spaces


def collector(policy, envs, mode="auto", buffer=None, kind=Collector, rows=50, **options) -> Collector:
    buffer = VectorReplayBuffer(len(envs) * rows, len(envs)) if buffer is None else buffer
    return kind(policy, envs, buffer, exploration_noise=True, native_acting=mode, **options)


def left_by(one: Collector, plays, *, streams=False) -> list:
    """Return what collects leave behind, also in the streams of action spaces. All is seeded before."""
    torch.manual_seed(11)
    np.random.seed(11)
    with one:
        one.reset(gym_reset_kwargs={"seed": 1})
        spaces, found = seed_spaces(one), []
        for play in plays:
            stats = play(one)
            found += [stats.returns, stats.lens, stats.n_collected_steps, stats.n_collected_episodes]
            found += [one.collect_step, one.collect_episode, one._episodes.stale.copy()]
        buffer = one.buffer
        found += [getattr(buffer, key) for key in ("obs", "act", "rew", "terminated", "truncated", "obs_next", "done")]
        found += [space.sample() for space in spaces for _ in range(20 * streams)]
        return [*found, buffer.info.env_id, torch.rand(1).numpy(), *[one.policy.rng.random() for _ in range(streams)]]


def same(found: list, wanted: list) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(found, wanted, strict=True))


def collects(*calls):
    """Make plays of collects, each given by its arguments."""
    return [
        lambda one, call=call: (
            one.evaluate(call["evaluate"], call.get("random", False)) if "evaluate" in call else one.collect(**call)
        )
        for call in calls
    ]
