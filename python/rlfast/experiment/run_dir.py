"""The folder of a run."""

from __future__ import annotations

import json
import os
import platform
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
from rlfast.experiment.algorithms import find
from rlfast.utils.plain import WRONG_DATA, summary

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:
    fcntl = None

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlfast.experiment.config import RunConfig


def make_run_dir(config: RunConfig, algorithm: str) -> Path:
    """Makes the folder asked for, or the first that is free of ``runs/ALGO-ENV-seedSEED``, ``...-2``, ``...-3``.

    :raises FileExistsError: the folder asked for holds something already.
    """
    if config.run_dir is not None:
        if config.run_dir.exists() and (not config.run_dir.is_dir() or any(config.run_dir.iterdir())):
            raise FileExistsError(f"{config.run_dir} is not empty: choose another --run-dir, or delete it")
        config.run_dir.mkdir(parents=True, exist_ok=True)
        return config.run_dir
    name = f"{algorithm}-{config.env.replace('/', '-')}-seed{config.seed}"
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
    """Holds a run's folder for this process; the system lets go of it when the process ends, however it does.

    :raises BlockingIOError: another process is training there.
    """
    if fcntl is None:  # Windows, which refuses to replace files that are in use
        yield
        return
    descriptor = os.open(run_dir, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BlockingIOError(f"another process is training in {run_dir}: let it end, or end it") from None
        except OSError:  # file systems that know no locks, such as some of networks
            pass
        yield
    finally:
        os.close(descriptor)


def write_config(run_dir: Path, config: RunConfig, algorithm: str) -> None:
    """Writes ``config.json``: the resolved configuration and the versions it ran with."""
    libraries = {module.__name__: module.__version__ for module in (torch, np, gym)}
    content = {
        "algorithm": algorithm,
        "config": json.loads(config.to_json()),
        "versions": {"python": sys.version.split()[0], "rlfast": __version__, **libraries},
        "platform": platform.platform(),
    }
    replace_file(run_dir / "config.json", (json.dumps(content, indent=2) + "\n").encode())


def replace_file(path: Path, content: bytes) -> None:
    """Writes a file anew. A link in its place is replaced, and what it leads to stays as it is."""
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
    """Logs of a run are appended to and cut: as links they would do that to files elsewhere.

    :raises ValueError: one is a symbolic link.
    """
    for pattern in ("metrics.csv*", "metrics.jsonl*", "events.out.tfevents.*"):
        for path in run_dir.glob(pattern):
            if path.is_symlink():
                raise ValueError(f"{path} is a symbolic link, and going on would change what it leads to: put it there")


def check_env(run_dir: Path, env: str, *, allow_import: bool) -> None:
    """A run's folder may be somebody else's: making an environment whose id names a module would run that module.

    :raises ValueError: the id in ``config.json`` names a module, and importing is not allowed.
    """
    module = env.rpartition(":")[0]
    if module and not allow_import:
        raise ValueError(
            f"{run_dir / 'config.json'} names the environment {env!r}, and to make it the module {module!r} would be "
            "imported, which runs it: who trusts the folder says --allow-import, or allow_import=True"
        )


def read_config(run_dir: Path) -> RunConfig:
    """The configuration in a run's ``config.json``; ``train`` of it (with another ``run_dir``) repeats the run.

    :raises FileNotFoundError: there is none.
    :raises ValueError: it is of an algorithm that is not there, or damaged.
    """
    path = run_dir / "config.json"
    if not path.exists():
        raise FileNotFoundError(f"{run_dir} is no run folder: it has no config.json")
    try:
        content = json.loads(path.read_text())
        algorithm = find(content["algorithm"])
        return algorithm.config.from_json(json.dumps(content["config"]))
    except WRONG_DATA as error:
        raise ValueError(f"{path} cannot be used: {summary(error)}") from error
