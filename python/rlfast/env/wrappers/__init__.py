"""Wrappers around vector environments and around single ones."""

from rlfast.env.wrappers.normalization import VectorEnvNormObs
from rlfast.env.wrappers.reward_normalization import VectorEnvNormReward
from rlfast.env.wrappers.single import ContinuousToDiscrete, MultiDiscreteToDiscrete, TruncatedAsTerminated
from rlfast.env.wrappers.vector import VectorEnvWrapper

__all__ = [
    "ContinuousToDiscrete",
    "MultiDiscreteToDiscrete",
    "TruncatedAsTerminated",
    "VectorEnvNormObs",
    "VectorEnvNormReward",
    "VectorEnvWrapper",
]
