"""Tianshou 1.0's path to the vector environments."""

from rlfast.env.ray import RayVectorEnv
from rlfast.env.subproc import ShmemVectorEnv, SubprocVectorEnv
from rlfast.env.vector import BaseVectorEnv, DummyVectorEnv

__all__ = ["BaseVectorEnv", "DummyVectorEnv", "RayVectorEnv", "ShmemVectorEnv", "SubprocVectorEnv"]
