"""The command ``rlfast``."""

from rlfast.cli.main import main

__all__ = ["main"]
