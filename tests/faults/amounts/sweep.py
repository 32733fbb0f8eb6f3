"""Runs calls in a forked child that may run out of memory, hang or die, and returns the outcome of each."""

import faulthandler
import gc
import os
import resource
import select
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import torch

MEMORY = 3 << 30
"""Bytes of address space that a child may have beyond what it begins with."""
Case = tuple[str, Callable[[], object]]


def limited() -> None:
    """Bounds the memory of this process."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def outcome(call: Callable[[], object]) -> str:
    """Returns "" if a call returns or raises a Python error, and otherwise a description of the failure."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = call()
            if hasattr(given, "__next__"):
                list(islice(given, 3))
    except Exception:
        return ""
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:200].replace("\n", " ")
    return ""


def run(cases: Sequence[Case], seconds: float) -> dict[str, str]:
    """Calls each case, and returns those that end neither with a result nor with an exception, with their outcome.

    :param cases: names and calls, which run one after the other in a child, and in a new child after one that dies.
    :param seconds: time after which a call counts as hanging.
    """
    bad, begun = {}, 0
    while begun < len(cases):
        done, fault = _some(cases[begun:], seconds)
        for (name, _), line in zip(cases[begun:], done, strict=False):
            if line:
                bad[name] = line
        begun += len(done)
        if fault and begun < len(cases):
            bad[cases[begun][0]] = fault
            begun += 1
    return bad


def _some(cases: Sequence[Case], seconds: float) -> tuple[list[str], str]:
    """Outcomes of as many cases as a child lives through, and how it ended before its time."""
    read, write = os.pipe()
    trace = tempfile.TemporaryFile()  # noqa: SIM115  the child writes to it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forks beside threads
        child = os.fork()
    if child == 0:
        gc.freeze()  # what the parent left over may be bound to threads that are not here
        faulthandler.enable(trace)
        os.close(read)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if not os.environ.get("AMOUNTS_SHOW"):
            os.dup2(1, 2)
        limited()
        torch.set_num_threads(1)  # the threads of the parent are not here
        for _, call in cases:
            os.write(write, outcome(call).encode() + b"\n")
        os._exit(0)
    os.close(write)
    text, deadline, fault = b"", time.monotonic() + seconds, ""
    while True:
        ready, _, _ = select.select([read], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            os.kill(child, signal.SIGKILL)
            fault = f"hangs for {seconds:g} s"
            break
        got = os.read(read, 1 << 16)
        if not got:
            break
        text, deadline = text + got, time.monotonic() + seconds
    os.close(read)
    _, status = os.waitpid(child, 0)
    done = text.decode(errors="replace").split("\n")[:-1]
    code = os.waitstatus_to_exitcode(status)
    if not fault and code:
        fault = f"dies of {signal.Signals(-code).name}" if code < 0 else f"exits with {code}"
        trace.seek(0)
        fault = "\n".join([fault, *trace.read().decode(errors="replace").splitlines()[:12]])
    trace.close()
    return done, fault
