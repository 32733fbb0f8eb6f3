"""Starts, watches and ends workers: spawned processes, forked ones, and ones forked by the fork server."""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.context import BaseContext
from pathlib import Path

from rlfast.env.process.channel import Channel, Closed

METHODS = ("forkserver", "spawn", "fork")


class Child(ABC):
    """A worker process, seen from its parent."""

    pid: int

    @abstractmethod
    def poll(self) -> int | None:
        """Returns None while the worker runs; then its exit status, or minus the number of the signal that killed it.

        This also reaps the ended process.
        """

    def kill(self) -> None:
        """Kills the worker, whatever it is doing."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def release(self) -> None:  # noqa: B027 - optional: most subclasses hold no resources
        """Releases the resources held for a worker that was killed; no method is called after this."""

    def join(self, timeout: float) -> bool:
        """Waits up to ``timeout`` seconds for the end of the worker; returns whether it has ended."""
        deadline = time.monotonic() + timeout
        pause = 0.0005
        while self.poll() is None:
            if time.monotonic() > deadline:
                return False
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
        return True


class Spawned(Child):
    """A worker in a new interpreter. It does not import the running script, which thus needs no ``__main__`` guard.

    :param end: the worker's end of the channel.
    :param call: the function that it runs, for example ``rlfast.env.process.worker:main``.
    """

    def __init__(self, end: socket.socket, call: str) -> None:
        module, function = call.split(":")
        code = (
            f"import sys; sys.path[:] = {sys.path!r}\n"
            f"from {module} import {function}; {function}({end.fileno()}, {os.getpid()})"
        )
        # In a new session, the worker does not receive Ctrl-C from the terminal.
        self.process = subprocess.Popen(  # noqa: S603 - the interpreter and the code are not user input
            [sys.executable, "-c", code], pass_fds=[end.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
        )
        self.pid = self.process.pid

    def poll(self) -> int | None:
        return self.process.poll()


class Forked(Child):
    """A worker forked from this process: it has a copy of all objects, but none of the other threads.

    :param run: the function that the worker runs.
    """

    def __init__(self, run: Callable[[], None]) -> None:
        self._status: int | None = None
        parent = os.getpid()
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about threads: fork is used only on request
            self.pid = os.fork()
        if self.pid == 0:
            from rlfast.env.process.worker import exiting, prepare

            with exiting():
                os.setsid()
                prepare(parent)
                run()

    def poll(self) -> int | None:
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status


class Served(Child):
    """A worker forked by the fork server, which has imported rlfast and has none of this process's threads.

    :param end: the worker's end of the channel.
    :param call: the function that it runs, as for :class:`Spawned`.
    :raises Closed: the fork server has ended.
    """

    def __init__(self, end: socket.socket, call: str) -> None:
        self._status: int | None = None
        self._status_pipe, theirs = os.pipe()
        try:
            Server.running().fork(end.fileno(), theirs, call)
        finally:
            os.close(theirs)
        pid = self._read()
        os.set_blocking(self._status_pipe, False)
        if pid is None:
            os.close(self._status_pipe)
            raise Closed("the process that forks workers has ended")
        self.pid = pid

    def _read(self) -> int | None:
        """Reads a number from the fork server; None if the server has ended."""
        data = os.read(self._status_pipe, 4)
        return struct.unpack("<i", data)[0] if data else None

    def poll(self) -> int | None:
        if self._status is None:
            try:
                status = self._read()
            except BlockingIOError:
                return None
            if status is None:  # the server has ended, so nobody knows the exit status
                with suppress(ProcessLookupError):
                    os.kill(self.pid, 0)
                    return None
                status = -int(signal.SIGKILL)
            self._status = status
            os.close(self._status_pipe)
        return self._status

    def release(self) -> None:
        if self._status is None:  # the server has not reported it yet
            self._status = -int(signal.SIGKILL)
            os.close(self._status_pipe)


class Server:
    """The fork server of this process, which is started when the first worker needs it."""

    _current: Server | None = None
    _lock = threading.RLock()

    def __init__(self) -> None:
        self.channel, end = Channel.pair()
        self.owner = os.getpid()
        with end:
            self.child = Spawned(end, "rlfast.env.process.fork_server:main")

    @classmethod
    def running(cls) -> Server:
        """Returns the server of this process, and starts it if needed; a forked child gets a server of its own."""
        with cls._lock:
            server = cls._current
            if server is None or server.owner != os.getpid() or server.child.poll() is not None:
                server = cls._current = Server()
                atexit.register(server.stop)
            return server

    def fork(self, end: int, status_pipe: int, call: str) -> None:
        """Requests a worker with the working directory and the environment variables of this process.

        :param end: the worker's end of its channel.
        :param status_pipe: a pipe to which the server writes the worker's process id, and later its exit status.
        :param call: the function that the worker runs.
        """
        with Server._lock:
            self.channel.send(pickle.dumps((call, sys.path, str(Path.cwd()), dict(os.environ))), [end, status_pipe])

    def stop(self) -> None:
        """Ends the server and all workers that it has forked."""
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


def method_of(context: str | BaseContext | None) -> str:
    """Returns the start method of workers.

    :param context: the name of a start method, a :mod:`multiprocessing` context, or None for ``"forkserver"`` if the
        system can fork, and ``"spawn"`` if not.
    :raises ValueError: the start method is unknown or not available on this system.
    """
    can_fork = hasattr(os, "fork")
    if context is None:
        return "forkserver" if can_fork else "spawn"
    name = context if isinstance(context, str) else context.get_start_method()
    usable = METHODS if can_fork else ("spawn",)
    if name not in usable:
        raise ValueError(f"context must be one of {', '.join(usable)}, or None, got {context!r}")
    return str(name)


def doorbell_by_pipe(doorbell: str | None) -> bool:
    """Whether workers are woken through pipes instead of futexes.

    :param doorbell: ``"futex"``, ``"pipe"``, or None for the environment variable ``RLFAST_DOORBELL`` or the system's
        default.
    :raises ValueError: the name is unknown, or futexes are not available on this system.
    """
    name = doorbell or os.environ.get("RLFAST_DOORBELL") or ("futex" if sys.platform == "linux" else "pipe")
    if name not in {"futex", "pipe"} or (name == "futex" and sys.platform != "linux"):
        raise ValueError(f'doorbell must be "futex" (Linux alone), "pipe" or None, got {name!r}')
    return name == "pipe"
