"""Sends an exception from a worker to the parent."""

from __future__ import annotations

import pickle
import traceback
from contextlib import suppress
from dataclasses import dataclass

from rlfast.env.process.protocol import dumps


@dataclass(frozen=True)
class RemoteError:
    """An exception in a form that can always be pickled: its text, and the exception itself if it can be pickled.

    :param summary: the class and the message, for example ``"ValueError: no"``.
    :param text: the exception with its traceback, as text.
    :param pickled: the pickled exception; empty if it cannot be pickled.
    """

    summary: str
    text: str
    pickled: bytes

    @classmethod
    def of(cls, error: BaseException) -> RemoteError:
        """Makes an instance from an exception; the worker that caught the exception calls this."""
        pickled = b""
        with suppress(Exception):  # exceptions may have attributes that cannot be pickled
            pickled = dumps(error)
            pickle.loads(pickled)  # noqa: S301
        summary = "".join(traceback.format_exception_only(error)).strip()
        return cls(summary, "".join(traceback.format_exception(error)), pickled)

    def exception(self) -> BaseException | None:
        """Returns the exception, with its traceback as a note; the parent calls this.

        :return: the exception; None if it could not be pickled or unpickled.
        """
        if not self.pickled:
            return None
        try:
            error = pickle.loads(self.pickled)  # noqa: S301
        except Exception:  # it refers to objects that exist only in the worker
            return None
        if not isinstance(error, BaseException):
            return None
        error.add_note(f"in the worker:\n{self.text}")
        return error
