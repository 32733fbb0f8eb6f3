"""What is raised when an environment in a worker fails."""

from __future__ import annotations

from typing import Any


class EnvFailure(RuntimeError):
    """An environment in a worker raised, in its constructor, ``reset``, ``step`` or another method.

    What it raised is the ``__cause__``, where it can be carried over; ``traceback`` has the text in any case.

    :param text: the whole message.
    :param env_id: the environment that was at work.
    :param phase: what it was doing: ``"step"``, ``"reset"``, ``"constructor"`` or the name of a method.
    :param action: the action of its last step; None outside ``step``.
    :param lost: all environments whose episode is over by this; they must be reset.
    :param traceback: where it happened, as text; empty where nobody could say.
    """

    def __init__(
        self,
        text: str,
        *,
        env_id: int,
        phase: str,
        action: Any = None,
        lost: tuple[int, ...] = (),
        traceback: str = "",
    ) -> None:
        super().__init__(text)
        self.env_id = env_id
        self.phase = phase
        self.action = action
        self.lost = lost or (env_id,)
        self.traceback = traceback


class WorkerDied(EnvFailure):
    """The process that an environment lived in ended, or hung and was ended; all its environments are lost.

    :param exitcode: its exit status; minus the number of the signal that killed it.
    :param signal: that signal's name; None where it left by itself.
    :param timeout: the ``step_timeout`` that was exceeded; None where it did not hang.
    """

    def __init__(
        self, text: str, *, exitcode: int | None, signal: str | None, timeout: float | None = None, **where: Any
    ) -> None:
        super().__init__(text, **where)
        self.exitcode = exitcode
        self.signal = signal
        self.timeout = timeout
