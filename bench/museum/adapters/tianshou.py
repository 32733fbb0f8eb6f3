"""Tianshou 1.0 and 2.0, whose buffers, collectors and vector environments have the same names."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import tianshou
import torch
from tianshou import data, env
from tianshou.utils import RunningMeanStd
from torch import nn
from torch.distributions import Independent, Normal

from bench.museum.adapters.tianshou_names import Normalizer, Shared, publish
from bench.museum.operations.rows import episodes
from bench.museum.operations.scripted import Counter

FIRST = tianshou.__version__.startswith("1.")
if FIRST:
    from tianshou.policy import BasePolicy as Policy
    from tianshou.policy import MultiAgentPolicyManager, PPOPolicy, RandomPolicy, TRPOPolicy
    from tianshou.policy.base import BasePolicy as Returns
    from tianshou.utils.net.common import Net
    from tianshou.utils.net.continuous import ActorProb, Critic
else:
    from tianshou.algorithm.algorithm_base import Algorithm as Returns
    from tianshou.algorithm.algorithm_base import Policy
    from tianshou.algorithm.modelfree.ppo import PPO
    from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
    from tianshou.algorithm.modelfree.trpo import TRPO
    from tianshou.algorithm.multiagent.marl import MultiAgentOffPolicyAlgorithm
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.algorithm.random import MARLRandomDiscreteMaskedOffPolicyAlgorithm
    from tianshou.utils.lagged_network import polyak_parameter_update
    from tianshou.utils.net.common import Net
    from tianshou.utils.net.continuous import ContinuousActorProbabilistic as ActorProb
    from tianshou.utils.net.continuous import ContinuousCritic as Critic


def versions() -> dict[str, str]:
    return {
        "tianshou": tianshou.__version__,
        "numpy": np.__version__,
        "torch": torch.__version__,
        "gymnasium": gym.__version__,
    }


class Constant(Policy):
    """Always the same action."""

    def __init__(self, environment: Any, value: float) -> None:
        space = environment.action_space
        super().__init__(action_space=space, action_scaling=isinstance(space, gym.spaces.Box))
        self.value = value

    def forward(self, batch: Any, state: Any = None, **kwargs: Any) -> Any:
        if isinstance(self.action_space, gym.spaces.Box):
            return data.Batch(
                act=np.full((len(batch.obs), *self.action_space.shape), self.value, np.float32), state=state
            )
        return data.Batch(act=np.full(len(batch.obs), int(self.value)), state=state)

    def learn(self, batch: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def make_collector(policy: Any, envs: Any, buffer: Any) -> Any:
    collector = data.Collector(policy, envs, buffer)
    if not FIRST:  # the constructor of the first resets
        collector.reset()
    return collector


def normalizer(size: int) -> Normalizer:
    return Normalizer(RunningMeanStd)


def polyak(target: nn.Module, source: nn.Module, tau: float) -> None:
    if FIRST:
        Constant(type("Any", (), {"action_space": gym.spaces.Discrete(2)}), 0).soft_update(target, source, tau)
    else:
        polyak_parameter_update(target, source, tau)


def as_distribution(given: Any, *more: Any) -> Any:
    return Independent(Normal(*(given if isinstance(given, tuple) else (given, *more))), 1)


def on_policy(name: str, **options: Any) -> tuple[Any, Any]:
    """Returns an algorithm and the module with its weights."""
    torch.manual_seed(0)
    box = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    if FIRST:
        actor, critic = ActorProb(Net(1, hidden_sizes=[8]), 1), Critic(Net(1, hidden_sizes=[8]))
        parts = [*critic.parameters()] + ([*actor.parameters()] if name == "PPO" else [])
        adam = torch.optim.Adam(parts, lr=1e-3)
        kind = PPOPolicy if name == "PPO" else TRPOPolicy
        policy = kind(actor=actor, critic=critic, optim=adam, dist_fn=as_distribution, action_space=box, **options)
        return policy, policy
    actor = ActorProb(preprocess_net=Net(state_shape=1, hidden_sizes=[8]), action_shape=1)
    critic = Critic(preprocess_net=Net(state_shape=1, hidden_sizes=[8]))
    policy = ProbabilisticActorPolicy(actor=actor, dist_fn=as_distribution, action_space=box)
    kind = PPO if name == "PPO" else TRPO
    algorithm = kind(policy=policy, critic=critic, optim=AdamOptimizerFactory(lr=1e-3), **options)
    return algorithm, algorithm


def updated(algorithm: Any, steps: int, batch_size: int, repeat: int) -> Any:
    buffer, random = data.ReplayBuffer(steps), np.random.default_rng(0)
    for step in range(steps):
        values = {"obs": random.normal(size=1), "act": random.normal(size=1), "obs_next": random.normal(size=1)}
        values = {key: value.astype(np.float32) for key, value in values.items()}
        buffer.add(data.Batch(**values, rew=float(step), terminated=False, truncated=False, info={}))
    if FIRST:
        return algorithm.update(0, buffer, batch_size=batch_size, repeat=repeat)
    algorithm.policy.is_within_training_step = True  # its trainer sets it
    return algorithm.update(buffer, batch_size=batch_size, repeat=repeat)


def ppo_stays_finite(steps: int, batch_size: int) -> bool:
    algorithm, weights = on_policy("PPO", advantage_normalization=True)
    updated(algorithm, steps, batch_size, 2)
    return all(bool(torch.isfinite(weight).all()) for weight in weights.parameters())


def trpo_kl(limit: float) -> float:
    algorithm, _ = on_policy("TRPO", max_kl=limit)
    return float(updated(algorithm, 64, 64, 1).kl.mean)


def agents_turns(lives: list[int]) -> list[int]:
    game, environment = shared.agents_game(lives)
    game.turns.update(dict.fromkeys(game.turns, 0))
    space = gym.spaces.Discrete(2)
    if FIRST:
        policy = MultiAgentPolicyManager(policies=[RandomPolicy(action_space=space) for _ in lives], env=environment)
    else:
        agents = [MARLRandomDiscreteMaskedOffPolicyAlgorithm(action_space=space) for _ in lives]
        policy = MultiAgentOffPolicyAlgorithm(algorithms=agents, env=environment).policy
    make_collector(policy, env.DummyVectorEnv([lambda: environment]), None).collect(n_episode=1)
    return list(game.turns.values())


def warm() -> None:
    """Compiles what Numba compiles once for all cases, so that it is not done again in the process of each."""
    rows = episodes("..T..")
    for prioritized in (False, True):
        list(shared.nstep(4, rows, 2, 0.9, lambda obs: obs, prioritized))
    stacked = shared.replay(4, rows[0], stack=2)
    for row in rows:
        stacked.add(row)
    stacked.sample(8)
    list(shared.collected_statistics(env.DummyVectorEnv([Counter] * 2), 4))
    data.SegmentTree(4)[np.arange(2)] = np.ones(2)
    shared.gae(*(np.zeros((2, 2)),) * 3, *(np.zeros((2, 2), bool),) * 2, 0.9, 0.9)


shared = Shared(data, env, Returns, Constant, make_collector)
publish(shared, globals())
warm()
