"""Another import path of the wrappers of single environments."""

from rlfast.env.wrappers.single import ContinuousToDiscrete, MultiDiscreteToDiscrete, TruncatedAsTerminated

__all__ = ["ContinuousToDiscrete", "MultiDiscreteToDiscrete", "TruncatedAsTerminated"]
