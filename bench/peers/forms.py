"""CartPole with observations of several forms, and networks that only torch computes for them, as users write them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict, MultiBinary
from torch import nn

from bench.peers import tasks

FORMS = ("array", "mask", "hidden", "dict")


class Formed(gymnasium.ObservationWrapper[Any, Any, Any]):
    """CartPole whose observation is a dict of two arrays, or carries a mask of legal actions, which allows all."""

    def __init__(self, form: str) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        self.form = form
        half, whole = Box(-np.inf, np.inf, (2,)), Box(-np.inf, np.inf, (4,))
        self.observation_space = Dict(first=half, last=half) if form == "dict" else Dict(obs=whole, mask=MultiBinary(2))

    def observation(self, observation: Any) -> Any:
        if self.form == "dict":
            return {"first": observation[:2], "last": observation[2:]}
        return {"obs": observation, "mask": np.ones(2, np.int8)}


def make(form: str) -> gymnasium.Env[Any, Any]:
    return Formed(form) if form in ("dict", "mask") else gymnasium.make("CartPole-v1")


class Network(nn.Module):
    """Balances the pole, so that episodes last until their limit. The engine does not know its activation."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.form = form
        first, _, second, _, last = tasks.steady()
        self.first, self.second, self.last = first, second, last
        self.memory = nn.Linear(64, 64)
        nn.init.zeros_(self.memory.weight)
        nn.init.zeros_(self.memory.bias)

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> tuple[torch.Tensor, Any]:  # noqa: ARG002
        if self.form == "dict":
            obs = np.concatenate([obs["first"], obs["last"]], axis=1)
        hidden = nn.functional.softsign(self.first(torch.as_tensor(obs, dtype=torch.float32)))
        if self.form == "hidden":
            before = torch.zeros_like(hidden) if state is None else state["hidden"]
            hidden = hidden + torch.tanh(self.memory(before))
            state = {"hidden": hidden}
        return self.last(nn.functional.softsign(self.second(hidden))), state
