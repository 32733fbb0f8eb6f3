"""Exceptions of environments that fail, and of calls that a vector environment cannot serve in its present state."""

from __future__ import annotations

from typing import Any

from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError, ResetNeeded


class EnvFailure(RuntimeError):
    """An environment in a worker raised an exception, in its constructor, ``reset``, ``step`` or another method.

    The exception is the ``__cause__`` if it can be pickled; ``traceback`` has its text in any case. The failure is then
    an instance of the exception's class as well: if the environment raised a ``ValueError``, ``except ValueError``
    catches the failure.

    :param text: the whole message.
    :param env_id: the number of the environment.
    :param phase: what failed: ``"step"``, ``"reset"``, ``"constructor"`` or the name of a method.
    :param action: the action of the failed step; None for other phases.
    :param lost: the numbers of all environments whose episodes this failure ended; they must be reset.
    :param traceback: the traceback of the exception as text; empty if it is not known.
    """

    def __init__(
        self,
        text: str,
        *,
        env_id: int,
        phase: str,
        action: object = None,
        lost: tuple[int, ...] = (),
        traceback: str = "",
    ) -> None:
        super().__init__(text)
        self.env_id, self.phase, self.action = env_id, phase, action
        self.lost = lost or (env_id,)
        self.traceback = traceback

    @classmethod
    def by(cls, cause: BaseException | None, text: str, **where: Any) -> EnvFailure:
        """Makes the failure that an exception caused; its class is a subclass of the exception's class if possible.

        :param cause: the exception; None if it is not known.
        :param text: the whole message.
        :param where: the other parameters of the constructor.
        :return: the failure, whose cause is ``cause``.
        """
        failure: EnvFailure | None = None
        if isinstance(cause, Exception) and not isinstance(cause, StopIteration | StopAsyncIteration):
            try:
                failure = _joint_class(type(cause))(text, **where)
                failure = failure if str(failure) == text and failure.env_id == where["env_id"] else None
            except BaseException:
                failure = None
        failure = failure or cls(text, **where)
        failure.__cause__ = cause
        return failure

    def __str__(self) -> str:  # str() of a KeyError, which may be a base class, would put quotes around the text
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        kind = next(one for one in type(self).__mro__ if one in (WorkerDied, EnvFailure))
        return _unpickled, (kind, self.args[0], self.__dict__, self.__cause__)


class WorkerDied(EnvFailure, EOFError):
    """A worker process ended, or exceeded the ``step_timeout`` and was killed; all its environments are lost.

    It is also an ``EOFError``, which Gymnasium raises when the pipe to a worker is closed.

    :param text: the whole message.
    :param exitcode: the exit status of the process, or minus the number of the signal that killed it; None if unknown.
    :param signal: the name of the signal; None if the process was not killed by a signal.
    :param timeout: the ``step_timeout`` that was exceeded, in seconds; None otherwise.
    :param where: the other parameters of :class:`EnvFailure`.
    """

    def __init__(
        self, text: str, *, exitcode: int | None, signal: str | None, timeout: float | None = None, **where: Any
    ) -> None:
        super().__init__(text, **where)
        self.exitcode, self.signal, self.timeout = exitcode, signal, timeout


def _joint_class(kind: type[Exception]) -> type[EnvFailure]:
    """Returns a subclass of :class:`EnvFailure` and of ``kind``."""
    if issubclass(EnvFailure, kind):
        return EnvFailure
    return type("EnvFailure", (EnvFailure, kind), {"__module__": __name__, "__doc__": EnvFailure.__doc__})


def _unpickled(kind: type[EnvFailure], text: str, where: dict[str, Any], cause: BaseException | None) -> EnvFailure:
    given = {key: value for key, value in where.items() if key != "__notes__"}
    failure = kind(text, **given) if kind is WorkerDied else kind.by(cause, text, **given)
    failure.__dict__.update(where)
    return failure


class ClosedEnvsError(ClosedEnvironmentError, RuntimeError, AssertionError):
    """The vector environment is closed.

    It is also an ``AssertionError``, which older scripts catch.
    """


class NoEpisodeError(ResetNeeded, RuntimeError, AssertionError):
    """A step was requested for environments that must be reset first.

    It is also an ``AssertionError``, which Gymnasium raises in this case.
    """


class PendingError(AlreadyPendingCallError, RuntimeError, AssertionError):
    """A call was made while an earlier call is pending, whose result must be received first.

    It is also an ``AssertionError``, which older scripts catch.

    :param name: the pending call: ``"step"``, ``"reset"`` or ``"call"``.
    """


class NothingPendingError(NoAsyncCallError, RuntimeError):
    """A result was requested, but no call is pending.

    :param name: the call that was not made: ``"step"``, ``"reset"`` or ``"call"``.
    """
