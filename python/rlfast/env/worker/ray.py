"""Tianshou 1.0's path to what :mod:`rlfast.env.ray` has."""

from rlfast.env.ray import RayEnvWorker

__all__ = ["RayEnvWorker"]
