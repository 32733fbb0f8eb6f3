"""``rlfast import``, which makes runs of agents of other libraries."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rlfast.cli.main import complain, sentence
from rlfast.cli.parsing import Parser, warnings_as_sentences

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Runs the command.

    :param arguments: arguments after ``import``.
    :return: the exit status.
    """
    parser = Parser("rlfast import", "Makes a run of an agent of another library, without unpickling.")
    parser.add_argument("library", choices=["sb3"], help="sb3: Stable-Baselines3's PPO, A2C, DQN, SAC and TD3")
    parser.add_argument("file", type=Path, metavar="FILE", help="what model.save() has written")
    parser.add_argument("--env", required=True, metavar="ID", help="the environment, which the file does not name")
    parser.add_argument("--run-dir", type=Path, metavar="DIR", help="the new folder [runs/ALGO-ENV-seed0]")
    given = parser.parse_args(arguments)
    import gymnasium as gym

    from rlfast.experiment.config.outside import find_here
    from rlfast.experiment.sharing.sb3 import import_agent

    find_here(given.env)
    try:
        with warnings_as_sentences():
            folder = import_agent(given.file, given.env, given.run_dir)
    except (ValueError, OSError, ImportError, gym.error.Error) as error:
        return complain(sentence(error), 2)
    sys.stdout.write(f"{folder}\nrlfast eval {shlex.quote(str(folder))} plays it\n")
    return 0
