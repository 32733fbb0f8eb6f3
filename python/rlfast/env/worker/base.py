"""Another import path of :class:`rlfast.env.EnvWorker`."""

from rlfast.env.worker import EnvWorker

__all__ = ["EnvWorker"]
