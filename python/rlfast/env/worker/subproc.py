"""Tianshou 1.0's path to what :mod:`rlfast.env.subproc` has."""

from rlfast.env.subproc import SubprocEnvWorker

__all__ = ["SubprocEnvWorker"]
