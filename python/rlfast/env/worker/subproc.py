"""Another import path of :class:`rlfast.env.SubprocEnvWorker`."""

from rlfast.env.subproc import SubprocEnvWorker

__all__ = ["SubprocEnvWorker"]
