"""The formats of exported policies, by name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from rlfast.export.program import Program
from rlfast.utils.runtime.files import replace_file


class Format(NamedTuple):
    """A format of files."""

    module: str
    """The module whose function ``written`` returns the contents of a file for a program."""
    what: str
    """One line of help."""


FORMATS: Mapping[str, Format] = {
    "rlfast": Format("engine_file", "safetensors, for rlfast.load_policy with NumPy alone and for Rust"),
    "onnx": Format("onnx", "an ONNX model, for any batch size"),
    "c": Format("c", "a header of C99 with the weights and one function, which needs libm alone"),
}
"""The formats by their names, which ``--to`` takes."""


def save(program: Program, path: str | os.PathLike[str], to: str = "rlfast") -> Path:
    """Write a program to a file, which appears once it is complete.

    :param program: the program.
    :param path: the file; one that exists is replaced.
    :param to: the name of the format, see :data:`FORMATS`. Default: ``"rlfast"``.
    :return: the path.
    :raises ValueError: for another format, or a program that it cannot express.
    :raises OSError: if the file cannot be written.
    """
    if to not in FORMATS:
        raise ValueError(f"there is no format {to!r}: choose from {', '.join(FORMATS)}")
    path = Path(path)
    replace_file(path, _module(to).written(program, **({"name": path.stem} if to == "c" else {})))
    return path


def _module(to: str) -> Any:
    return import_module(f"rlfast.export.{FORMATS[to].module}")


def export(
    run_dir: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    to: str = "rlfast",
    best: bool = False,
    allow_import: bool = False,
) -> Path:
    """Export the policy of a run; the command is ``rlfast export``.

    :param run_dir: folder of the run.
    :param path: the file; one that exists is replaced.
    :param to: the name of the format, see :data:`FORMATS`. Default: ``"rlfast"``.
    :param best: whether the policy is the one with the best test, and not that of the end of training. Default: False.
    :param allow_import: whether modules that the folder names may be imported. Default: False.
    :return: the path.
    :raises FileNotFoundError: if there is no such run, or it has no checkpoint.
    :raises ValueError: if the run cannot be used, or its policy cannot be exported.
    :raises OSError: if the file cannot be written.
    """
    from rlfast.export.trained import program_of_run

    return save(program_of_run(run_dir, best=best, allow_import=allow_import), path, to)
