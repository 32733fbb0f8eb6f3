"""Parsing of arguments, with errors in one line."""

from __future__ import annotations

import argparse
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn

from rlfast.cli.main import complain

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def warnings_as_sentences() -> Iterator[None]:
    """Shows warnings of runs, logs and data as sentences, without the place in the source, and others as usual."""
    from rlfast.data.datasets.unplugged import SkippedWarning
    from rlfast.experiment.config import RunWarning
    from rlfast.utils.logger import LogWarning

    ours = (RunWarning, LogWarning, SkippedWarning)

    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, ours):
                sys.stderr.write(f"rlfast: {message}\n")
            else:
                usual(message, category, *where, **more)

        for kind in ours:
            warnings.simplefilter("always", kind)
        warnings.showwarning = show
        yield


ALLOW_IMPORT: Final[dict[str, Any]] = {
    "action": "store_true",
    "help": "import the module in an environment's id such as module:Env-v0, which runs it",
}


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line.

    :param program: the name of the command.
    :param what: its description, one sentence.
    :param add_help: whether it has ``--help``.
    """

    def __init__(self, program: str, what: str, *, add_help: bool = True) -> None:
        super().__init__(prog=program, description=what, allow_abbrev=False, add_help=add_help)

    def error(self, message: str) -> NoReturn:
        """Ends the command with an error.

        :param message: the error.
        """
        self.exit(complain(f"{message} ({self.prog} --help)", 2))
