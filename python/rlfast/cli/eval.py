"""``rlfast eval``, which plays episodes with the policy of a run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlfast.cli.main import complain, sentence
from rlfast.cli.parsing import ALLOW_IMPORT, Parser, SettingValue, warnings_as_sentences, whole_number
from rlfast.experiment.run_dir import read_config
from rlfast.experiment.sharing.hub import is_on_hub, local_folder

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Runs the command.

    :param arguments: arguments after ``eval``.
    :return: the exit status.
    """
    parser = Parser("rlfast eval", "Plays new episodes with the policy of a run, without exploration.")
    parser.add_argument("run_dir", metavar="RUN", help="folder of the run, or hf://OWNER/NAME for one on the hub")
    parser.add_argument("--best", action="store_true", help="the policy with the best test, not that of the end")
    parser.add_argument("--episodes", type=whole_number, default=100, help="how many [%(default)s]")
    parser.add_argument("--seed", type=whole_number, help="of the environments [the run's]")
    parser.add_argument("--device", help="where the policy shall live: cpu, cuda, ... [the run's, if it is here]")
    parser.add_argument("--allow-import", **ALLOW_IMPORT)
    parser.add_argument("--video", action="store_true", help="film one more episode, into RUN/video, or video")
    parser.add_argument("--render", action="store_true", help="show the episodes in a window, one after the other")
    parser.add_argument(
        "--deterministic",
        action=argparse.BooleanOptionalAction,
        help="take the policy's best actions; --no-deterministic draws them [as in the run's tests]",
    )
    parser.add_argument(
        "--env-kwargs",
        nargs="+",
        action=SettingValue,
        hint=dict[str, Any],
        metavar="NAME=VALUE",
        help="arguments of the environment that replace those of the run",
    )
    given = vars(parser.parse_args(arguments))
    try:
        run_dir = local_folder(given["run_dir"])
        config = read_config(run_dir)
    except (ValueError, OSError) as error:
        return complain(sentence(error), 2)

    video = None
    if given["video"]:
        video = Path("video") if is_on_hub(given["run_dir"]) else run_dir / "video"
    import gymnasium as gym

    from rlfast.experiment import evaluate
    from rlfast.experiment.report.result import scored_task
    from rlfast.experiment.report.scores import described_score

    try:
        with warnings_as_sentences():
            stats = evaluate(**given | {"run_dir": run_dir, "video": video})
    except (ValueError, OSError, ImportError, gym.error.Error) as error:
        return complain(sentence(error), 2)
    returns, lens = stats.returns_stat, stats.lens_stat
    assert returns is not None  # noqa: S101 (an episode has ended)
    assert lens is not None  # noqa: S101 (likewise)
    sys.stdout.write(
        f"{len(stats.returns)} episodes{' of the best policy' * given['best']}: "
        f"return {returns.mean:.2f} ± {returns.std:.2f} "
        f"(from {returns.min:g} to {returns.max:g}), length {lens.mean:.1f}\n"
    )
    if (task := scored_task(config)) is not None:
        sys.stdout.write(f"normalized score {described_score(task, returns.mean)}\n")
    if video is not None:
        sys.stdout.write(f"{video}\n")
    return 0
