"""Tianshou 1.0's path to wrappers of vector environments."""

from rlfast.env.normalization import VectorEnvNormObs
from rlfast.env.wrappers import VectorEnvWrapper

__all__ = ["VectorEnvNormObs", "VectorEnvWrapper"]
