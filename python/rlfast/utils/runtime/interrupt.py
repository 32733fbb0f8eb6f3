"""Handling of SIGINT and SIGTERM during a run."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


class Interrupt:
    """Turns the first SIGINT or SIGTERM into a request to stop, so that a run ends in a consistent state.

    The second signal raises a KeyboardInterrupt.

    :param stop: the function called at the first signal.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self, stop: Callable[[], None]) -> None:
        self.happened = False
        self.aborted = False
        """Whether a second signal ended the run in an inconsistent state."""
        self._stop = stop
        self._before: list[Any] = []

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.happened:
            raise KeyboardInterrupt
        self.happened = True
        self._stop()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # other threads may not handle signals
            self._before = [signal.signal(number, self._note) for number in self._SIGNALS]
        return self

    def __exit__(self, *exception: object) -> None:
        for number, before in zip(self._SIGNALS, self._before, strict=False):
            signal.signal(number, before)
