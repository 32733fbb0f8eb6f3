"""Whole runs: begun, resumed, and closed."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import traceback
import warnings
from contextlib import ExitStack, suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from rlfast.data.buffer.store.columns import PACKED
from rlfast.experiment.algorithms import algorithm_of
from rlfast.experiment.build import build, on_this_machine
from rlfast.experiment.checkpoint import copy_policy, load_checkpoint, load_policy, read_test
from rlfast.experiment.config import DataConfig, OfflineRewardConfig, RunWarning
from rlfast.experiment.config.outside import check_cluster, check_outside, remember
from rlfast.experiment.declaration import Declaration, read_declaration
from rlfast.experiment.report.plot import learning_curve
from rlfast.experiment.report.result import RunResult, place
from rlfast.experiment.report.unused import unused_settings
from rlfast.experiment.run_dir import (
    BEST,
    CHECKPOINT,
    ERROR_LOG,
    PRETRAINED,
    beside,
    check_files,
    check_writable,
    make_run_dir,
    only_process,
    read_beyond,
    read_config,
    write_config,
)
from rlfast.experiment.training import CheckpointSaver, make_loggers, make_trainer, train_to_end
from rlfast.utils.logger import CSVLogger
from rlfast.utils.runtime.extras import how_to_install
from rlfast.utils.runtime.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlfast.experiment.build import Parts
    from rlfast.experiment.config import RunConfig
    from rlfast.trainer import BaseTrainer

__all__ = ["ConfigError", "RunResult", "go_online", "resume", "train"]

_CANNOT_RUN = (ValueError, gym.error.Error, ImportError, OSError)


class ConfigError(ValueError):
    """Settings that cannot be run, found before anything was started."""


def train(
    config: RunConfig,
    declaration: Declaration | None = None,
    *,
    pretrained: Path | None = None,
    make_parts: Callable[[RunConfig, Declaration], Parts] = build,
) -> RunResult:
    """Trains a policy, and writes logs, checkpoints and the learning curve to the folder of the run.

    SIGINT, SIGTERM and SIGHUP end it after the current step. Checkpoint and learning curve are written then, too, and
    :func:`resume` continues the run. The traceback of an error is written to ``error.log``.

    :param config: the settings of the run.
    :param declaration: makes what the settings do not say. Default: they say all.
    :param pretrained: the checkpoint of another run of the algorithm, whose policy this run begins with. It is copied.
    :param make_parts: makes the parts of the run.
    :return: the result.
    :raises ConfigError: if the settings cannot be run; nothing was started then.
    """
    algorithm = algorithm_of(config)
    declaration = declaration or Declaration()
    try:
        check_settings(config)
        with ExitStack() as made:
            parts = make_parts(config, declaration)
            made.callback(parts.close)
            declaration.prepare(parts)
            if pretrained is not None:
                load_policy(pretrained, parts.policy)
            run_dir = make_run_dir(config, algorithm.name)
            config = replace(config, run_dir=run_dir)
            write_config(run_dir, config, algorithm.name, declaration.beyond)
            declaration.save(run_dir)
            if pretrained is not None:
                copy_policy(pretrained, run_dir / PRETRAINED)
            remember(config)
            made.pop_all()
    except _CANNOT_RUN as error:
        raise ConfigError(str(error)) from error
    if type(declaration) is Declaration:  # objects of Python may read other settings
        for sentence in unused_settings(config, parts.policy):
            warnings.warn(sentence, RunWarning, stacklevel=2)
    return _run_and_close(config, run_dir, parts, checkpoint=None)


_IN_CHECKPOINTS = re.compile(r"seed|env_seeds|adam_eps|alpha|(\w+_)?learning_rate")
"""Settings that are with the optimizers, the networks and the random streams in checkpoints."""


def check_settings(config: RunConfig) -> None:
    """Checks what a new run needs beyond valid settings.

    :param config: the settings of the run.
    :raises ValueError: if an offline algorithm has no data, a library for films is missing, or the folder of the rows
        is a bare word, which may be a misspelt name of a storage in memory.
    """
    if isinstance(config, DataConfig) and config.data is None:
        raise ValueError(f"--data is needed: {algorithm_of(config).title} learns from a buffer's file or a dataset")
    if config.video_interval is not None and find_spec("moviepy") is None:
        raise ValueError(f"--video-interval needs moviepy, which is not installed: {how_to_install('video')}")
    storage = getattr(config, "storage", "ram")
    if storage in ("ram", *PACKED) or Path(storage).name != storage or Path(storage).is_dir():
        return
    raise ValueError(f"--storage {storage} is none of ram, {', '.join(PACKED)}: write ./{storage} for a folder")


def resume(
    run_dir: str | os.PathLike[str],
    *,
    allow_import: bool = False,
    make_parts: Callable[[RunConfig, Declaration], Parts] = build,
    **changes: Any,
) -> RunResult:
    """Continues a run from its checkpoint as if it had never stopped.

    Entries of logs after the checkpoint are removed. Warnings name parts that cannot be restored, such as environments
    with simulators in other languages. With a warning, a run that was stopped before its first checkpoint begins anew,
    and a run from a device that this machine does not have continues on the CPU.

    :param run_dir: the folder of the run.
    :param allow_import: whether the folder is trusted: the module in an environment's id such as ``"module:Env-v0"``
        may be imported, and the objects of a declaration unpickled, which runs code that the folder names. Default:
        False, which allows only what a run of yours has named on this machine.
    :param make_parts: makes the parts of the run.
    :param changes: settings to change, such as ``max_steps`` or ``device``; not seeds, learning rates and other numbers
        that the checkpoint has. A run that a test has ended goes on with another ``stop_return``. A Ray cluster must be
        named here: the run does not connect to the one in its settings by itself.
    :return: the result.
    :raises ConfigError: if there is no such run, its checkpoint cannot be used, or a change is not possible; nothing
        was started then.
    """
    run_dir = Path(run_dir)
    try:
        before = read_config(run_dir)
        config = replace(before, run_dir=run_dir, **changes)
        for name in changes:
            if _IN_CHECKPOINTS.fullmatch(name) and getattr(config, name) != getattr(before, name):
                raise ValueError(f"a resumed run has its {name} from the checkpoint: leave {name} out")
        check_outside(run_dir, config, allow=allow_import, asked=changes)
        check_cluster(run_dir, config, changes)
        here = on_this_machine(config, changes.get("device"))
        check_files(run_dir)
        check_writable(run_dir, "copy the run to a folder of yours, and resume it there")
        saved = any((run_dir / name).exists() for name in (CHECKPOINT, CHECKPOINT + ".old"))
        if not saved and any(CSVLogger(run_dir / "metrics.csv").restore_data()):
            raise FileNotFoundError(f"the checkpoint of {run_dir} is gone: put it back, or start another run")
        declaration = read_declaration(run_dir, read_beyond(run_dir), allow_import=allow_import)
        with ExitStack() as made:
            parts = make_parts(here, declaration)
            made.callback(parts.close)
            if not saved:
                declaration.prepare(parts)
            made.pop_all()
    except (*_CANNOT_RUN, TypeError) as error:
        raise ConfigError(str(error)) from error
    if not saved:
        warnings.warn(f"{run_dir} was stopped before its first checkpoint: it begins anew", RunWarning, stacklevel=2)
    return _run_and_close(here, run_dir, parts, checkpoint=run_dir / CHECKPOINT if saved else None, written=config)


def go_online(
    offline_run: str | os.PathLike[str],
    *,
    allow_import: bool = False,
    make_parts: Callable[[RunConfig, Declaration], Parts] = build,
    **changes: Any,
) -> RunResult:
    """Begins a run that continues an offline run in the environment: it has the policy of its checkpoint, collects, and
    learns from the data and from what it collects.

    It has a folder of its own, and is resumed as any other; the offline run stays as it is.

    :param offline_run: the folder of the offline run.
    :param allow_import: see :func:`resume`.
    :param make_parts: makes the parts of the run.
    :param changes: settings that differ from those of the offline run: ``online_steps`` and others. Default of
        ``run_dir``: the folder of the offline run with ``-online`` after it, and a number if that exists.
    :return: the result.
    :raises ConfigError: if there is no such run, it did not learn from data alone, or the changes are not possible;
        nothing was started then.
    """
    run_dir = Path(offline_run)
    try:
        before = read_config(run_dir)
        if before.collects or not isinstance(before, OfflineRewardConfig):
            raise ValueError(
                f"--online-steps continues a run that learned from data and its rewards alone, and {run_dir} is of "
                f"{algorithm_of(before).title}{' that collects' * before.collects}: leave it out"
            )
        if "data" in changes and before.normalize_obs:
            raise ValueError(
                "--normalize-obs scales by statistics of the data that the run learned from: leave out --data"
            )
        if beyond := read_beyond(run_dir):
            raise ValueError(f"{run_dir} was declared by Python objects ({'; '.join(beyond)}): continue it in a script")
        config = replace(before, **{"run_dir": beside(run_dir, "online")} | changes)
        check_outside(run_dir, config, allow=allow_import, asked=changes)
        config = on_this_machine(config, changes.get("device"))
    except (*_CANNOT_RUN, TypeError) as error:
        raise ConfigError(str(error)) from error
    return train(config, pretrained=run_dir / CHECKPOINT, make_parts=make_parts)


def _run_and_close(
    config: RunConfig, run_dir: Path, parts: Parts, checkpoint: Path | None, written: RunConfig | None = None
) -> RunResult:
    """Runs the training, writes the traceback of an error, and closes everything.

    :param written: the settings for ``config.json``, if they differ from ``config``, such as in the device.
    """
    try:
        with ExitStack() as held:
            try:
                held.enter_context(only_process(run_dir))
            except OSError as error:
                raise ConfigError(str(error)) from error
            return _run(config, run_dir, parts, checkpoint, written or config)
    except ConfigError:
        raise
    except Exception as error:
        with suppress(OSError):  # the disk may be full
            replace_file(run_dir / ERROR_LOG, traceback.format_exc().encode())
            error.add_note(f"(traceback in {run_dir / 'error.log'})")
        if ":" in config.env:  # an environment of the user's
            error.add_note(f"(rlfast check-env {shlex.quote(config.env)} looks for mistakes in the environment)")
        raise
    finally:
        parts.close()


def _run(config: RunConfig, run_dir: Path, parts: Parts, checkpoint: Path | None, written: RunConfig) -> RunResult:
    if checkpoint is None:  # removes the logs of a run that was stopped before its first checkpoint
        for path in (run_dir / "metrics.csv", run_dir / "metrics.jsonl", *run_dir.glob("events.out.tfevents.*")):
            path.unlink(missing_ok=True)
        shutil.rmtree(run_dir / BEST, ignore_errors=True)
        if (run_dir / PRETRAINED).exists():
            load_policy(run_dir / PRETRAINED, parts.policy)
    (run_dir / ERROR_LOG).unlink(missing_ok=True)  # of an earlier part of the run
    declaration = parts.declaration
    logger = make_loggers(run_dir, config, declaration)
    try:
        saver = CheckpointSaver(config, run_dir)
        trainer = make_trainer(config, parts, logger, saver)
        if checkpoint is not None:
            _load(checkpoint, trainer)
            trainer.stop_fn_flag &= read_config(run_dir).stop_return == config.stop_return
            if not trainer.is_over:
                write_config(run_dir, written, algorithm_of(config).name, declaration.beyond)  # with the changes
            else:
                why = f", where a test reached {config.stop_return:g}" if trainer.stop_fn_flag else ""
                where = place(config, trainer.env_step)
                warnings.warn(f"the run had ended at {where}{why}: nothing was left to do", RunWarning, stacklevel=2)
        declaration.begin(trainer)
        interrupt = train_to_end(trainer, saver)
    finally:
        logger.close()
    _draw(config, run_dir)
    return RunResult(
        config=config,
        run_dir=run_dir,
        info=trainer.info(),
        env_step=trainer.env_step,
        test=trainer.last_test,
        best=read_test(saver.best),
        interrupted=interrupt.aborted or (interrupt.happened and not trainer.is_over),
        unsaved="it was interrupted at once" if interrupt.aborted else saver.failure,
    )


def _draw(config: RunConfig, run_dir: Path) -> None:
    title = f"{algorithm_of(config).title}, {config.env}, seed {config.seed}"
    try:
        learning_curve(run_dir, title=title, target=config.stop_return)
    except (ValueError, OSError) as error:  # the run has succeeded without the picture
        warnings.warn(f"the learning curve could not be drawn: {error}", RunWarning, stacklevel=2)


def _load(checkpoint: Path, trainer: BaseTrainer) -> None:
    try:
        lost = load_checkpoint(checkpoint, trainer)
    except (ValueError, FileNotFoundError) as error:
        raise ConfigError(str(error)) from error
    for sentence in lost:
        warnings.warn(f"not resumed exactly: {sentence}", RunWarning, stacklevel=2)
