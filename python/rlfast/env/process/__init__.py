"""A backend whose environments run in worker processes that share memory with the parent process."""

from rlfast.env.process.pool import ProcessBackend

__all__ = ["ProcessBackend"]
