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

    Ctrl-C while :meth:`send` or :meth:`receive` move bytes leaves the channel unsound: it can only be closed. Ctrl-C
    while they wait does no harm.

    :param end: a connected socket, which this object owns.
    """

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._arrived, self._files = bytearray(), list[int]()
        self.is_sound = True
        """Whether no call was interrupted half-way."""
        self._poll = select.poll()
        self._poll.register(end, select.POLLIN)
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
        self._check_sound()
        rest = memoryview(_HEAD.pack(len(message), len(files)) + message)
        self.is_sound = False
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
        self.is_sound = True

    def _check_sound(self) -> None:
        if not self.is_sound:
            raise Closed("an earlier message was interrupted half-way")

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
        self._check_sound()
        while True:
            if len(self._arrived) >= _HEAD.size:
                size, files = _HEAD.unpack_from(self._arrived)
                end = _HEAD.size + size
                if len(self._arrived) >= end:
                    self.is_sound = False
                    message, own = bytes(self._arrived[_HEAD.size : end]), self._files[:files]
                    del self._arrived[:end], self._files[:files]
                    self.is_sound = True
                    return message, own
            if self._readable(_POLL):
                self._read()
            else:
                if on_wait:
                    on_wait()
                if deadline is not None and time.monotonic() > deadline:
                    raise TimeoutError("no message arrived in time")

    def _read(self) -> None:
        """Reads what has arrived."""
        self.is_sound = False
        try:
            part, received, _, _ = socket.recv_fds(self.socket, 1 << 18, _FDS, _PRIVATE)
        except OSError as error:
            raise Closed("the other side of the channel has ended") from error
        if not part:
            raise Closed("the other side of the channel has ended")
        self._arrived += part
        self._files += received
        self.is_sound = True

    def _readable(self, timeout: float) -> bool:
        """Waits until something has arrived or the other end was closed; false if ``timeout`` seconds pass."""
        if self.socket.fileno() < 0:
            raise Closed("this side of the channel was closed")
        return bool(self._poll.poll(timeout * 1000))

    def waiting(self) -> bool:
        """Whether a message, or a part of one, has arrived."""
        return bool(self._arrived) or self._readable(0)

    def close(self) -> None:
        """Closes this end."""
        self.socket.close()
