"""Shapes and bounds of spaces."""

import json

import gymnasium as gym
import numpy as np
from tianshou.utils.space_info import ActionSpaceInfo, ObservationSpaceInfo, SpaceInfo

info = SpaceInfo.from_spaces(gym.spaces.Box(-2.0, 3.0, (2, 3)), gym.spaces.Discrete(5))
counted = ActionSpaceInfo.from_space(gym.spaces.Discrete(4, start=2))
try:
    ObservationSpaceInfo.from_space(gym.spaces.MultiBinary(3))
    refused = "none"
except ValueError:
    refused = "ValueError"
print(
    json.dumps(
        {
            "box": [list(info.action_info.action_shape), info.action_info.action_dim, info.action_info.min_action, info.action_info.max_action],
            "discrete": [info.observation_info.obs_shape, info.observation_info.obs_dim],
            "counted": [counted.action_shape, counted.min_action, counted.max_action, str(counted)],
            "refused": refused,
        }
    )
)
