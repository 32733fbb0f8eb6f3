"""``rlfast eval``, which plays episodes with the policy of a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rlfast.cli.main import complain
from rlfast.cli.parsing import ALLOW_IMPORT, Parser, warnings_as_sentences

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Runs the command.

    :param arguments: arguments after ``eval``.
    :return: the exit status.
    """
    parser = Parser("rlfast eval", "Plays new episodes with the policy of a run, without exploration.")
    parser.add_argument("run_dir", type=Path, metavar="RUN", help="folder of the run")
    parser.add_argument("--episodes", type=int, default=100, help="how many [%(default)s]")
    parser.add_argument("--seed", type=int, help="of the environments [the run's]")
    parser.add_argument("--device", help="where the policy shall live: cpu, cuda, ... [the run's, if it is here]")
    parser.add_argument("--allow-import", **ALLOW_IMPORT)
    parser.add_argument("--video", action="store_true", help="film one more episode, into RUN/video")
    given = parser.parse_args(arguments)

    import gymnasium as gym

    from rlfast.experiment.evaluate import evaluate
    from rlfast.experiment.report.result import scored_task
    from rlfast.experiment.report.scores import described_score
    from rlfast.experiment.run_dir import read_config

    video = given.run_dir / "video" if given.video else None
    try:
        with warnings_as_sentences():
            stats = evaluate(
                given.run_dir,
                given.episodes,
                seed=given.seed,
                video=video,
                device=given.device,
                allow_import=given.allow_import,
            )
    except (ValueError, OSError, ImportError, gym.error.Error) as error:
        return complain(str(error), 2)
    returns, lens = stats.returns_stat, stats.lens_stat
    assert returns is not None  # noqa: S101 (an episode has ended)
    assert lens is not None  # noqa: S101 (likewise)
    sys.stdout.write(
        f"{len(stats.returns)} episodes: return {returns.mean:.2f} ± {returns.std:.2f} "
        f"(from {returns.min:g} to {returns.max:g}), length {lens.mean:.1f}\n"
    )
    if (task := scored_task(read_config(given.run_dir))) is not None:
        sys.stdout.write(f"normalized score {described_score(task, returns.mean)}\n")
    if video is not None:
        sys.stdout.write(f"{video}\n")
    return 0
