"""Runs cases with the adapter of one library, in that library's interpreter.

``python -m bench.museum.worker ADAPTER VARIANT FD`` reads ``{"id", "operation", "given", "limit"}`` from the socket,
one JSON object a line, and answers each with a line: ``{"value"}``, ``{"absent"}`` (the library has no such feature),
``{"error", "deliberate"}`` or ``{"died"}``. Each case runs in a fork of this process, in a process group that is killed
when the time is over, so that a crash or a hang takes no other case with it.
"""

from __future__ import annotations

import ast
import importlib
import json
import linecache
import os
import select
import signal
import socket
import sys
import traceback
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from bench.museum.adapters import DoesNotApply

HERE = Path(__file__).parent
SAYING = (ValueError, TypeError, NotImplementedError, AssertionError, IndexError, RuntimeError)


def plain(value: Any) -> Any:
    """Returns a value as JSON has it: arrays and tensors as lists, keys as strings."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"an operation returned {type(value)}")


def raises(file: str, line: int) -> bool:
    """Returns whether a line of a source file belongs to a ``raise``, or to an ``assert`` with a message."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return False
    for node in ast.walk(tree):
        stated = isinstance(node, ast.Raise) or (isinstance(node, ast.Assert) and node.msg is not None)
        if stated and node.lineno <= line <= (node.end_lineno or node.lineno):
            return True
    return False


def is_deliberate(error: BaseException, compiled: bool) -> bool:
    """Returns whether a library refuses its input, and does not merely fall over it.

    The innermost frame must be in a ``raise``, or an ``assert`` with a message, outside of NumPy, PyTorch and the
    standard library; or the error comes from compiled code that the adapter, or a library that is ``compiled``,
    calls, as one of the classes that say what is wrong.
    """
    if not str(error).strip() or isinstance(error, (AttributeError, MemoryError, RecursionError)):
        return False
    frame: TracebackType | None = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    if frame is None:
        return False
    file = frame.tb_frame.f_code.co_filename
    if Path(file).is_relative_to(HERE) or not file.endswith(".py"):  # compiled code leaves no frame of its own
        return isinstance(error, SAYING)
    general = ("/numpy/", "/torch/", f"/lib/python{sys.version_info[0]}.{sys.version_info[1]}/")
    inside = file.split("site-packages")[-1]
    if inside.startswith(general[:2]) or ("site-packages" not in file and general[2] in file):
        return False
    return raises(file, frame.tb_lineno) or (compiled and isinstance(error, SAYING))


def answer(adapter: Any, request: dict[str, Any]) -> dict[str, Any]:
    operations = importlib.import_module("bench.museum.operations")
    try:
        return {"value": plain(getattr(operations, request["operation"])(adapter, **request["given"]))}
    except DoesNotApply as reason:
        return {"absent": str(reason)}
    except BaseException as error:  # a panic of Rust is none of the usual exceptions
        traceback.print_exception(error)
        told = " ".join(str(error).split())
        return {
            "error": f"{type(error).__name__}: {told[:300]}",
            "deliberate": is_deliberate(error, getattr(adapter, "COMPILED", False)),
        }


def in_fork(adapter: Any, request: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(reading)
        np.random.seed(0)
        result = json.dumps(answer(adapter, request)).encode()
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(result)
        os._exit(0)  # neither threads nor processes of a library keep the case alive
    os.close(writing)
    received = b""
    ended = False
    while select.select([reading], [], [], request["limit"])[0]:
        part = os.read(reading, 1 << 16)
        received += part
        if not part:
            ended = True
            break
        try:
            json.loads(received)
            break  # a process that the case left behind holds the pipe open
        except json.JSONDecodeError:
            continue
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(child, signal.SIGKILL)
    os.close(reading)
    _, status = os.waitpid(child, 0)
    if received:
        return dict(json.loads(received))
    if not ended:
        return {"died": f"hangs: no answer within {request['limit']} s"}
    signalled = os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL
    cause = signal.Signals(os.WTERMSIG(status)).name if signalled else f"status {status}"
    return {"died": f"the process died ({cause})"}


def main() -> None:
    name, variant, descriptor = sys.argv[1:]
    warnings.simplefilter("ignore")
    connection = socket.socket(fileno=int(descriptor))
    stream = connection.makefile("rw", encoding="utf-8")
    try:
        adapter: Any = importlib.import_module(f"bench.museum.adapters.{name}")
        adapter.VARIANT = variant
        first = {"versions": {key: str(value) for key, value in adapter.versions().items()}}
    except Exception as error:
        traceback.print_exception(error)
        first = {"unavailable": f"{type(error).__name__}: {error}"}
    stream.write(json.dumps(first) + "\n")
    stream.flush()
    for line in stream:
        stream.write(json.dumps(in_fork(adapter, json.loads(line))) + "\n")
        stream.flush()


if __name__ == "__main__":
    main()
