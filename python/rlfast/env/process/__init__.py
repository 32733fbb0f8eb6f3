"""Environments in worker processes that share memory with their parent."""

from rlfast.env.process.pool import ProcessBackend

__all__ = ["ProcessBackend"]
