"""What is raised when environments fail, or are asked what they cannot do now."""

from __future__ import annotations

from typing import Any

from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError, ResetNeeded


class EnvFailure(RuntimeError):
    """An environment in a worker raised, in its constructor, ``reset``, ``step`` or another method.

    What it raised is the ``__cause__``, where it can be carried over; ``traceback`` has the text in any case. The
    failure then belongs to the class of its cause as well: ``except ValueError`` catches it where a ``ValueError`` was
    raised.

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

    @classmethod
    def by(cls, cause: BaseException | None, text: str, **where: Any) -> EnvFailure:
        """The failure that ``cause`` led to, of a class that is kin to it; None where the cause is unknown."""
        failure: EnvFailure | None = None
        if isinstance(cause, Exception) and not isinstance(cause, StopIteration | StopAsyncIteration):
            try:
                failure = _kin(type(cause))(text, **where)
            except Exception:  # a class with a layout or a constructor of its own
                failure = None
        failure = failure or cls(text, **where)
        failure.__cause__ = cause
        return failure

    def __str__(self) -> str:  # KeyError, which it may be as well, would put quotes around the text
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        kind = next(one for one in type(self).__mro__ if one in (WorkerDied, EnvFailure))
        return _unpickled, (kind, self.args[0], self.__dict__, self.__cause__)


class WorkerDied(EnvFailure, EOFError):
    """The process that an environment lived in ended, or hung and was ended; all its environments are lost.

    It is an ``EOFError`` as well: so Gymnasium and Tianshou say that a pipe to a worker is closed.

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


def _kin(kind: type[Exception]) -> type[EnvFailure]:
    """Failures that are of ``kind`` as well."""
    if issubclass(EnvFailure, kind):
        return EnvFailure
    return type("EnvFailure", (EnvFailure, kind), {"__module__": __name__, "__doc__": EnvFailure.__doc__})


def _unpickled(kind: type[EnvFailure], text: str, where: dict[str, Any], cause: BaseException | None) -> EnvFailure:
    given = {key: value for key, value in where.items() if key != "__notes__"}
    failure = kind(text, **given) if kind is WorkerDied else kind.by(cause, text, **given)
    failure.__dict__.update(where)
    return failure


class ClosedEnvsError(ClosedEnvironmentError, RuntimeError):
    """The vector environment is closed."""


class NoEpisodeError(ResetNeeded, RuntimeError, AssertionError):
    """Environments were asked to step, and must be reset first; Gymnasium asserts that they need not."""


class PendingError(AlreadyPendingCallError, RuntimeError):
    """Environments are busy with what they were asked before.

    :param name: with what: ``"step"``, ``"reset"`` or ``"call"``.
    """


class NothingPendingError(NoAsyncCallError, RuntimeError):
    """An answer is waited for, and nothing was asked.

    :param name: what was not asked: ``"step"``, ``"reset"`` or ``"call"``.
    """
