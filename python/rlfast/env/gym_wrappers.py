"""Tianshou 1.0's path to what :mod:`rlfast.env.wrappers` has."""

from rlfast.env.wrappers import ContinuousToDiscrete, MultiDiscreteToDiscrete, TruncatedAsTerminated

__all__ = ["ContinuousToDiscrete", "MultiDiscreteToDiscrete", "TruncatedAsTerminated"]
