"""An exception on its way from a worker to the parent."""

from __future__ import annotations

import pickle
import traceback
from contextlib import suppress
from dataclasses import dataclass

from rlfast.env.process.protocol import dumps


@dataclass(frozen=True)
class RemoteError:
    """What can be said of an exception anywhere: its text, and itself where it survives pickling.

    :param summary: ``"ValueError: no"``.
    :param text: with its traceback.
    :param pickled: the exception; empty where it cannot be pickled.
    """

    summary: str
    text: str
    pickled: bytes

    @classmethod
    def of(cls, error: BaseException) -> RemoteError:
        """In the worker, where it was caught."""
        pickled = b""
        with suppress(Exception):  # an exception may hold anything
            pickled = dumps(error)
            pickle.loads(pickled)  # noqa: S301
        summary = "".join(traceback.format_exception_only(error)).strip()
        return cls(summary, "".join(traceback.format_exception(error)), pickled)

    def exception(self) -> BaseException | None:
        """In the parent: the exception, with the traceback that it had as a note."""
        if not self.pickled:
            return None
        try:
            error = pickle.loads(self.pickled)  # noqa: S301
        except Exception:  # it holds what exists in the worker alone
            return None
        if not isinstance(error, BaseException):
            return None
        error.add_note(f"in the worker:\n{self.text}")
        return error
