"""``rlfast report``, which makes tables and pictures of runs, and keeps their evaluation curves."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rlfast.cli.main import complain, sentence
from rlfast.cli.parsing import Parser, warnings_as_sentences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlfast.experiment.report.curves import RunCurve


def main(arguments: Sequence[str]) -> int:
    """Runs the command.

    :param arguments: arguments after ``report``.
    :return: the exit status.
    """
    what = "Makes a table of runs over seeds, learning curves of each task, and performance profiles."
    parser = Parser("rlfast report", what)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="folder of runs or of kept curves")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="for report.md and the pictures [DIR/report]")
    parser.add_argument(
        "--curves", type=Path, metavar="FOLDER", help="also keep the curve of each run there, as a CSV file"
    )
    given = parser.parse_args(arguments)
    first: Path = given.folders[0]
    out: Path = given.out or (first if first.is_dir() else first.parent) / "report"

    from rlfast.experiment.report.curves import find_curves
    from rlfast.experiment.report.table import write_report

    try:
        with warnings_as_sentences():
            runs = [run for folder in given.folders for run in find_curves(folder)]
        if given.curves is not None:
            _check(given.curves, given.folders, runs)
        table = write_report(runs, out)
        sys.stdout.write(f"{table}\n{out / 'report.md'}\n")
        if given.curves is not None:
            _keep(runs, given.curves)
    except (ValueError, OSError) as error:
        return complain(sentence(error), 2)
    return 0


def _check(curves: Path, folders: Sequence[Path], runs: Sequence[RunCurve]) -> None:
    """Checks that the curves can be kept in a folder.

    :raises ValueError: if it is one of runs, or two runs would have one file.
    """
    from rlfast.experiment.algorithms import algorithm_of
    from rlfast.experiment.run_dir import run_name

    inside = next((folder for folder in folders if curves.resolve().is_relative_to(folder.resolve())), None)
    if inside is not None:
        raise ValueError(f"--curves {curves} lies in {inside}, whose next report would count each run twice")
    seen: dict[str, Path] = {}
    for run in runs:
        name = run_name(run.config, algorithm_of(run.config).name)
        if name in seen:
            raise ValueError(f"{seen[name]} and {run.source} would both be {curves / name}.csv: report them apart")
        seen[name] = run.source


def _keep(runs: Sequence[RunCurve], curves: Path) -> None:
    from rlfast.experiment.report.curves import write_curve

    for run in runs:
        write_curve(run, curves)
        if not run.ended:
            sys.stderr.write(f"rlfast: {run.source} has not ended: its curve ends at step {run.steps[-1]:,}\n")
    sys.stdout.write(f"{len(runs)} curves are in {curves}\n")
