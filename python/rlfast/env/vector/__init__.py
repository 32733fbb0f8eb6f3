"""Vector environments: one interface over any backend."""

from rlfast.env.vector.arguments import Seeds, VectorStep
from rlfast.env.vector.base import BaseVectorEnv
from rlfast.env.vector.dummy import DummyVectorEnv

__all__ = ["BaseVectorEnv", "DummyVectorEnv", "Seeds", "VectorStep"]
