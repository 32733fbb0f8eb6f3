"""``rlfast share``, which makes a folder with the policy of a run that others can use, and uploads it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rlfast.cli.main import complain, sentence
from rlfast.cli.parsing import Parser, warnings_as_sentences, whole_number

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Runs the command.

    :param arguments: arguments after ``share``.
    :return: the exit status.
    """
    what = "Makes a folder with the policy of a run, an evaluation, a learning curve, a film and a model card."
    parser = Parser("rlfast share", what)
    parser.add_argument(
        "run_dir", type=Path, metavar="RUN", help="folder of the run, or with --push a folder made before"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="the new folder [RUN/shared]")
    parser.add_argument("--push", metavar="OWNER/NAME", help="upload it to this repository of the Hugging Face hub")
    parser.add_argument("--private", action="store_true", help="with --push: a new repository is private")
    parser.add_argument("--best", action="store_true", help="the policy with the best test, not that of the end")
    parser.add_argument("--episodes", type=whole_number, default=100, help="how many are played [%(default)s]")
    parser.add_argument("--no-video", dest="video", action="store_false", help="film none")
    given = parser.parse_args(arguments)
    if given.private and given.push is None:
        return complain("--private is for --push: leave it out", 2)
    from rlfast.experiment.sharing.folder import RESULTS
    from rlfast.experiment.sharing.hub import check_name

    if given.push is not None:
        try:
            check_name(given.push)
        except ValueError as error:
            return complain(str(error), 2)
        if (given.run_dir / RESULTS).is_file():
            return _push(given.run_dir, given)
    folder = given.out or given.run_dir / "shared"
    status = _share(folder, given)
    return status if status or given.push is None else _push(folder, given)


def _share(folder: Path, given: argparse.Namespace) -> int:
    import gymnasium as gym

    from rlfast.experiment.sharing.folder import share

    options = {"best": given.best, "episodes": given.episodes, "video": given.video, "name": given.push}
    try:
        with warnings_as_sentences():
            stats, why = share(given.run_dir, folder, **options)
    except (ValueError, OSError, gym.error.Error) as error:
        return complain(sentence(error), 2)
    if why is not None:
        sys.stderr.write(f"rlfast: there is no film: {why}\n")
    returns = stats.returns
    sys.stdout.write(f"{len(returns)} episodes: return {returns.mean():.2f} ± {returns.std():.2f}\n{folder}\n")
    return 0


def _push(folder: Path, given: argparse.Namespace) -> int:
    from rlfast.experiment.sharing.hub import push

    try:
        address = push(folder, given.push, private=given.private)
    except OSError as error:
        again = f"rlfast share {shlex.quote(str(folder))} --push {given.push} tries again"
        return complain(f"{sentence(error)} ({again})", 1)
    sys.stdout.write(f"{address}\nrlfast eval hf://{given.push} plays it\n")
    return 0
