"""A DQN script for Tianshou 1.0 and rlfast, which have the same names."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import gymnasium
import torch

BATCH, WARM_UP, BUFFER = 64, 1000, 20_000


def training(library: str, envs: int, hidden: list[int], buffers: str = "") -> dict[str, Any]:
    """Prepares training with the settings of Tianshou's CartPole test; an iteration is one vector step and one update.

    :param buffers: the module of the buffer; default the library's own.
    """
    data, env, policies = (import_module(f"{library}.{name}") for name in ("data", "env", "policy"))
    network = import_module(f"{library}.utils.net.common").Net
    torch.manual_seed(0)
    train_envs = env.DummyVectorEnv([lambda: gymnasium.make("CartPole-v1") for _ in range(envs)])
    model = network(state_shape=4, action_shape=2, hidden_sizes=hidden)
    policy = policies.DQNPolicy(
        model=model,
        optim=torch.optim.Adam(model.parameters(), lr=1e-3),
        action_space=gymnasium.spaces.Discrete(2),
        discount_factor=0.9,
        estimation_step=3,
        target_update_freq=320,
    )
    buffer = (import_module(buffers) if buffers else data).VectorReplayBuffer(BUFFER, envs)
    collector = data.Collector(policy, train_envs, buffer, exploration_noise=True)
    collector.reset()
    policy.set_eps(0.1)
    collector.collect(n_step=WARM_UP)
    policy.train()

    def run(count: int) -> None:
        for _ in range(count):
            collector.collect(n_step=envs)
            policy.update(BATCH, buffer)

    return {"train": run}
