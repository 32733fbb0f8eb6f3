"""``rlfast train``, which trains an agent or resumes a run."""

from __future__ import annotations

import argparse
import contextlib
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlfast.cli.main import complain, sentence, unknown
from rlfast.cli.parsing import ALLOW_IMPORT, Parser, read_config_file, read_settings, whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlfast.experiment.algorithms import Algorithm
    from rlfast.experiment.config import RunConfig

_COMPILES_FROM = 5_000
"""Gradient steps from which on presets compile. PPO's minibatches of 256 rows regain a start with torch's cache in
4,000 steps, and the first compilation on a machine in 26,000; larger networks sooner."""

_HELP = """usage: rlfast train ALGORITHM [--env ID] [--seed S] [--max-steps N] [--run-dir DIR] [any setting]
       rlfast train ALGORITHM --seeds 0-4 [--jobs N] [--run-dir DIR] [any setting]
       rlfast train --resume RUN_DIR [--max-steps N] [--device NAME] [...]
       rlfast train --resume RUN_DIR --online-steps N [--run-dir DIR] [any setting]

algorithms:
{algorithms}

'rlfast train ALGORITHM --help' lists the settings, with the values that are known to work for the --env given.
--seeds 0,2,5-7 trains each of these seeds in a process of its own, --jobs of them at once (as many as there are
cores), in the folders DIR-seed0, DIR-seed2, ..., which --resume continues one by one. --online-steps begins another run
with the policy of a run that learned from data, which collects and learns from both.
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
        return complain(f"{unknown('algorithm', name, ALGORITHMS, listed=False)} (rlfast train --help lists all)", 2)
    if any(argument.partition("=")[0] == "--resume" for argument in arguments[1:]):
        return complain("a run goes on as it was configured, without an algorithm: rlfast train --resume RUN_DIR", 2)
    return _train(ALGORITHMS[name], arguments[1:])


def _train(algorithm: Algorithm, arguments: Sequence[str]) -> int:
    """Trains one seed, or all of ``--seeds``."""
    given = read_settings(f"rlfast train {algorithm.name}", algorithm.config, arguments, algorithm.preset)
    seeds, jobs = given.pop("seeds", None), given.pop("jobs", None)
    if seeds is None:
        if jobs is not None:
            return complain("--jobs is for --seeds: leave it out", 2)
        return _train_one(algorithm, given)
    if "seed" in given:
        return complain("--seed and --seeds exclude each other: leave one out", 2)
    if jobs is not None and jobs < 1:
        return complain(f"--jobs must be at least 1, got {jobs}", 2)
    from rlfast.cli.runs.seeds import main as train_seeds
    from rlfast.cli.runs.seeds import parse_seeds

    try:
        numbers, config = parse_seeds(seeds), config_of(algorithm, given)
    except (ValueError, TypeError, OSError) as error:
        return complain(sentence(error), 2)
    return train_seeds(config, numbers, jobs)


def _train_one(algorithm: Algorithm, given: dict[str, Any]) -> int:
    """Names the folder of the run at once, before the libraries that take seconds to import, and trains."""
    from rlfast.experiment.run_dir import reserved

    with contextlib.ExitStack() as held:
        try:
            config = config_of(algorithm, given)
            run_dir = held.enter_context(reserved(config, algorithm.name))
        except (ValueError, TypeError, OSError) as error:
            return complain(sentence(error), 2)
        sys.stdout.write(f"run folder: {run_dir}\n")
        sys.stdout.flush()
        from rlfast.cli.runs.reporting import report
        from rlfast.distributed.run import train

        return report(lambda: train(replace(config, run_dir=run_dir)))


def config_of(algorithm: Algorithm, given: dict[str, Any]) -> RunConfig:
    """Returns the preset of the environment with the settings that were given, first those in the file ``config``.

    A run that is too short to regain the seconds of compiling does not compile, unless it was asked to.

    :param algorithm: the algorithm.
    :param given: the settings, by name.
    :raises ValueError: if they contradict each other, or the file cannot be used.
    :raises OSError: if the file cannot be read.
    """
    from rlfast.experiment.config.outside import find_here

    given = dict(given)
    file = given.pop("config", None)
    given = given if file is None else read_config_file(file, algorithm) | given
    env = _with_version(given.get("env", algorithm.config().env))
    config = replace(algorithm.preset(env), **given | {"env": env})
    if config.gradient_steps < _COMPILES_FROM and getattr(config, "compile", False):
        config = replace(config, **{"compile": False} | given | {"env": env})
    find_here(config.env, config.wrappers)
    return config


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


def _is_setting(option: str) -> bool:
    """Whether an option is a setting of an algorithm, with or without ``no-``."""
    from rlfast.experiment.algorithms import ALGORITHMS

    name = option.removeprefix("--").removeprefix("no-").replace("-", "_")
    return any(name == field.name for algorithm in ALGORITHMS.values() for field in fields(algorithm.config))


def _go_online(arguments: Sequence[str]) -> int | None:
    """Begins a run that continues an offline one; None if arguments do not ask for that, but to go on with a run."""
    if not any(one.replace("_", "-").partition("=")[0] == "--online-steps" for one in arguments[1:]):
        return None
    from rlfast.experiment.run_dir import read_config

    run_dir = Path(arguments[0])
    try:
        config = read_config(run_dir)
    except (ValueError, OSError) as error:
        return complain(sentence(error), 2)
    if config.collects and hasattr(config, "online_steps"):
        return None
    allow_import = "--allow-import" in arguments
    settings = [one for one in arguments[1:] if one != "--allow-import"]
    given = read_settings(f"rlfast train --resume {arguments[0]}", type(config), settings, lambda _: config)
    if several := {"config", "seeds", "jobs"} & given.keys():
        return complain(f"--{several.pop()} is for new runs: leave it out", 2)
    from rlfast.cli.runs.reporting import report
    from rlfast.experiment.run import go_online

    return report(lambda: go_online(run_dir, allow_import=allow_import, **given))


def _resume(arguments: Sequence[str]) -> int:
    if (status := _go_online(arguments)) is not None:
        return status
    parser = Parser("rlfast train --resume", "Continues a run where its checkpoint was taken.")
    parser.add_argument("run_dir", type=Path, metavar="RUN_DIR", help="folder of the run")
    parser.add_argument("--max-steps", type=whole_number, default=argparse.SUPPRESS, help="go on up to this many steps")
    parser.add_argument(
        "--stop-return", type=float, default=argparse.SUPPRESS, help="of a run that a test has ended: another threshold"
    )
    parser.add_argument(
        "--device",
        default=argparse.SUPPRESS,
        help="where the networks shall live: cpu, cuda, ... [the run's, if it is here]",
    )
    parser.add_argument("--ray", default=argparse.SUPPRESS, help="address of the Ray cluster of a run that is spread")
    parser.add_argument("--storage", default=argparse.SUPPRESS, help="where the rows of the buffer are [the run's]")
    parser.add_argument("--data", default=argparse.SUPPRESS, help="the data of an offline run [the run's]")
    parser.add_argument(
        "--online-steps",
        type=whole_number,
        default=argparse.SUPPRESS,
        help="of a run that learned from data alone: begin another one with its policy, which also collects, for this "
        "many steps, and takes all other settings; of one that collects: go on up to this many steps",
    )
    parser.add_argument("--allow-import", **ALLOW_IMPORT)
    parser.add_argument(
        "--no-progress", dest="progress", action="store_false", default=argparse.SUPPRESS, help="show no bar"
    )
    known, others = parser.parse_known_args(arguments)
    if others:
        name = others[0].partition("=")[0]
        if not _is_setting(name):
            parser.error(f"unrecognized arguments: {' '.join(others)}")
        what = f"a resumed run keeps its settings, and {name} cannot be changed: leave it out"
        return complain(f"{what} (rlfast train --resume --help lists those that can be)", 2)
    given = vars(known)
    from rlfast.experiment.run_dir import read_config

    try:
        read_config(given["run_dir"])
    except (ValueError, OSError) as error:
        return complain(sentence(error), 2)
    from rlfast.cli.runs.reporting import report
    from rlfast.distributed.run import resume

    return report(lambda: resume(**given))
