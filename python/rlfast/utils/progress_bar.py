"""Tianshou 1.0's path to what :mod:`rlfast.utils.progress` has."""

from rlfast.utils.progress import DummyTqdm, tqdm_config

__all__ = ["DummyTqdm", "tqdm_config"]
