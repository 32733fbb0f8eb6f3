"""A process that forks workers: it has imported what they need, so one starts in milliseconds."""

from __future__ import annotations

import os
import pickle
import select
import signal
import socket
import struct
import sys
import warnings
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING

from rlfast.env.process.channel import Channel, Closed
from rlfast.env.process.worker import leaving

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NUMBER = struct.Struct("<i")
_LOOK = 1.0  # seconds between looks at the parent: its end of the socket may live on in a process that it forked


class Server:
    """Forks what ``parent`` asks for, and tells it how that ended."""

    def __init__(self, channel: Channel, parent: int) -> None:
        self.channel, self.parent = channel, parent
        self.children: dict[int, int] = {}  # the pipe to which each one's exit status goes
        self.woken, waker = os.pipe()
        for end in (self.woken, waker):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(waker)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self) -> None:
        """Until the parent hangs up or ends."""
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
        """Takes away those that have ended, and tells."""
        for pid in list(self.children):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self.tell(self.children[pid], os.waitstatus_to_exitcode(status))
                os.close(self.children.pop(pid))

    def tell(self, status_pipe: int, number: int) -> None:
        """Writes a number to somebody who may have lost interest."""
        with suppress(BrokenPipeError):
            os.write(status_pipe, _NUMBER.pack(number))

    def fork(
        self, end: int, status_pipe: int, call: str, path: Sequence[str], folder: str, environ: Mapping[str, str]
    ) -> None:
        """Forks a process that runs ``call``, in this place."""
        pid = os.fork()
        if pid == 0:
            with leaving():
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
        self.tell(status_pipe, pid)


def main(descriptor: int, parent: int) -> None:
    """Serves ``parent`` through an open socket."""
    with leaving():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork.*")  # NumPy's threads do without
        server = Server(Channel(socket.socket(fileno=descriptor)), parent)
        with suppress(Closed):
            server.run()
        for pid in server.children:  # their parent is gone, or does not want them any more
            os.kill(pid, signal.SIGKILL)
