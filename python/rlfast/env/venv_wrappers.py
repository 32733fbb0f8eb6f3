"""Another import path of the wrappers of vector environments."""

from rlfast.env.wrappers.normalization import VectorEnvNormObs
from rlfast.env.wrappers.vector import VectorEnvWrapper

__all__ = ["VectorEnvNormObs", "VectorEnvWrapper"]
