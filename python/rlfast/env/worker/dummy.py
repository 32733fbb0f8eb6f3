"""Tianshou 1.0's path to what :mod:`rlfast.env.worker` has."""

from rlfast.env.worker import DummyEnvWorker

__all__ = ["DummyEnvWorker"]
