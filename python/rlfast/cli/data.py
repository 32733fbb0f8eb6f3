"""``rlfast data``, which gathers, describes, converts, merges and splits data for offline learning."""

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlfast.cli.main import complain, sentence, unknown
from rlfast.cli.parsing import ALLOW_IMPORT, Parser, warnings_as_sentences, whole_number

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

_COMMANDS = {
    "gather": "play the policy of a run, and write what it did to a file",
    "info": "describe data: transitions, episodes, returns",
    "convert": "write data in another format",
    "merge": "write several datasets as one",
    "split": "write a dataset as several of a given size",
}
_HELP = f"""usage: rlfast data COMMAND ...

commands:
{chr(10).join(f"  {name:<10}{what}" for name, what in _COMMANDS.items())}

'rlfast data COMMAND --help' says more.
"""
_SOURCE = "a buffer's file, a D4RL file, a Minari dataset, or a shard of RL Unplugged"


def main(arguments: Sequence[str]) -> int:
    """Runs the command.

    :param arguments: arguments after ``data``.
    :return: the exit status.
    """
    name = arguments[0] if arguments else None
    if name in ("-h", "--help"):
        sys.stdout.write(_HELP)
        return 0
    if name not in _COMMANDS:
        return complain(f"{unknown('command', name, _COMMANDS)} (rlfast data --help)", 2)
    command: Callable[[Sequence[str]], int] = globals()[f"_{name}"]
    try:
        with warnings_as_sentences():
            return command(arguments[1:])
    except Exception as error:
        usual = (ValueError, TypeError, OSError, ImportError, MemoryError)
        gym: Any = sys.modules.get("gymnasium")  # which takes longer to import than to find a wrong argument
        if not isinstance(error, usual if gym is None else (*usual, gym.error.Error)):
            raise
        return complain(sentence(error), 2)


def _gather(arguments: Sequence[str]) -> int:
    parser = Parser("rlfast data gather", "Plays the policy of a run as in tests, and writes what it did to a file.")
    parser.add_argument("run_dir", type=Path, metavar="RUN", help="folder of the run")
    parser.add_argument("--steps", type=whole_number, required=True, help="number of transitions, rounded up")
    parser.add_argument("--out", type=Path, required=True, help="the file; .hdf5 for HDF5")
    parser.add_argument("--eps", type=float, default=0.0, help="probability of random actions [%(default)s]")
    parser.add_argument("--noise", type=float, default=0.0, help="deviation of noise on actions [%(default)s]")
    parser.add_argument("--best", action="store_true", help="the policy with the best test, not that of the end")
    parser.add_argument("--seed", type=whole_number, help="of environments and random actions [the run's]")
    parser.add_argument("--allow-import", **ALLOW_IMPORT)
    given = vars(parser.parse_args(arguments))
    from rlfast.experiment.gather import gather

    stats = gather(given.pop("run_dir"), given.pop("steps"), given.pop("out"), **given)
    text = f"{stats.n_collected_steps:,} transitions, {_described(stats.returns)}"
    cut = stats.n_collected_steps - int(stats.lens.sum())
    sys.stdout.write(text + (f"; {cut:,} transitions are of episodes that were cut at the end\n" if cut else "\n"))
    return 0


def _info(arguments: Sequence[str]) -> int:
    parser = Parser("rlfast data info", "Describes data: transitions, episodes and their returns.")
    parser.add_argument("source", help=_SOURCE)
    parser.add_argument("--png", type=Path, metavar="FILE", help="draw the histogram of returns into this file")
    given = parser.parse_args(arguments)
    from rlfast.data.datasets.opening import open_source
    from rlfast.experiment.data import returns_of
    from rlfast.experiment.report.histogram import draw_histogram, text_histogram

    with open_source(given.source, scratch=tempfile.gettempdir()) as source:
        returns, lengths = returns_of(source)
        text = f"{source.length:,} transitions, {_described(returns)}"
        sys.stdout.write(text + (f", length {lengths.mean():.1f}\n" if len(lengths) else "\n"))
        if source.length:
            part = next(source.parts())
            sys.stdout.write("".join(f"  {name:<5}{_columns(part[name])}\n" for name in ("obs", "act")))
    if len(returns):
        width = min(shutil.get_terminal_size().columns, 100)
        sys.stdout.write("".join(f"{line}\n" for line in text_histogram(returns, width)))
    if given.png is not None and len(returns):
        draw_histogram(returns, given.png, f"{Path(given.source).name}: {len(returns):,} episodes")
        sys.stdout.write(f"{given.png}\n")
    return 0


def _columns(column: NDArray[Any] | dict[str, Any]) -> str:
    if isinstance(column, dict):
        return ", ".join(f"{key}: {_columns(inner)}" for key, inner in column.items())
    return f"{column.dtype} {[*column.shape[1:]]}"


def _described(returns: NDArray[Any]) -> str:
    if not len(returns):
        return "no episode"
    spread = f"{returns.mean():.2f} ± {returns.std():.2f} (from {returns.min():g} to {returns.max():g})"
    return f"{len(returns):,} episode{'s' * (len(returns) != 1)}, return {spread}"


# -- writing -----------------------------------------------------------------------------------------------------------
def _convert(arguments: Sequence[str]) -> int:
    parser = _writing_parser("convert", "Writes data in another format.")
    parser.add_argument("sources", nargs="+", metavar="source", help=f"{_SOURCE}; several as by merge")
    given = parser.parse_args(arguments)
    return _write(given.sources, given)


def _merge(arguments: Sequence[str]) -> int:
    parser = _writing_parser("merge", "Writes several datasets, one after the other, as one.")
    parser.add_argument("sources", nargs="+", metavar="source", help=_SOURCE)
    given = parser.parse_args(arguments)
    return _write(given.sources, given)


def _split(arguments: Sequence[str]) -> int:
    parser = _writing_parser("split", "Writes a dataset as several, named NAME-00000-of-00003 and so on.")
    parser.add_argument("source", help=_SOURCE)
    parser.add_argument(
        "--size", type=whole_number, required=True, help="transitions of each dataset; the last one has the rest"
    )
    given = parser.parse_args(arguments)
    if given.size < 1:
        return complain(f"--size must be at least 1, got {given.size}", 2)
    return _write([given.source], given, given.size)


def _writing_parser(name: str, what: str) -> Parser:
    from rlfast.data.datasets.converting import WRITABLE
    from rlfast.data.datasets.opening import KINDS

    parser = Parser(f"rlfast data {name}", what)
    parser.add_argument("--out", type=Path, required=True, help="the file, or the folder of a Minari dataset")
    parser.add_argument("--from", dest="kind", choices=KINDS, help="what the source is [found out]")
    parser.add_argument("--to", choices=WRITABLE, help="what to write [hdf5 for .hdf5 and .h5, else snapshot]")
    parser.add_argument("--env", help="id of the environment, whose actions D4RL and Minari have")
    parser.add_argument("--skip-broken", action="store_true", help="leave out broken records of shards, with a warning")
    parser.add_argument("--no-progress", action="store_true", help="show no progress bar")
    return parser


def _write(names: Sequence[str], given: argparse.Namespace, size: int | None = None) -> int:
    from rlfast.data.datasets.converting import write
    from rlfast.data.datasets.opening import open_source
    from rlfast.utils.progress_bar import ProgressBar

    out: Path = given.out
    kind = given.to or ("hdf5" if out.suffix in (".hdf5", ".h5") else "snapshot")
    if not out.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {out.parent}")
    with ExitStack() as opened:
        options = {"skip_broken": given.skip_broken, "progress": not given.no_progress}
        sources = [opened.enter_context(open_source(name, given.kind, str(out.parent), **options)) for name in names]
        total = sum(source.length for source in sources)

        @cache
        def bar() -> ProgressBar:  # is shown with the first rows, so that an error before them is one line
            return opened.enter_context(ProgressBar(total, "writing", shown=not given.no_progress))

        paths = write(sources, out, _target(kind, given.env), size=size, advance=lambda n: bar().update(n, {}))
    sys.stdout.write("".join(f"{path}\n" for path in paths))
    return 0


def _target(kind: str, env_id: str | None) -> Any:
    from rlfast.data.datasets.converting import Target
    from rlfast.env.specs import find_spec, make_registered

    if env_id is None:
        return Target(kind=kind)
    env = make_registered(find_spec(env_id))
    try:
        spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
        return Target(kind=kind, spec=env.spec, **spaces)
    finally:
        env.close()
