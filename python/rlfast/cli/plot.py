"""``rlfast plot``, which draws learning curves of runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rlfast.cli.main import complain, sentence
from rlfast.cli.parsing import Parser

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Runs the command.

    :param arguments: arguments after ``plot``.
    :return: the exit status.
    """
    parser = Parser("rlfast plot", "Draws the tests of runs: the interquartile mean over seeds, with confidence bands.")
    parser.add_argument("run_dirs", nargs="+", type=Path, metavar="RUN", help="folder of a run")
    picture = Path("learning_curves.png")
    parser.add_argument("--out", "--output", type=Path, default=picture, help="the picture [%(default)s]")
    parser.add_argument("--confidence", type=float, default=0.95, help="of the bands [%(default)s]")
    given = parser.parse_args(arguments)

    from rlfast.experiment.report.plot import compare

    if not 0 < given.confidence < 1:
        return complain(f"--confidence must be within 0 and 1, got {given.confidence}", 2)
    try:
        curves = compare(given.run_dirs, given.out, confidence=given.confidence)
    except (ValueError, OSError) as error:
        return complain(sentence(error), 2)
    for name, curve in curves.items():
        band = f"{curve.low[-1]:.1f} to {curve.high[-1]:.1f}"
        sys.stdout.write(f"{name}: {curve.iqm[-1]:.1f} ({band}) over {curve.runs} run{'s'[: curve.runs > 1]}\n")
    sys.stdout.write(f"{given.out}\n")
    return 0
