"""A script that collects with Tianshou 1.0 or rlfast, which have the same names; an iteration is one vector step."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import gymnasium
import numpy as np
import torch

from bench.peers import tasks


def dqn_policy(library: str, task: str) -> Any:
    """Prepares a DQN policy that explores a little."""
    torch.manual_seed(0)
    model = tasks.TianshouNet(task) if task == "image" else own_network(library)
    policy = import_module(f"{library}.policy").DQNPolicy(
        model=model,
        optim=torch.optim.Adam(model.parameters()),
        action_space=gymnasium.spaces.Discrete(tasks.action_count(task)),
        target_update_freq=100,
    )
    policy.set_eps(0.1)
    return policy.eval()


def collector(library: str, env: Any, task: str, size: int) -> Any:
    data = import_module(f"{library}.data")
    policy = dqn_policy(library, task)
    made = data.Collector(policy, env, data.VectorReplayBuffer(size, len(env)), exploration_noise=True)
    made.reset()
    return made


@torch.no_grad()
def own_network(library: str) -> Any:
    """Returns the library's own MLP with the weights that all libraries have."""
    model = import_module(f"{library}.utils.net.common").Net(4, 2, hidden_sizes=[64, 64])
    for own, common in zip(model.parameters(), tasks.steady().parameters(), strict=True):
        own.copy_(common)
    return model


def dummy(library: str, task: str, envs: int, limit: int = 500) -> Any:
    return import_module(f"{library}.env").DummyVectorEnv([lambda: tasks.make(task, limit)] * envs)


def collecting(library: str, env: Any, task: str, size: int) -> dict[str, Any]:
    made = collector(library, env, task, size)
    envs = len(env)

    def policy(count: int) -> None:
        made.collect(n_step=count * envs)

    def random(count: int) -> None:
        made.collect(n_step=count * envs, random=True)

    random(size // envs)  # the buffer is full, and all its memory in RAM
    return {"policy": policy, "random": random}


def evaluating(library: str, env: Any, episodes: int) -> dict[str, Any]:
    made = collector(library, env, "cartpole", len(env))

    def evaluate(count: int) -> None:
        for _ in range(count):
            made.collect(n_episode=episodes)

    return {"evaluate": evaluate}


def choosing(library: str) -> dict[str, Any]:
    """Prepares the choice of an action for one observation."""
    policy, obs = dqn_policy(library, "cartpole"), np.full(4, 0.01, np.float32)

    def choose(count: int) -> None:
        for _ in range(count):
            policy.compute_action(obs)

    return {"choose": choose}
