"""Warnings to callers."""

from __future__ import annotations

import warnings


def deprecation(msg: str) -> None:
    """Warns whoever called the caller that what it did will go away.

    :param msg: says what to do instead.
    """
    warnings.warn(msg, DeprecationWarning, stacklevel=3)
