"""How a worker comes into being, and how it is watched and ended: spawned, forked, forked by a server, or a thread."""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
import time
import warnings
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlfast.env.process.channel import Channel, Closed

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

METHODS = ("forkserver", "spawn", "fork", "thread")


class Child(ABC):
    """A worker as its parent sees it."""

    pid: int | None

    @abstractmethod
    def poll(self) -> int | None:
        """None while it runs; then its exit status, or minus the signal that ended it. Takes its zombie away."""

    @abstractmethod
    def kill(self) -> None:
        """Ends it, whatever it is doing."""

    def release(self) -> None:  # noqa: B027 - most hold nothing
        """Closes what is held for it; it was ended, and nobody asks about it any more."""

    def join(self, timeout: float) -> bool:
        """Waits for its end; whether that came."""
        deadline = time.monotonic() + timeout
        pause = 0.0005
        while self.poll() is None:
            if time.monotonic() > deadline:
                return False
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
        return True


class Spawned(Child):
    """A fresh interpreter, which imports nothing of the running script: it needs no ``__main__`` guard.

    :param end: the worker's end of the channel.
    :param call: what it runs, for example ``rlfast.env.process.worker:main``.
    """

    def __init__(self, end: socket.socket, call: str) -> None:
        module, function = call.split(":")
        code = (
            f"import sys; sys.path[:] = {sys.path!r}\n"
            f"from {module} import {function}; {function}({end.fileno()}, {os.getpid()})"
        )
        # A session of its own: Ctrl-C in the terminal is for the parent alone.
        self.process = subprocess.Popen(  # noqa: S603 - this interpreter, and words of ours
            [sys.executable, "-c", code],
            pass_fds=[end.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.pid = self.process.pid

    def poll(self) -> int | None:
        return self.process.poll()

    def kill(self) -> None:
        self.process.kill()


class Forked(Child):
    """A copy of this process, with everything that it holds and none of its threads.

    :param run: what the copy does.
    """

    def __init__(self, run: Callable[[], None]) -> None:
        self._status: int | None = None
        parent = os.getpid()
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads: who asks for fork by name knows of them
            self.pid = os.fork()
        if self.pid == 0:
            from rlfast.env.process.worker import leaving, prepare

            with leaving():
                os.setsid()
                prepare(parent)
                run()

    def poll(self) -> int | None:
        if self._status is None:
            pid, status = os.waitpid(self.pid or 0, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid or 0, signal.SIGKILL)


class Served(Child):
    """Forked by a server process that has imported what workers need, and has no threads of this process.

    :param end: the worker's end of the channel.
    :param call: what it runs, as for :class:`Spawned`.
    """

    def __init__(self, end: socket.socket, call: str) -> None:
        self._status: int | None = None
        self._status_pipe, theirs = os.pipe()
        try:
            Server.running().fork(end.fileno(), theirs, call)
        finally:
            os.close(theirs)
        self.pid = self._read()
        os.set_blocking(self._status_pipe, False)
        if self.pid is None:
            os.close(self._status_pipe)
            raise Closed("the process that forks workers has ended")

    def _read(self) -> int | None:
        """A number from the server; None when it has gone."""
        data = os.read(self._status_pipe, 4)
        return struct.unpack("<i", data)[0] if data else None

    def poll(self) -> int | None:
        if self._status is None:
            try:
                status = self._read()
            except BlockingIOError:
                return None
            if status is None:  # with the server, its children's statuses are lost
                with suppress(ProcessLookupError):
                    os.kill(self.pid or 0, 0)
                    return None
                status = -int(signal.SIGKILL)
            self._status = status
            os.close(self._status_pipe)
        return self._status

    def kill(self) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid or 0, signal.SIGKILL)

    def release(self) -> None:
        if self._status is None:  # a busy machine: the server has not answered yet
            self._status = -int(signal.SIGKILL)
            os.close(self._status_pipe)


class Server:
    """The process that forks workers; one for this process, started when it is first needed."""

    _current: Server | None = None
    _lock = threading.RLock()

    def __init__(self) -> None:
        self.channel, end = Channel.pair()
        self.owner = os.getpid()
        with end:
            self.child = Spawned(end, "rlfast.env.process.fork_server:main")

    @classmethod
    def running(cls) -> Server:
        """The server of this process; a forked child gets one of its own."""
        with cls._lock:
            server = cls._current
            if server is None or server.owner != os.getpid() or server.child.poll() is not None:
                server = cls._current = Server()
                atexit.register(server.stop)
            return server

    def fork(self, end: int, status_pipe: int, call: str) -> None:
        """Asks for a worker, where this process is and with its environment variables.

        :param end: the worker's end of its channel.
        :param call: what it runs.
        :param status_pipe: a pipe; the server writes the worker's number to it, and its exit status when it has ended.
        """
        with Server._lock:
            self.channel.send(pickle.dumps((call, sys.path, str(Path.cwd()), dict(os.environ))), [end, status_pipe])

    def stop(self) -> None:
        """Ends the server, and with it what it has forked."""
        if self.owner == os.getpid():
            self.channel.close()
            if not self.child.join(1.0):
                self.child.kill()
                self.child.join(1.0)


def _forget_server() -> None:
    Server._lock = threading.RLock()  # noqa: SLF001
    Server._current = None  # noqa: SLF001


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_server)


class Threaded(Child):
    """A thread: for Python without a global lock. What kills it kills the whole process, and nobody can kill it."""

    pid = None

    def __init__(self, run: Callable[[], None]) -> None:
        self.thread = threading.Thread(target=run, name="rlfast-env-worker", daemon=True)
        self.thread.start()

    def poll(self) -> int | None:
        return None if self.thread.is_alive() else 0

    def kill(self) -> None:
        """Nothing can."""


def has_gil() -> bool:
    """Whether one thread at a time runs Python here."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def method_of(context: Any, *, isolated: bool = True) -> str:
    """The start method that ``context`` names.

    :param context: a name, a :mod:`multiprocessing` context, or None: ``thread``, where Python has no global lock and
        workers need not be ``isolated``; else ``forkserver``, where the system can fork, or ``spawn``.
    :param isolated: whether it must be possible to end a worker, whatever it is doing.
    :raises ValueError: it is unknown here.
    """
    if context is None:
        if not (isolated or has_gil()):
            return "thread"
        return "forkserver" if hasattr(os, "fork") else "spawn"
    name = context if isinstance(context, str) else context.get_start_method()
    usable = METHODS if hasattr(os, "fork") else ("spawn", "thread")
    if name not in usable:
        raise ValueError(f"context must be one of {', '.join(usable)}, or None, got {context!r}")
    return str(name)


def doorbell_by_pipe(doorbell: str | None) -> bool:
    """Whether bells are pipes."""
    name = doorbell or os.environ.get("RLFAST_DOORBELL") or ("futex" if sys.platform == "linux" else "pipe")
    if name not in {"futex", "pipe"} or (name == "futex" and sys.platform != "linux"):
        raise ValueError(f'doorbell must be "futex" (Linux alone), "pipe" or None, got {name!r}')
    return name == "pipe"
