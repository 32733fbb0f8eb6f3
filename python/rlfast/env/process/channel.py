"""Messages between a parent and a worker, for everything except steps: construction, attributes and rendering."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable, Sequence

_HEAD = struct.Struct("<QI")
_POLL = 0.05  # seconds of waiting between two calls of ``on_wait``
_FDS = 8
_PRIVATE = getattr(socket, "MSG_CMSG_CLOEXEC", 0)  # child processes of an environment must not inherit the files


class Closed(ConnectionError):
    """The other end of the channel is closed, or an earlier message was sent only in part."""


class Channel:
    """One end of a stream of messages. A message is bytes and open files.

    If Ctrl-C interrupts :meth:`receive`, no part of a message is lost.

    :param end: a connected socket, which this object owns.
    """

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._arrived, self._files = bytearray(), list[int]()
        self._incomplete = False
        end.settimeout(_POLL)

    @classmethod
    def pair(cls) -> tuple[Channel, socket.socket]:
        """Makes a channel, and returns it with the socket for its other end."""
        ours, theirs = socket.socketpair()
        return cls(ours), theirs

    def send(self, message: bytes, files: Sequence[int] = (), on_wait: Callable[[], None] | None = None) -> None:
        """Sends a message.

        :param message: the bytes.
        :param files: descriptors of open files.
        :param on_wait: called every 50 ms while waiting; an exception that it raises ends the wait.
        :raises Closed: the other end is closed, or an earlier message was sent only in part.
        """
        if self._incomplete:
            raise Closed("an earlier message was interrupted half-way")
        rest = memoryview(_HEAD.pack(len(message), len(files)) + message)
        self._incomplete = True
        while rest:
            try:
                sent = socket.send_fds(self.socket, [rest], files) if files else self.socket.send(rest)
            except TimeoutError:
                if on_wait:
                    on_wait()
                continue
            except OSError as error:
                raise Closed("the other side of the channel has ended") from error
            rest, files = rest[sent:], ()
        self._incomplete = False

    def receive(
        self, on_wait: Callable[[], None] | None = None, timeout: float | None = None
    ) -> tuple[bytes, list[int]]:
        """Waits for the next message.

        :param on_wait: as for :meth:`send`.
        :param timeout: in seconds; None waits without a limit.
        :return: the bytes, and the descriptors of the files sent with them, which the caller must close.
        :raises TimeoutError: no message arrived in time.
        :raises Closed: the other end is closed.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            if len(self._arrived) >= _HEAD.size:
                size, files = _HEAD.unpack_from(self._arrived)
                end = _HEAD.size + size
                if len(self._arrived) >= end:
                    message, own = bytes(self._arrived[_HEAD.size : end]), self._files[:files]
                    del self._arrived[:end], self._files[:files]
                    return message, own
            try:
                part, received, _, _ = socket.recv_fds(self.socket, 1 << 18, _FDS, _PRIVATE)
            except TimeoutError:
                if on_wait:
                    on_wait()
                if deadline is not None and time.monotonic() > deadline:
                    raise
                continue
            except OSError as error:
                raise Closed("the other side of the channel has ended") from error
            if not part:
                raise Closed("the other side of the channel has ended")
            self._arrived += part
            self._files += received

    def waiting(self) -> bool:
        """Whether a message, or a part of one, has arrived."""
        return bool(self._arrived) or bool(select.select([self.socket], [], [], 0)[0])

    def close(self) -> None:
        """Closes this end."""
        self.socket.close()
