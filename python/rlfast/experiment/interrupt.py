"""Ending a run by Ctrl-C without losing it."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import FrameType


class Interrupt:
    """Turns the first SIGINT or SIGTERM into a flag, so that a run ends where its state is whole; the second raises."""

    _SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.happened = False
        self._before: list[Any] = []

    def check(self) -> None:
        """Raises KeyboardInterrupt if a signal has come."""
        if self.happened:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.check()
        self.happened = True

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # Python lets no other thread
            self._before = [signal.signal(number, self._note) for number in self._SIGNALS]
        return self

    def __exit__(self, *exception: object) -> None:
        for number, before in zip(self._SIGNALS, self._before, strict=False):
            signal.signal(number, before)
