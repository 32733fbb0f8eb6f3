"""Another import path of :class:`rlfast.env.DummyEnvWorker`."""

from rlfast.env.worker import DummyEnvWorker

__all__ = ["DummyEnvWorker"]
