"""Deprecation warnings."""

from __future__ import annotations

import warnings


def deprecation(msg: str) -> None:
    """Gives a DeprecationWarning at the line that called the caller of this function.

    :param msg: the message, which says what to use instead.
    """
    warnings.warn(msg, DeprecationWarning, stacklevel=3)
