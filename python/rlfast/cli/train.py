"""``rlfast train``, which trains an agent or resumes a run."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from rlfast.cli.main import complain
from rlfast.cli.parsing import ALLOW_IMPORT, Parser
from rlfast.cli.reporting import report
from rlfast.cli.seeds import main as train_seeds
from rlfast.cli.seeds import parse_seeds
from rlfast.experiment.config import flag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlfast.experiment.algorithms import Algorithm
    from rlfast.experiment.config import RunConfig

_HELP = """usage: rlfast train ALGORITHM [--env ID] [--seed S] [--max-steps N] [--run-dir DIR] [any setting]
       rlfast train ALGORITHM --seeds 0-4 [--jobs N] [--run-dir DIR] [any setting]
       rlfast train --resume RUN_DIR [--max-steps N] [--device NAME] [--ray ADDRESS] [--allow-import] [--no-progress]

algorithms:
{algorithms}

'rlfast train ALGORITHM --help' lists the settings, with the values that are known to work for the --env given.
--seeds 0,2,5-7 trains each of these seeds in a process of its own, --jobs of them at once (as many as there are
cores), in the folders DIR-seed0, DIR-seed2, ..., which --resume continues one by one.
"""


def main(arguments: Sequence[str]) -> int:
    """Runs the command.

    :param arguments: arguments after ``train``.
    :return: the exit status.
    """
    from rlfast.experiment.algorithms import ALGORITHMS

    name = arguments[0] if arguments else None
    if name in ("-h", "--help"):
        rows = (f"  {algorithm.name:<14}{algorithm.summary}" for algorithm in ALGORITHMS.values())
        sys.stdout.write(_HELP.format(algorithms="\n".join(rows)))
        return 0
    if name is not None and name.partition("=")[0] == "--resume":
        return _resume([*name.split("=", 1)[1:], *arguments[1:]])
    if name is None or name not in ALGORITHMS:
        what = "no algorithm was given" if name is None else f"there is no algorithm {name!r}"
        return complain(f"{what}: choose from {', '.join(ALGORITHMS)} (rlfast train --help)", 2)
    if any(argument.partition("=")[0] == "--resume" for argument in arguments[1:]):
        return complain("a run goes on as it was configured, without an algorithm: rlfast train --resume RUN_DIR", 2)
    return _train(ALGORITHMS[name], arguments[1:])


def _train(algorithm: Algorithm, arguments: Sequence[str]) -> int:
    """Trains one seed, or all of ``--seeds``."""
    finder = Parser(f"rlfast train {algorithm.name}", "", add_help=False)
    finder.add_argument("--seeds")
    finder.add_argument("--jobs", type=int)
    several, settings = finder.parse_known_args(arguments)
    if several.seeds is None:
        if several.jobs is not None:
            return complain("--jobs is for --seeds: leave it out", 2)
        from rlfast.distributed.run import train

        config = _parse(algorithm, settings)
        return report(lambda: train(config))
    if any(argument.partition("=")[0] == "--seed" for argument in settings):
        return complain("--seed and --seeds cannot be had together: leave one out", 2)
    if several.jobs is not None and several.jobs < 1:
        return complain(f"--jobs must be at least 1, got {several.jobs}", 2)
    try:
        seeds = parse_seeds(several.seeds)
    except ValueError as error:
        return complain(str(error), 2)
    return train_seeds(_parse(algorithm, settings), seeds, several.jobs)


def _parse(algorithm: Algorithm, arguments: Sequence[str]) -> RunConfig:
    """Returns the preset of the environment with the changes of the arguments.

    :raises SystemExit: after help or an error was printed.
    """
    import tyro

    default = algorithm.config.env
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--env", nargs="?", const=default, default=default)
    env = _with_version(finder.parse_known_args(arguments)[0].env)
    command, complaint = f"rlfast train {algorithm.name}", io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            config = tyro.cli(algorithm.config, prog=command, default=algorithm.preset(env), args=arguments)
            return replace(config, env=_with_version(config.env))
    except SystemExit as stop:
        if stop.code:
            message = _one_line(complaint.getvalue()) + _hint(arguments, algorithm)
            stop.code = complain(f"{message} ({command} --help)", 2)
        raise


def _with_version(env: str) -> str:
    """Returns the newest version of an environment whose id has none, which is the one that Gymnasium makes."""
    from gymnasium.envs.registration import find_highest_version, parse_env_id, registry
    from gymnasium.error import Error

    with contextlib.suppress(Error):  # the id is refused later, together with other settings
        namespace, name, version = parse_env_id(env)
        newest = find_highest_version(namespace, name)
        if version is None and newest is not None and env not in registry:
            return f"{env}-v{newest}"
    return env


def _one_line(complaint: str) -> str:
    """Returns the sentence in a box of tyro's, and the option that it suggests."""
    blocks: list[list[str]] = [[]]
    for line in complaint.splitlines():
        text = line.strip(" │")
        if set(text) <= set("─-╰╯") or text.startswith("╭"):  # a line, or the border with the title
            blocks.append([])
        else:
            blocks[-1].append(text)
    message, *rest = [" ".join(block) for block in blocks if block][0 if "╭" in complaint else 1 :]
    message = re.sub(r"^Error parsing \w*Config: ", "", message)
    meant = [words[3] for words in map(str.split, rest) if words[:3] == ["Perhaps", "you", "meant:"]]
    return f"{message}; did you mean {meant[0]}?" if meant else message


def _hint(arguments: Sequence[str], algorithm: Algorithm) -> str:
    """Returns what a command line meant that gives a value to a switch, an id without --env, or numbers with commas."""
    kinds = {flag(one.name): one.type for one in fields(algorithm.config)}
    if arguments and not arguments[0].startswith("-"):
        return f"; did you mean --env {arguments[0]}?"
    for option, value in pairwise(arguments):
        if kinds.get(option) == "bool" and not value.startswith("-"):
            return f"; {option} is a switch without a value, and --no-{option[2:]} is its opposite"
        if str(kinds.get(option)).startswith("tuple") and "," in value:
            return f"; several numbers have blanks between them: {option} {value.replace(',', ' ')}"
    return ""


def _resume(arguments: Sequence[str]) -> int:
    from rlfast.distributed.run import resume

    parser = Parser("rlfast train --resume", "Goes on with a run where its checkpoint was taken.")
    parser.add_argument("run_dir", type=Path, metavar="RUN_DIR", help="folder of the run")
    parser.add_argument("--max-steps", type=int, default=argparse.SUPPRESS, help="go on up to this many steps")
    parser.add_argument(
        "--device",
        default=argparse.SUPPRESS,
        help="where the networks shall live: cpu, cuda, ... [the run's, if it is here]",
    )
    parser.add_argument("--ray", default=argparse.SUPPRESS, help="address of another Ray cluster [the run's]")
    parser.add_argument("--allow-import", **ALLOW_IMPORT)
    parser.add_argument(
        "--no-progress", dest="progress", action="store_false", default=argparse.SUPPRESS, help="show no bar"
    )
    given = vars(parser.parse_args(arguments))
    return report(lambda: resume(**given))
