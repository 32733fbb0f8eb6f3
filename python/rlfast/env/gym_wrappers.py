"""Tianshou 1.0's path to what :mod:`rlfast.env.wrappers.vector` has."""

from rlfast.env.wrappers.single import ContinuousToDiscrete, MultiDiscreteToDiscrete, TruncatedAsTerminated

__all__ = ["ContinuousToDiscrete", "MultiDiscreteToDiscrete", "TruncatedAsTerminated"]
