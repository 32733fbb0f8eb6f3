"""A game of two agents from PettingZoo, in a vector environment."""

import json

import gymnasium as gym
import numpy as np
from pettingzoo.classic import tictactoe_v3
from tianshou.env import DummyVectorEnv, PettingZooEnv

envs = DummyVectorEnv([lambda: PettingZooEnv(tictactoe_v3.env())] * 2)
obs, info = envs.reset()
agents, rewards = [], []
for cells in ([0, 0], [3, 4], [1, 1], [4, 8], [2, 2]):
    agents.append([o["agent_id"] for o in obs])
    obs, rew, terminated, truncated, info = envs.step(np.array(cells))
    rewards.append(rew.tolist())
print(json.dumps({"agents": agents, "rewards": rewards, "over": terminated.tolist(), "mask": [int(np.sum(o["mask"])) for o in obs], "shape": list(np.shape(obs[0]["obs"]))}))
