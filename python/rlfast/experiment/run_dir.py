"""The folder of a run."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import gymnasium as gym
import numpy as np
import torch

from rlfast._core import __version__
from rlfast.data.plain_data import WRONG_DATA, summary
from rlfast.experiment.algorithms import find

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:
    fcntl = None

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlfast.experiment.config import RunConfig


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
            raise FileExistsError(f"{config.run_dir} is not empty: choose another --run-dir, or delete it")
        config.run_dir.mkdir(parents=True, exist_ok=True)
        return config.run_dir
    name = f"{algorithm}-{re.sub('[/:]', '-', config.env)}-seed{config.seed}"  # TensorBoard reads a colon as its own
    for number in count(1):
        run_dir = Path("runs", name if number == 1 else f"{name}-{number}")
        try:
            run_dir.mkdir(parents=True)
        except FileExistsError:
            continue
        return run_dir
    raise AssertionError("count() does not end")


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
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlockingIOError(f"another process is training in {run_dir}: let it end, or end it") from None
        except OSError:  # a file system without locks, such as some network ones
            pass
        yield
    finally:
        os.close(descriptor)


def write_config(run_dir: Path, config: RunConfig, algorithm: str, beyond: Sequence[str] = ()) -> None:
    """Writes ``config.json``, with all settings and the versions of libraries.

    :param run_dir: the folder of the run.
    :param config: the settings.
    :param algorithm: the name of the algorithm.
    :param beyond: what the settings do not say, see :class:`~rlfast.experiment.declaration.Declaration`.
    """
    libraries = {module.__name__: module.__version__ for module in (torch, np, gym)}
    content = {
        "algorithm": algorithm,
        "config": json.loads(config.to_json()),
        **({"beyond": list(beyond)} if beyond else {}),
        "versions": {"python": sys.version.split()[0], "rlfast": __version__, **libraries},
        "platform": platform.platform(),
    }
    replace_file(run_dir / "config.json", (json.dumps(content, indent=2) + "\n").encode())


def replace_file(path: Path, content: bytes) -> None:
    """Replaces a file. A symbolic link in its place is replaced, too, and its target is unchanged.

    :param path: the file.
    :param content: the new contents.
    """
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    try:
        with fresh.open("xb") as file:
            file.write(content)
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def check_files(run_dir: Path) -> None:
    """Checks that no log of a run is a symbolic link, as resuming changes logs in place.

    :param run_dir: the folder of the run.
    :raises ValueError: if one is a symbolic link.
    """
    for pattern in ("metrics.csv*", "metrics.jsonl*", "events.out.tfevents.*"):
        for path in run_dir.glob(pattern):
            if path.is_symlink():
                raise ValueError(f"{path} is a symbolic link, and going on would change what it leads to: put it there")


def check_env(run_dir: Path, env: str, *, allow_import: bool) -> None:
    """Checks that making the environment of a run, whose folder may be untrusted, would not import a module.

    :param run_dir: the folder of the run.
    :param env: id of the environment.
    :param allow_import: whether a module may be imported.
    :raises ValueError: if the id names a module, and importing is not allowed.
    """
    module = env.rpartition(":")[0]
    if module and not allow_import:
        raise ValueError(
            f"{run_dir / 'config.json'} names the environment {env!r}, and to make it the module {module!r} would be "
            "imported, which runs it: who trusts the folder says --allow-import, or allow_import=True"
        )


def read_config(run_dir: Path) -> RunConfig:
    """Returns the settings in a run's ``config.json``. Training with them, and another ``run_dir``, repeats the run.

    :param run_dir: the folder of the run.
    :raises FileNotFoundError: if there is no ``config.json``.
    :raises ValueError: if it is damaged, or names an unknown algorithm.
    """
    return _read(run_dir)[0]


def read_beyond(run_dir: Path) -> list[str]:
    """Returns what ``config.json`` does not say of a run, in words.

    :param run_dir: the folder of the run.
    :raises FileNotFoundError: if there is no ``config.json``.
    :raises ValueError: if it is damaged.
    """
    return _read(run_dir)[1]


def _read(run_dir: Path) -> tuple[RunConfig, list[str]]:
    path = run_dir / "config.json"
    if not path.exists():
        raise FileNotFoundError(f"{run_dir} is no run folder: it has no config.json")
    try:
        content = json.loads(path.read_text())
        config = find(content["algorithm"]).config.from_json(json.dumps(content["config"]))
        beyond = content.get("beyond", [])
        if not isinstance(beyond, list) or not all(isinstance(one, str) for one in beyond):
            raise ValueError(f"beyond must be a list of texts, got {beyond!r:.100}")
    except WRONG_DATA as error:
        raise ValueError(f"{path} cannot be used: {summary(error)}") from error
    return config, beyond
