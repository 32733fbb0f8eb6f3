"""Another import path of :class:`rlfast.env.RayEnvWorker`."""

from rlfast.env.ray import RayEnvWorker

__all__ = ["RayEnvWorker"]
