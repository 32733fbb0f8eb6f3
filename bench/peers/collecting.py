"""A script that collects with Tianshou 1.0 or rlfast, which have the same names; an iteration is one vector step."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

from bench.peers import tasks


class UsersNetwork(nn.Module):
    """A network as users write it, in a module of their own."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.model = nn.Sequential(*layers)

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> tuple[torch.Tensor, Any]:  # noqa: ARG002
        if not isinstance(obs, torch.Tensor):
            obs = torch.as_tensor(obs, dtype=torch.float32)
        return self.model(obs.view(obs.shape[0], -1)), state


class Residual(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(torch.relu(self.first(x)))


def users_network(kind: str) -> nn.Module:
    """Returns a network of two hidden layers of 64 and one of the kinds "MLP", "LayerNorm", "GELU" and "residual".

    That of the kind "torch" has an operation that only torch computes. With the weights that all libraries have,
    episodes are as long as theirs.
    """
    first, _, second, _, last = tasks.steady()
    if kind == "residual":
        return UsersNetwork(first, Residual(64), last)
    if kind == "LayerNorm":
        return UsersNetwork(first, nn.LayerNorm(64), nn.ReLU(), second, nn.LayerNorm(64), nn.ReLU(), last)
    activation = {"GELU": nn.GELU, "torch": nn.Softsign}.get(kind, nn.ReLU)
    return UsersNetwork(first, activation(), second, activation(), last)


USERS = ("MLP", "LayerNorm", "GELU", "residual")


def dqn_policy(library: str, task: str, kind: str = "") -> Any:
    torch.manual_seed(0)
    model = users_network(kind) if kind else tasks.TianshouNet(task) if task == "image" else own_network(library)
    return policy_with(library, model, tasks.action_count(task))


def policy_with(library: str, model: nn.Module, actions: int) -> Any:
    """Prepares a DQN policy that explores a little."""
    policy = import_module(f"{library}.policy").DQNPolicy(
        model=model,
        optim=torch.optim.Adam(model.parameters()),
        action_space=gymnasium.spaces.Discrete(actions),
        target_update_freq=100,
    )
    policy.set_eps(0.1)
    return policy.eval()


def collector(library: str, env: Any, task: str, size: int, kind: str = "") -> Any:
    return collector_with(library, dqn_policy(library, task, kind), env, size)


def collector_with(library: str, policy: Any, env: Any, size: int) -> Any:
    data = import_module(f"{library}.data")
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


def collecting(library: str, env: Any, task: str, size: int, kind: str = "") -> dict[str, Any]:
    """Prepares collecting by a policy, with the library's network or that of a user, and by random actions."""
    made = collector(library, env, task, size, kind)
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


def choosing(library: str, kind: str = "") -> dict[str, Any]:
    """Prepares the choice of an action for one observation."""
    policy, obs = dqn_policy(library, "cartpole", kind), np.full(4, 0.01, np.float32)

    def choose(count: int) -> None:
        for _ in range(count):
            policy.compute_action(obs)

    return {"choose": choose}
