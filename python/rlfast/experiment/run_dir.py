"""The folder of a run."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import sys
import time
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rlfast._core import __version__
from rlfast.data.plain_data import WRONG_DATA, summary
from rlfast.experiment.algorithms import find
from rlfast.experiment.config import OfflineConfig
from rlfast.utils.runtime.cores import processor
from rlfast.utils.runtime.files import replace_file

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:
    fcntl = None

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlfast.experiment.config import RunConfig


CHECKPOINT = "checkpoint"
"""Name of the folder of the checkpoint, in the run's folder."""

BEST = "best"
"""Name of the folder of the policy with the best test, in the run's folder."""

PRETRAINED = "pretrained"
"""Name of the folder of the checkpoint whose policy a run began with, in the run's folder."""

ERROR_LOG = "error.log"
"""Name of the file with the traceback of an error that ended the run, in the run's folder."""


def run_name(config: RunConfig, algorithm: str) -> str:
    """Returns the usual name of the folder of a run, ALGO-ENV-seedSEED, with dashes for slashes and colons.

    :param config: the settings of the run.
    :param algorithm: the name of the algorithm.
    """
    return f"{algorithm}-{re.sub('[/:]', '-', config.env)}-seed{config.seed}"  # TensorBoard reads a colon as its own


def make_run_dir(config: RunConfig, algorithm: str) -> Path:
    """Makes the folder of a run: ``run_dir`` of the settings, or ``runs/ALGO-ENV-seedSEED``, with a number if it
    exists, and dashes for slashes and colons.

    :param config: the settings of the run.
    :param algorithm: the name of the algorithm.
    :return: the folder.
    :raises FileExistsError: if ``run_dir`` is not empty.
    """
    if config.run_dir is not None:
        if config.run_dir.exists() and (not config.run_dir.is_dir() or any(config.run_dir.iterdir())):
            what = f"{config.run_dir} is not empty: choose another --run-dir, or delete it"
            if (config.run_dir / "config.json").is_file():
                what += f"; rlfast train --resume {shlex.quote(str(config.run_dir))} continues the run in it"
            raise FileExistsError(what)
        _make_folder(config.run_dir, exist_ok=True)
        return config.run_dir
    name = run_name(config, algorithm)
    for number in count(1):
        run_dir = Path("runs", name if number == 1 else f"{name}-{number}")
        try:
            _make_folder(run_dir, exist_ok=False)
        except FileExistsError:
            continue
        return run_dir
    raise AssertionError("count() does not end")


def beside(run_dir: Path, word: str) -> Path:
    """Returns a folder that does not exist, beside that of a run: its name with a word after it, and a number if that
    exists.

    :param run_dir: the folder of the run.
    :param word: the word.
    """
    folder = run_dir.resolve()
    names = (f"{folder.name}-{word}{'' if number == 1 else f'-{number}'}" for number in count(1))
    return next(run_dir.parent / name for name in names if not folder.with_name(name).exists())


def _make_folder(folder: Path, *, exist_ok: bool) -> None:
    """Makes the folder of a run, in which files can be written.

    :raises FileExistsError: if it exists, without ``exist_ok``.
    :raises OSError: if it cannot be made, or not be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=exist_ok)
    except FileExistsError:
        raise
    except OSError as error:
        raise type(error)(f"{folder} cannot be made: {error.strerror}; choose another --run-dir") from error
    check_writable(folder, "choose another --run-dir")


def check_writable(folder: Path, advice: str) -> None:
    """Checks that files can be written in a folder.

    :param folder: the folder.
    :param advice: what to do if they cannot, for the error.
    :raises PermissionError: if they cannot.
    """
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(f"{folder} cannot be written to: {advice}")


@contextmanager
def reserved(config: RunConfig, algorithm: str) -> Iterator[Path]:
    """Makes the folder of a run, and deletes what it made if the folder is still empty at the end.

    :param config: the settings of the run.
    :param algorithm: the name of the algorithm.
    :return: the folder.
    :raises OSError: see :func:`make_run_dir`.
    """
    wanted = Path("runs") if config.run_dir is None else config.run_dir
    missing = [folder for folder in (wanted, *wanted.parents) if not folder.exists()]
    run_dir = make_run_dir(config, algorithm)
    made = [] if config.run_dir is not None and not missing else [run_dir, *missing]
    try:
        yield run_dir
    finally:
        with suppress(OSError):  # a folder that is not empty stays, and those around it
            for folder in dict.fromkeys(made):
                folder.rmdir()


@contextmanager
def only_process(run_dir: Path) -> Iterator[None]:
    """Locks the folder of a run for this process. The system unlocks it when the process ends.

    :param run_dir: the folder.
    :raises BlockingIOError: if another process is training in it.
    """
    if fcntl is None:  # on Windows, files in use cannot be replaced anyway
        yield
        return
    descriptor = os.open(run_dir, os.O_RDONLY)
    try:
        for attempt in count(1):
            if _locks(descriptor, fcntl.LOCK_EX):
                break
            if attempt == _ATTEMPTS:
                raise BlockingIOError(f"another process is training in {run_dir}: let it end, or end it")
            time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


_ATTEMPTS = 5
"""How often a lock is tried: :func:`is_training` holds one for an instant."""


def is_training(run_dir: Path) -> bool:
    """Whether a process of this machine is training in the folder of a run. False where files cannot be locked.

    :param run_dir: the folder.
    """
    if fcntl is None:
        return False
    descriptor = os.open(run_dir, os.O_RDONLY)
    try:
        return not _locks(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _locks(descriptor: int, kind: int) -> bool:
    """Locks an open folder until it is closed. False if another process has it locked."""
    assert fcntl is not None  # noqa: S101 (checked by the callers)
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks, such as some network ones
        pass
    return True


def write_config(run_dir: Path, config: RunConfig, algorithm: str, beyond: Sequence[str] = ()) -> None:
    """Writes ``config.json``, with all settings, the versions of libraries, and the processor and the GPU.

    :param run_dir: the folder of the run.
    :param config: the settings.
    :param algorithm: the name of the algorithm.
    :param beyond: what the settings do not say, see :class:`~rlfast.experiment.declaration.Declaration`.
    """
    import gymnasium as gym
    import numpy as np
    import torch

    from rlfast.env.specs import simulator_of

    simulator, device = simulator_of(config.env), torch.device(config.device)
    is_gpu = device.type == "cuda" and (device.index or 0) < torch.cuda.device_count()
    modules = [torch, np, gym, *([sys.modules[simulator[0]]] if simulator and simulator[0] in sys.modules else [])]
    libraries = {module.__name__: module.__version__ for module in modules}
    content = {
        "algorithm": algorithm,
        "config": json.loads(config.to_json()),
        **({"beyond": list(beyond)} if beyond else {}),
        "versions": {"python": sys.version.split()[0], "rlfast": __version__, **libraries},
        "platform": platform.platform(),
        "processor": processor() + (f", {torch.cuda.get_device_name(device)}" if is_gpu else ""),
    }
    replace_file(run_dir / "config.json", (json.dumps(content, indent=2) + "\n").encode())


def check_files(run_dir: Path) -> None:
    """Checks that the logs of a run are files of its folder alone, as resuming changes logs in place.

    :param run_dir: the folder of the run.
    :raises ValueError: if one is a link, or something else than a file.
    """
    for pattern in ("metrics.csv*", "metrics.jsonl*", "events.out.tfevents.*"):
        for path in run_dir.glob(pattern):
            if path.is_symlink():
                raise ValueError(f"{path} is a symbolic link, and going on would change what it leads to: put it there")
            if not path.is_file():
                raise ValueError(f"{path} is a folder, a pipe or a device: logs are files")
            if path.stat().st_nlink > 1:
                raise ValueError(
                    f"{path} has other names (hard links), and going on would change these files: copy the folder with "
                    "its contents, and resume the copy"
                )


def has_ended(run_dir: Path, config: RunConfig) -> bool:
    """Whether the checkpoint of a run is that of its end. False if there is none, or it is damaged.

    :param run_dir: the folder of the run.
    :param config: its settings.
    """
    counter = "gradient_step" if isinstance(config, OfflineConfig) else "env_step"
    try:
        head = _head(run_dir)
        over = head["over"] if "over" in head else head[counter] >= config.max_steps  # as older versions wrote it
    except (OSError, *WRONG_DATA):
        return False
    return over is True


def has_policy_alone(run_dir: Path) -> bool:
    """Whether the checkpoint of a run, such as an imported one, is a policy without what training needs.

    :param run_dir: the folder of the run.
    """
    try:
        return _head(run_dir).get("policy_only") is True
    except (OSError, *WRONG_DATA):
        return False


def _head(run_dir: Path) -> dict[str, Any]:
    head: dict[str, Any] = json.loads((run_dir / CHECKPOINT / "checkpoint.json").read_text())
    return head


def read_config(run_dir: str | os.PathLike[str]) -> RunConfig:
    """Returns the settings in a run's ``config.json``. Training with them, and another ``run_dir``, repeats the run.

    :param run_dir: the folder of the run.
    :raises FileNotFoundError: if there is no ``config.json``.
    :raises ValueError: if it is damaged, or names an unknown algorithm.
    """
    return _read(Path(run_dir))[0]


def read_beyond(run_dir: str | os.PathLike[str]) -> list[str]:
    """Returns what ``config.json`` does not say of a run, in words.

    :param run_dir: the folder of the run.
    :raises FileNotFoundError: if there is no ``config.json``.
    :raises ValueError: if it is damaged.
    """
    return _read(Path(run_dir))[1]


def read_versions(run_dir: Path) -> tuple[dict[str, str], str]:
    """Returns the versions of libraries that a run was trained with, by their names, and the processor.

    :param run_dir: the folder of the run.
    :return: both; empty where older versions of rlfast did not write them.
    """
    _read(run_dir)
    content = json.loads((run_dir / "config.json").read_text())
    versions = content.get("versions")
    named = {str(name): str(one) for name, one in versions.items()} if isinstance(versions, dict) else {}
    return named, str(content.get("processor", ""))


@contextmanager
def described_by(folder: Path, name: str, what: str) -> Iterator[Any]:
    """Reads the JSON file that describes a folder. Errors of what is done with its content name the file.

    :param folder: the folder.
    :param name: the name of the file.
    :param what: what the folder should be, for the error.
    :raises FileNotFoundError: if there is no such file.
    :raises ValueError: if it is damaged.
    """
    path = folder / name
    if not path.is_file():  # a pipe would be waited for
        raise FileNotFoundError(f"{folder} is no {what}: it has no {name}")
    try:
        yield json.loads(path.read_text())
    except WRONG_DATA as error:
        raise ValueError(f"{path} cannot be used: {summary(error)}") from error


def _read(run_dir: Path) -> tuple[RunConfig, list[str]]:
    with described_by(run_dir, "config.json", "run folder") as content:
        config = find(content["algorithm"]).config.from_json(json.dumps(content["config"]))
        beyond = content.get("beyond", [])
        if not isinstance(beyond, list) or not all(isinstance(one, str) for one in beyond):
            raise ValueError(f"beyond must be a list of texts, got {beyond!r:.100}")
    return config, beyond
