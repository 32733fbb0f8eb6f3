"""The fork server: a process that forks workers. It has imported rlfast, so a worker starts in milliseconds."""

from __future__ import annotations

import os
import pickle
import select
import signal
import socket
import struct
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module

from rlfast.env.process.channel import Channel, Closed
from rlfast.env.process.worker import exiting

_NUMBER = struct.Struct("<i")
_LOOK = 1.0  # seconds between checks for the parent, whose end of the socket may be open in a process that it forked


class Server:
    """Forks workers for the process ``parent``, and reports their exit statuses to it."""

    def __init__(self, channel: Channel, parent: int) -> None:
        self.channel, self.parent = channel, parent
        self.children: dict[int, int] = {}  # process id to the pipe for its exit status
        self.woken, waker = os.pipe()
        for end in (self.woken, waker):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(waker)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self) -> None:
        """Serves requests until the parent closes the channel or ends.

        :raises Closed: the parent has closed the channel or ended.
        """
        requests = self.channel.socket.fileno()
        while os.getppid() == self.parent:
            ready, _, _ = select.select([requests, self.woken], [], [], _LOOK)
            if self.woken in ready:
                os.read(self.woken, 4096)
            self.reap()
            if requests in ready:
                message, (end, status_pipe) = self.channel.receive()
                self.fork(end, status_pipe, *pickle.loads(message))  # noqa: S301
        raise Closed("the parent has ended")

    def reap(self) -> None:
        """Reaps worker processes that have ended, and reports their exit statuses."""
        for pid in list(self.children):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self.report(self.children[pid], os.waitstatus_to_exitcode(status))
                os.close(self.children.pop(pid))

    def report(self, status_pipe: int, number: int) -> None:
        """Writes a number to a pipe; a pipe without a reader is ignored."""
        with suppress(BrokenPipeError):
            os.write(status_pipe, _NUMBER.pack(number))

    def fork(
        self, end: int, status_pipe: int, call: str, path: Sequence[str], folder: str, environ: Mapping[str, str]
    ) -> None:
        """Forks a process that runs a function.

        :param end: descriptor of the process's end of its channel.
        :param status_pipe: descriptor of the pipe to which its process id and later its exit status are written.
        :param call: the function, as ``"module:name"``.
        :param path: its ``sys.path``.
        :param folder: its working directory.
        :param environ: its environment variables.
        """
        pid = os.fork()
        if pid == 0:
            with exiting():
                for inherited in (status_pipe, *self.children.values()):
                    os.close(inherited)
                self.channel.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                sys.path[:] = path
                with suppress(OSError):
                    os.chdir(folder)
                os.environ.clear()
                os.environ.update(environ)
                module, function = call.split(":")
                getattr(import_module(module), function)(end, self.parent)
        os.close(end)
        self.children[pid] = status_pipe
        self.report(status_pipe, pid)


def main(descriptor: int, parent: int) -> None:
    """Runs the fork server of the process ``parent``.

    :param descriptor: the open socket to the parent.
    :param parent: the parent's process id.
    """
    with exiting():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork.*")  # NumPy's threads are idle
        server = Server(Channel(socket.socket(fileno=descriptor)), parent)
        with suppress(Closed):
            server.run()
        for pid in server.children:  # the parent has ended or has closed the channel
            os.kill(pid, signal.SIGKILL)
