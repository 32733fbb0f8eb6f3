"""The report of a run of ``rlfast train``."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from rlfast.cli.main import complain, sentence
from rlfast.cli.parsing import warnings_as_sentences

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlfast.experiment.run import RunResult


def report(run: Callable[[], RunResult]) -> int:
    """Runs the training, and reports the result.

    :param run: a function that trains.
    :return: the exit status.
    """
    from rlfast.experiment.config.outside import is_cluster
    from rlfast.experiment.report.result import place
    from rlfast.experiment.run import ConfigError
    from rlfast.experiment.training import what_is_left

    try:
        with warnings_as_sentences():
            result = run()
    except ConfigError as error:
        return complain(sentence(error.__cause__ if isinstance(error.__cause__, OSError) else error), 2)
    except Exception as error:
        notes = " ".join(getattr(error, "__notes__", []))
        if "C++ compiler" in str(error):  # torch's message is about its own options
            return complain(f"the run failed: --compile needs a C++ compiler: install one, or leave it out {notes}", 1)
        return complain(f"the run failed: {type(error).__name__}: {error} {notes}", 1)
    sys.stdout.write(result.summary() + "\n")
    config = result.config
    where = place(config, result.env_step)
    if result.unsaved is not None:
        left = what_is_left(result.run_dir)
        what = f"no checkpoint of {where} could be written: {result.unsaved}; {left}"
        return complain(what, 130 if result.interrupted else 1)
    if result.interrupted:
        again = f"rlfast train --resume {shlex.quote(str(result.run_dir))}"
        if is_cluster(config.ray):
            again += f" --ray {shlex.quote(str(config.ray))}"
        return complain(f"interrupted at {where}: {again} goes on", 130)
    if config.require_stop_return and not result.reached:
        return complain(f"the run ended below the return that was required, {config.stop_return:g}", 1)
    return 0
