"""Messages between a parent and a worker that are not part of a step: construction, attributes, rendering."""

from __future__ import annotations

import select
import socket
import struct
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_HEAD = struct.Struct("<QI")
_SLICE = 0.05
_FDS = 8
_PRIVATE = getattr(socket, "MSG_CMSG_CLOEXEC", 0)  # files are not for an environment's own child processes


class Closed(ConnectionError):
    """The other side has ended, or a message was interrupted half-way."""


class Channel:
    """One end of a stream of messages, bytes with some open files. Ctrl-C leaves no half-read message behind.

    :param end: a connected socket, which this end owns.
    """

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._arrived, self._files = bytearray(), list[int]()
        self._torn = False
        end.settimeout(_SLICE)

    @classmethod
    def pair(cls) -> tuple[Channel, socket.socket]:
        """A channel, and the socket for its other end."""
        ours, theirs = socket.socketpair()
        return cls(ours), theirs

    def send(self, message: bytes, files: Sequence[int] = (), look: Callable[[], None] | None = None) -> None:
        """Sends a message.

        :param look: called every twentieth of a second of waiting; what it raises ends the wait.
        :raises Closed: the other side has ended.
        """
        if self._torn:
            raise Closed("an earlier message was interrupted half-way")
        rest = memoryview(_HEAD.pack(len(message), len(files)) + message)
        self._torn = True
        while rest:
            try:
                sent = socket.send_fds(self.socket, [rest], files) if files else self.socket.send(rest)
            except TimeoutError:
                if look:
                    look()
                continue
            except OSError as error:
                raise Closed("the other side of the channel has ended") from error
            rest, files = rest[sent:], ()
        self._torn = False

    def receive(self, look: Callable[[], None] | None = None, timeout: float | None = None) -> tuple[bytes, list[int]]:
        """The next message, and the files that came with it, which are the caller's to close.

        :param look: as in :meth:`send`.
        :param timeout: seconds to wait; None waits for ever.
        :raises TimeoutError: it did not come in time.
        :raises Closed: the other side has ended.
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
                if look:
                    look()
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
        """Whether a message, or its beginning, is there."""
        return bool(self._arrived) or bool(select.select([self.socket], [], [], 0)[0])

    def close(self) -> None:
        """Closes this end."""
        self.socket.close()
