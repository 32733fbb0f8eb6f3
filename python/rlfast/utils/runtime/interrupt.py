"""Handling of SIGINT, SIGTERM and SIGHUP during a run."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


class Interrupt:
    """Turns the first SIGINT, SIGTERM or SIGHUP (of a terminal that closes) into a request to stop, so that a run ends
    in a consistent state.

    A SIGHUP that is ignored, as by ``nohup``, stays ignored. The second signal raises a KeyboardInterrupt.

    :param stop: the function called at the first signal.
    """

    _SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))

    def __init__(self, stop: Callable[[], None]) -> None:
        self.happened = False
        self.aborted = False
        """Whether a second signal ended the run in an inconsistent state."""
        self._stop = stop
        self._before: dict[signal.Signals, Any] = {}

    def _note(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.happened:
            raise KeyboardInterrupt
        self.happened = True
        self._stop()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # other threads may not handle signals
            for number in self._SIGNALS:
                if number.name != "SIGHUP" or signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
