"""The names of :mod:`rlfast.utils.progress` under the import path of Tianshou 1.0."""

from rlfast.utils.progress import DummyTqdm, tqdm_config

__all__ = ["DummyTqdm", "tqdm_config"]
