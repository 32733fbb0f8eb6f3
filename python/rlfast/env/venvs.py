"""Another import path of the vector environments."""

from rlfast.env.ray import RayVectorEnv
from rlfast.env.subproc import ShmemVectorEnv, SubprocVectorEnv
from rlfast.env.vector.base import BaseVectorEnv
from rlfast.env.vector.dummy import DummyVectorEnv

GYM_RESERVED_KEYS = ["metadata", "reward_range", "spec", "action_space", "observation_space"]
"""The attributes that vector environments without an autoreset mode give as lists with one entry per environment."""

__all__ = ["GYM_RESERVED_KEYS", "BaseVectorEnv", "DummyVectorEnv", "RayVectorEnv", "ShmemVectorEnv", "SubprocVectorEnv"]
