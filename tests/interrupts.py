"""Interrupts and other threads at every point of a call: what Ctrl-C, or a failing callback, leaves behind.

`interrupt` runs a call and raises in it, once, right before the n-th bytecode that the library runs in this thread.
Python itself delivers signals at fewer places (calls and loops), so a call that survives this survives Ctrl-C::

    for point in range(points(lambda: use(make()))):
        thing = make()
        interrupt(lambda: use(thing), point)
        check(thing)  # works, or says in one sentence what to do

`switch` lets another thread run there instead. `FailsOnce` is for code of users that the library calls: it raises at
its n-th call.
"""

import linecache
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import Any, TypeVar

import rlfast

T = TypeVar("T")

LIBRARY = str(Path(rlfast.__file__).parent) + os.sep


class Interrupt(KeyboardInterrupt):
    """An interrupt of ours, which no other code raises."""


class _Tracer:
    """Counts the bytecodes of frames whose file begins with ``within``, and raises ``error`` before number ``at``."""

    def __init__(self, at: int | None, within: str, error: type[BaseException]) -> None:
        self.at, self.within, self.error = at, within, error
        self.seen = 0
        self.place = ""
        self.lines: dict[tuple[str, int | None], list[int]] = {}

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "call" and not frame.f_code.co_filename.startswith(self.within):
            return None
        if event == "call":
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode":
            self.seen += 1
            if self.at is None:
                self.lines.setdefault((frame.f_code.co_filename, frame.f_lineno), []).append(self.seen - 1)
            if self.seen - 1 == self.at:
                self.place = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"
                self.reached(frame)
        return self

    def reached(self, _: FrameType) -> None:
        """Is called once, before the bytecode."""
        raise self.error(f"injected at point {self.at}, {self.place}")


def _run(call: Callable[[], object], tracer: _Tracer) -> BaseException | None:
    """Runs a call under a tracer, and returns what it raised."""
    before, hook = sys.gettrace(), sys.unraisablehook
    sys.unraisablehook = lambda raised: None if isinstance(raised.exc_value, tracer.error) else hook(raised)
    try:
        sys.settrace(tracer)
        call()
    except BaseException as error:
        return error
    finally:
        sys.settrace(before)
        sys.unraisablehook = hook
    return None


def points(call: Callable[[], object], within: str = LIBRARY) -> int:
    """Returns how many points there are at which `interrupt` can raise in a call. The call must succeed."""
    return _counted(call, within).seen


def _counted(call: Callable[[], object], within: str) -> _Tracer:
    """Runs a call, which must succeed, and returns what counted its points."""
    tracer = _Tracer(None, within, Interrupt)
    error = _run(call, tracer)
    if error is not None:
        raise error
    return tracer


def points_at(call: Callable[[], object], text: str, within: str = LIBRARY) -> list[int]:
    """Returns the points at lines that contain ``text``: those where a block begins and ends, say."""
    lines = _counted(call, within).lines
    found = (at for (file, line), at in lines.items() if text in linecache.getline(file, line or 0))
    return sorted(point for at in found for point in at)


def interrupt(
    call: Callable[[], object], point: int, error: type[BaseException] = Interrupt, within: str = LIBRARY
) -> str:
    """Runs a call and raises ``error`` at one of its points.

    :param call: the call.
    :param point: the number of the point, from 0.
    :param error: the class of the exception.
    :param within: raise only in files whose path begins so.
    :return: the place where it was raised; empty if the call ended before the point.
    """
    tracer = _Tracer(point, within, error)
    raised = _run(call, tracer)
    if raised is not None and not tracer.place:
        raise raised
    return tracer.place


def check_gradients(call: Callable[[], object], text: str) -> None:
    """Checks that torch records gradients after an interrupt at any of the points at lines that contain ``text``."""
    import torch

    found = points_at(call, text)
    assert found
    for point in found:
        place = interrupt(call, point)
        records = torch.is_grad_enabled()
        torch.set_grad_enabled(True)
        assert records, place


def spread(total: int, count: int, start: int = 0) -> Iterator[int]:
    """Returns at most ``count`` of the points ``0 .. total - 1``, evenly spread; another ``start`` gives others."""
    step = max(1, total // count) if count < total else 1
    return iter(range(start % step, total, step))


class FailsOnce:
    """A function that raises ``error`` at its n-th call (from 0), and else calls ``function``."""

    def __init__(self, function: Callable[..., Any], at: int | None, error: type[BaseException] = Interrupt) -> None:
        self.function, self.at, self.error = function, at, error
        self.calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        if self.calls - 1 == self.at:
            raise self.error(f"injected at call {self.at}")
        return self.function(*args, **kwargs)


class _Switch(_Tracer):
    """Lets another thread work before bytecode number ``at``."""

    def __init__(self, at: int, within: str, work: Callable[[], object], patience: float) -> None:
        super().__init__(at, within, Interrupt)
        self.thread = Thread(target=self._work, args=(work,), daemon=True)
        self.patience = patience
        self.raised: BaseException | None = None

    def _work(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            self.raised = error

    def reached(self, _: FrameType) -> None:
        self.thread.start()
        self.thread.join(self.patience)  # it may have to wait for the call


def switch(
    call: Callable[[], T], point: int, work: Callable[[], object], within: str = LIBRARY, patience: float = 0.002
) -> T:
    """Runs a call, and at one of its points lets another thread run ``work``, as when the interpreter switches threads.

    :param call: the call.
    :param point: the number of the point, from 0; the call must have it.
    :param work: what the other thread does. It may wait for the call to end.
    :param within: count the points of files whose path begins so.
    :param patience: seconds after which the call goes on though ``work`` has not ended.
    :return: what the call returned, once both have ended. What either raised is raised.
    """
    tracer, results = _Switch(point, within, work, patience), []
    raised = _run(lambda: results.append(call()), tracer)
    assert tracer.place or raised, f"the call has {tracer.seen} points, and not number {point}"
    if tracer.place:
        tracer.thread.join(60)
        assert not tracer.thread.is_alive(), f"{tracer.place}: the other thread waits for ever"
    for error in (raised, tracer.raised):
        if error is not None:
            error.add_note(f"threads were switched at point {point}, {tracer.place}")
            raise error
    return results[0]
