"""``rlfast check-env``, which finds what would go wrong in training with an environment."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rlfast.cli.main import complain
from rlfast.cli.parsing import Parser

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Runs the command.

    :param arguments: arguments after ``check-env``.
    :return: the exit status.
    """
    parser = Parser("rlfast check-env", "Checks that an environment can be trained on, by playing random actions.")
    parser.add_argument("env", metavar="ENV", help="its id, such as CartPole-v1 or my_module:MyEnv-v0")
    parser.add_argument("--steps", type=int, default=1000, help="how many steps to play [%(default)s]")
    parser.add_argument("--seed", type=int, default=0, help="of the environment and its actions [%(default)s]")
    given = parser.parse_args(arguments)

    from functools import partial

    import gymnasium as gym

    from rlfast.env.checks.checker import examine_env
    from rlfast.env.specs import find_spec, make_registered

    try:
        report = examine_env(partial(make_registered, find_spec(given.env)), steps=given.steps, seed=given.seed)
    except (ValueError, TypeError, ImportError, gym.error.Error) as error:
        return complain(str(error), 2)
    sys.stdout.write(f"{report}\n")
    return 1 if report.errors else 0
