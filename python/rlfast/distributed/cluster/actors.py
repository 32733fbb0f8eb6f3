"""Actors: objects whose methods are called in another process, one call after the other.

What is built on them knows only these classes. :mod:`rlfast.distributed.cluster.ray_cluster` runs them in Ray; here
they run in this process, for tests, and for looking into a run with a debugger.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import Any

IN_PROCESS = "in-process"
"""The address of actors in this process."""


class ActorLost(RuntimeError):
    """An actor's process has ended, or its machine cannot be reached."""


class Call(ABC):
    """A call of an actor's method, which may not have ended."""

    @abstractmethod
    def result(self) -> Any:
        """Waits, and returns what the method returned.

        :raises ActorLost: if the actor is gone. What the method raised is raised here, too.
        """


class Shared(ABC):
    """A value that was put where all actors can read it."""

    @abstractmethod
    def get(self) -> Any:
        """Returns the value."""


class Actor(ABC):
    """An object in another process."""

    @abstractmethod
    def call(self, method: str, *args: Any) -> Call:
        """Starts a call. The calls of one caller are made in their order.

        :param method: name of the method.
        :param args: its arguments.
        """

    @abstractmethod
    def kill(self) -> None:
        """Ends the actor at once."""


class Cluster(ABC):
    """Where actors are started."""

    @abstractmethod
    def start(self, kind: type, *args: Any) -> Actor:
        """Starts an actor.

        :param kind: the class of its object.
        :param args: arguments of the constructor, which runs in the actor.
        """

    @abstractmethod
    def share(self, value: object) -> Shared:
        """Puts a value where all actors can read it.

        :param value: the value, which must not change afterwards.
        """

    @abstractmethod
    def wait(self, calls: Sequence[Call], timeout: float | None = None) -> list[Call]:
        """Waits until at least one call has ended.

        :param calls: the calls.
        :param timeout: seconds to wait at most; None for no limit.
        :return: those that have ended, in the order of ``calls``; none after the timeout.
        """

    def gauge(self, name: str, value: float) -> None:  # noqa: B027 (most clusters show nothing)
        """Shows a number on the cluster's dashboard, if it has one.

        :param name: name of the number.
        :param value: its value.
        """

    @abstractmethod
    def close(self) -> None:
        """Ends all actors that were started here."""


_numbers = count()


class _HereCall(Call):
    def __init__(self, actor: _HereActor, method: str, args: tuple[Any, ...]) -> None:
        self.number = next(_numbers)
        self._actor, self._what = actor, (method, args)
        self.is_done = False
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        method, args = self._what
        try:
            self._result = getattr(self._actor.target, method)(*args)
        except Exception as error:  # is raised to who asks for the result, as from another process
            self._error = error
        self.is_done = True

    def run_in_turn(self) -> None:
        """Runs the oldest call of the actor, which may be another one."""
        self._actor.run_next()

    def fail(self, error: BaseException) -> None:
        self._error, self.is_done = error, True

    def result(self) -> Any:
        while not self.is_done:
            self.run_in_turn()
        if self._error is not None:
            raise self._error
        return self._result


class _HereActor(Actor):
    def __init__(self, target: object) -> None:
        self.target, self._is_alive = target, True
        self._waiting: deque[_HereCall] = deque()

    def call(self, method: str, *args: Any) -> Call:
        call = _HereCall(self, method, args)
        if self._is_alive:
            self._waiting.append(call)
        else:
            call.fail(ActorLost("the actor was killed"))
        return call

    def run_next(self) -> None:
        self._waiting.popleft().run()

    def kill(self) -> None:
        self._is_alive = False
        while self._waiting:
            self._waiting.popleft().fail(ActorLost("the actor was killed"))


class _HereShared(Shared):
    def __init__(self, value: object) -> None:
        self._value = value

    def get(self) -> Any:
        return self._value


class InProcessCluster(Cluster):
    """Actors in this process. A call runs when somebody waits for it, after the calls before it of the same actor."""

    def __init__(self) -> None:
        self.actors: list[_HereActor] = []

    def start(self, kind: type, *args: Any) -> Actor:
        """Starts an actor; see :meth:`Cluster.start`."""
        actor = _HereActor(kind(*args))
        self.actors.append(actor)
        return actor

    def share(self, value: object) -> Shared:
        """Keeps a value; see :meth:`Cluster.share`."""
        return _HereShared(value)

    def wait(self, calls: Sequence[Call], timeout: float | None = None) -> list[Call]:  # noqa: ARG002
        """Runs the call that was made first; see :meth:`Cluster.wait`."""
        here = [call for call in calls if isinstance(call, _HereCall)]
        while here and not any(call.is_done for call in here):
            min(here, key=lambda call: call.number).run_in_turn()
        return [call for call in here if call.is_done]

    def close(self) -> None:
        """Ends all actors, and closes what has a method ``close``."""
        for actor in self.actors:
            actor.kill()
            if callable(close := getattr(actor.target, "close", None)):
                close()
        self.actors.clear()
