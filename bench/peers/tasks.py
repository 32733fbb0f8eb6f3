"""Environments and networks that all libraries use."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

IMAGE = (4, 84, 84)


class Frames(gymnasium.Env[Any, Any]):
    """An environment whose step only copies a stack of frames, with episodes of 500 steps."""

    observation_space = gymnasium.spaces.Box(0, 255, IMAGE, np.uint8)
    action_space = gymnasium.spaces.Discrete(6)

    def __init__(self) -> None:
        self.frames = np.random.default_rng(0).integers(0, 256, (16, *IMAGE), np.uint8)
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:  # noqa: ARG002
        self.steps = 0
        return self.frames[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # noqa: ARG002
        self.steps += 1
        return self.frames[self.steps % 16], 1.0, False, self.steps == 500, {}


def make(task: str, limit: int = 500) -> gymnasium.Env[Any, Any]:
    return Frames() if task == "image" else gymnasium.make("CartPole-v1", max_episode_steps=limit)


def action_count(task: str) -> int:
    return 6 if task == "image" else 2


def network(task: str) -> nn.Module:
    """Returns a network of action values, ``[B, A]``: NatureCNN, or an MLP [64, 64] that balances the pole."""
    return nature_cnn() if task == "image" else steady()


def nature_cnn(actions: int = 6) -> nn.Module:
    return nn.Sequential(
        Scaled(),
        nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU(),
        nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, actions),
    )  # fmt: skip


class Scaled(nn.Module):
    """Scales bytes to [0, 1]."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return obs.float() / 255


@torch.no_grad()
def steady() -> nn.Sequential:
    """Returns an MLP [64, 64] of which two neurons balance the pole, so that episodes last until their limit."""
    first, second, last = nn.Linear(4, 64), nn.Linear(64, 64), nn.Linear(64, 2)
    lean = torch.tensor([0.0, 0.0, 1.0, 1.0])  # the angle and its speed: to which side the pole falls
    first.weight[:2], first.bias[:2] = torch.stack([lean, -lean]), 0.0
    second.weight[:2], second.bias[:2] = torch.eye(2, 64), 0.0
    last.weight[:, :2] = torch.tensor([[-1e3, 1e3], [1e3, -1e3]])
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), last)


class TianshouNet(nn.Module):
    """The network with the arguments and results of networks in Tianshou and rlfast."""

    def __init__(self, task: str) -> None:
        super().__init__()
        self.net = network(task)

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> tuple[torch.Tensor, Any]:  # noqa: ARG002
        return self.net(torch.as_tensor(obs)), state
