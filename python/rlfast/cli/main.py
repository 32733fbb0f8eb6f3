"""The command ``rlfast``, which imports the module of a subcommand only when it runs, so that ``--help`` is fast."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from rlfast.utils.runtime.extras import MissingExtra, needed_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

_COMMANDS = {
    "train": "train an agent, or go on with a run",
    "eval": "play the policy of a run",
    "export": "write the policy of a run for use without torch",
    "suite": "train several algorithms on a list of tasks, or resume that",
    "tune": "search settings of an algorithm for an environment, or resume that",
    "status": "show how far a run is",
    "plot": "draw learning curves over seeds",
    "report": "make tables and pictures of runs, and keep their curves",
    "share": "make a folder with a policy for others, and upload it",
    "data": "gather, describe and convert data for offline learning",
    "import": "make a run of an agent of Stable-Baselines3",
    "check-env": "find what would go wrong in training with an environment",
    "bench": "measure this machine beside other libraries",
}

_PLACES = {"bench": "tools.bench", "check-env": "tools.check_env", "import": "tools.imports"}
"""The modules of subcommands that do not have their names."""

HELP = f"""usage: rlfast [--help] [--version] COMMAND ...

Deep reinforcement learning on Rust replay buffers.

commands:
{chr(10).join(f"  {name:<12}{what}" for name, what in _COMMANDS.items())}

'rlfast COMMAND --help' says more. Exit status: 0 success, 1 failed run, 2 bad arguments, 130 interrupted.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line.

    :param argv: arguments; default those of the process.
    :return: the exit status.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = arguments[0] if arguments else None
    if command in ("-h", "--help"):
        sys.stdout.write(HELP)
        return 0
    if command == "--version":
        from rlfast import __version__

        sys.stdout.write(f"rlfast {__version__}\n")
        return 0
    if command not in _COMMANDS:
        return complain(f"{unknown('command', command, _COMMANDS)} (rlfast --help)", 2)
    module = f"rlfast.cli.{_PLACES.get(command, command)}"
    return guarded(f"rlfast {command}", lambda: _run(import_module(module).main, arguments[1:]))


def guarded(command: str, run: Callable[[], int]) -> int:
    """Runs a command, and turns what ends it early into a sentence and an exit status.

    :param command: the command, for the error if a library is missing.
    :param run: a function that returns the exit status.
    :return: the exit status.
    """
    try:
        with _terminable(), needed_by(command):
            status = run()
            sys.stdout.flush()
    except KeyboardInterrupt:  # before a run has begun; a running one handles it and reports
        return complain("interrupted", 130)
    except MissingExtra as error:
        return complain(str(error), 1)
    except BrokenPipeError:  # the reader of a pipe, such as `head`, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def _run(command: Callable[[list[str]], int], arguments: list[str]) -> int:
    try:
        return command(arguments)
    except SystemExit as stop:  # the parser has shown help or an error
        return int(stop.code or 0)


@contextmanager
def _terminable() -> Iterator[None]:
    """Makes SIGTERM end a command as SIGINT does, by a KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():  # other threads may not handle signals
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def closest(word: str, choices: Iterable[str], meant: Mapping[str, str] | None = None) -> str | None:
    """Returns the choice that a misspelt word means; None if there is none.

    :param word: the word.
    :param choices: the words that exist, most used first.
    :param meant: the choices that words of other libraries mean.

    >>> closest("pppo", ["dqn", "ppo"]), closest("lr", ["lr-schedule", "learning-rate"]), closest("fly", ["train"])
    ('ppo', 'learning-rate', None)
    """
    from difflib import get_close_matches

    known, word = [*choices], word.lower().replace("_", "-")
    if word in known:
        return word
    if (other := (meant or {}).get(word)) in known:
        return other
    initials = [one for one in known if "-" in one and "".join(part[:1] for part in one.split("-")) == word]
    similar = get_close_matches(word, known, n=1, cutoff=0.6)
    longer = [one for one in known if len(word) > 2 and one.startswith(word)]
    return next(iter([*initials, *longer, *similar]), None)


def unknown(what: str, word: str | None, choices: Iterable[str], *, listed: bool = True) -> str:
    """Returns a sentence about a word that is none of the choices, with what it may mean.

    :param what: what it should be: "command" or "algorithm".
    :param word: the word; None if there is none.
    :param choices: the choices.
    :param listed: whether the sentence lists the choices where it has no guess. Default: True.
    """
    text = f"no {what} was given" if word is None else f"there is no {what} {word!r}"
    if guess := closest(word or "", choices):
        return f"{text}; did you mean {guess}?"
    return f"{text}: choose from {', '.join(choices)}" if listed else text


def sentence(error: BaseException) -> str:
    """Returns the text of an error, without the number of a system's error.

    >>> sentence(PermissionError(13, "Permission denied", "runs/x.png"))
    'runs/x.png: Permission denied'
    """
    if isinstance(error, OSError) and error.strerror:
        return ": ".join(str(one) for one in (error.filename, error.strerror) if one is not None)
    return str(error)


def complain(message: str, status: int) -> int:
    """Writes an error to stderr, as one line.

    :param message: the error.
    :param status: the exit status.
    :return: the exit status.
    """
    sys.stderr.write(f"rlfast: {' '.join(message.split())}\n")
    return status
