"""``rlfast check-env``, which finds what would go wrong in training with an environment."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

from rlfast.cli.main import complain
from rlfast.cli.parsing import Parser

if TYPE_CHECKING:
    from collections.abc import Sequence

    import gymnasium as gym


def _algorithms_for(env: str, obs_space: gym.Space[Any], act_space: gym.Space[Any]) -> tuple[list[str], str]:
    """Returns the algorithms that can make a policy for an environment, and why PPO cannot, which can for most."""
    from rlfast.experiment import ALGORITHMS
    from rlfast.experiment.declaration import Declaration, check_fit

    names, reason = [], ""
    for name, algorithm in ALGORITHMS.items():
        try:
            check_fit(Declaration().policy(algorithm.preset(env), obs_space, act_space), obs_space, act_space)
            names.append(name)
        except ValueError as error:
            reason = str(error) if name == "ppo" else reason
    return names, reason


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

    from gymnasium.error import Error

    from rlfast.env.checks.checker import examine_env
    from rlfast.env.specs import find_spec, is_native_only, make_registered
    from rlfast.experiment.config.outside import find_here

    try:
        if is_native_only(given.env):
            return complain(f"{given.env} exists in Rust alone: there is nothing to check", 2)
        find_here(given.env)
        spec = find_spec(given.env)
        report = examine_env(partial(make_registered, spec), steps=given.steps, seed=given.seed)
    except (ValueError, TypeError, ImportError, Error) as error:
        return complain(str(error), 2)
    if not report.errors:
        with closing(make_registered(spec)) as env:
            names, reason = _algorithms_for(given.env, env.observation_space, env.action_space)
        if names:
            report.facts.append(f"rlfast train has algorithms for it: {', '.join(names)}")
        else:
            report.warnings.append(f"no algorithm of rlfast train has networks for these spaces ({reason})")
    sys.stdout.write(f"{report}\n")
    return 1 if report.errors else 0
