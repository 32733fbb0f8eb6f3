"""``rlfast data``, which gathers and describes data for offline learning."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlfast.cli.main import complain
from rlfast.cli.parsing import ALLOW_IMPORT, Parser, warnings_as_sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_HELP = """usage: rlfast data COMMAND ...

commands:
  gather    play the policy of a run, and write what it did to a file
  info      describe data: transitions, episodes, returns

'rlfast data COMMAND --help' says more.
"""


def main(arguments: Sequence[str]) -> int:
    """Runs the command.

    :param arguments: arguments after ``data``.
    :return: the exit status.
    """
    name = arguments[0] if arguments else None
    if name in ("-h", "--help"):
        sys.stdout.write(_HELP)
        return 0
    commands: dict[str | None, Callable[[Sequence[str]], int]] = {"gather": _gather, "info": _info}
    if name not in commands:
        what = "no command was given" if name is None else f"there is no command {name!r}"
        return complain(f"{what}: choose from gather, info (rlfast data --help)", 2)
    import gymnasium as gym

    try:
        with warnings_as_sentences():
            return commands[name](arguments[1:])
    except (ValueError, OSError, ImportError, gym.error.Error) as error:
        return complain(str(error), 2)


def _gather(arguments: Sequence[str]) -> int:
    parser = Parser("rlfast data gather", "Plays the policy of a run as in tests, and writes what it did to a file.")
    parser.add_argument("run_dir", type=Path, metavar="RUN", help="folder of the run")
    parser.add_argument("--steps", type=int, required=True, help="number of transitions")
    parser.add_argument("--out", type=Path, required=True, help="the file; .hdf5 for Tianshou's layout")
    parser.add_argument("--eps", type=float, default=0.0, help="probability of random actions [%(default)s]")
    parser.add_argument("--noise", type=float, default=0.0, help="deviation of noise on actions [%(default)s]")
    parser.add_argument("--seed", type=int, help="of environments and random actions [the run's]")
    parser.add_argument("--allow-import", **ALLOW_IMPORT)
    from rlfast.experiment.gather import gather

    given = vars(parser.parse_args(arguments))
    stats = gather(given.pop("run_dir"), given.pop("steps"), given.pop("out"), **given)
    text = f"{stats.n_collected_steps:,} transitions"
    sys.stdout.write(f"{text}, {_described(stats.returns)}\n")
    return 0


def _info(arguments: Sequence[str]) -> int:
    parser = Parser("rlfast data info", "Describes data: transitions, episodes and their returns.")
    parser.add_argument("source", help="a buffer's file, a D4RL file, or a Minari dataset")
    from rlfast.experiment.data import read_data, returns_of

    buffer, _ = read_data(parser.parse_args(arguments).source)
    returns = returns_of(buffer)
    sys.stdout.write(f"{len(buffer):,} transitions, {_described(returns)}\n")
    return 0


def _described(returns: Any) -> str:
    if not len(returns):
        return "no whole episode"
    spread = f"{returns.mean():.2f} ± {returns.std():.2f} (from {returns.min():g} to {returns.max():g})"
    return f"{len(returns):,} whole episodes, return {spread}"
