"""Warnings at the lines of users."""

from __future__ import annotations

import sys
import warnings

_LIBRARIES = ("rlfast", "torch")


def warn_user(message: str) -> None:
    """Gives a warning at the nearest line of the stack that is neither in rlfast nor in torch.

    :param message: the message.
    """
    level, frame = 2, sys._getframe(1)  # noqa: SLF001
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _LIBRARIES:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


def deprecation(msg: str) -> None:
    """Gives a DeprecationWarning at the line that called the caller of this function.

    :param msg: the message, which says what to use instead.
    """
    warnings.warn(msg, DeprecationWarning, stacklevel=3)
