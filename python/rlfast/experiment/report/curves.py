"""The tests of runs over their steps, from the folders of runs or from small CSV files that are kept of them."""

from __future__ import annotations

import csv
import json
import shlex
import warnings
from dataclasses import dataclass, fields
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rlfast.data.plain_data import WRONG_DATA, summary
from rlfast.evaluation.curves import read_curves
from rlfast.experiment.algorithms import algorithm_of, find
from rlfast.experiment.config import OfflineConfig, RunConfig, RunWarning, flag
from rlfast.experiment.run_dir import has_ended, read_beyond, read_config, read_versions, run_name
from rlfast.utils.logger import CSVLogger
from rlfast.utils.runtime.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_COLUMNS: Final = ("step", "mean", "std", "episodes")
_NOT_KEPT: Final = ("run_dir", "progress")
"""Settings that are not in files of curves: they say nothing about the result."""
_NO_CONFIGURATION: Final = ("seed", "env_seeds", *_NOT_KEPT, "save_buffer", "require_stop_return", "device")
"""Settings in which the runs of one curve may differ: what they learn from is drawn from the same distribution."""


@dataclass(frozen=True, kw_only=True)
class RunCurve:
    """The tests of a run, and what is needed to compare and to repeat it."""

    source: Path
    """The folder of the run, or the file of its curve."""
    config: RunConfig
    """Its settings."""
    beyond: tuple[str, ...]
    """What the settings do not say, in words."""
    versions: dict[str, str]
    """The versions of libraries, by their names."""
    processor: str
    """The name of the processor; empty for runs of older versions."""
    seconds: float
    """The wall clock of the run, with tests and all its parts."""
    ended: bool
    """Whether the run has ended; False while it is running, and where it was interrupted."""
    steps: tuple[int, ...]
    """The step of each test, increasing: environment steps, or gradient steps of a run that learns from data alone."""
    mean: tuple[float, ...]
    """The mean return of each test."""
    std: tuple[float, ...]
    """The standard deviation of the returns of each test."""

    @property
    def algorithm(self) -> str:
        """The name of the algorithm for people."""
        return algorithm_of(self.config).title


@dataclass(frozen=True)
class Configuration:
    """What the runs of one curve have in common."""

    algorithm: str
    """The name of the algorithm for people."""
    env: str
    """The id of the environment."""
    settings: str
    """All other settings, as JSON."""

    @property
    def values(self) -> dict[str, Any]:
        """All other settings."""
        values: dict[str, Any] = json.loads(self.settings)
        return values


def find_curves(folder: Path) -> list[RunCurve]:
    """Returns all runs in a folder, at any depth: the folders of runs, and CSV files of curves. Those without a test
    are left out with a warning.

    :param folder: a folder; or that of a run; or a CSV file.
    :return: the runs, in the order of their paths.
    :raises FileNotFoundError: if there is no such folder.
    :raises ValueError: if there is no run with a test, or one is damaged.
    """
    if folder.is_file() or (folder / "config.json").is_file():
        return [read_run(folder)]
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is no folder with runs")
    folders = {path.parent for path in folder.rglob("config.json")}
    files = [path for path in folder.rglob("*.csv") if not folders.intersection(path.parents)]
    begun = sorted(run for run in folders if not folders.intersection(run.parents))
    tested = [run for run in begun if _has_test(run)]
    if not tested and not files:
        raise ValueError(f"{folder} has no run with a test, and no file of evaluation curves")
    for run in begun:
        if run not in tested:
            warnings.warn(f"{run} has no test yet: it is left out", RunWarning, stacklevel=2)
    return [read_run(path) for path in sorted([*tested, *files])]


def _has_test(run_dir: Path) -> bool:
    return any(row["scope"] == "test" for row in CSVLogger(run_dir / "metrics.csv").rows())


def read_run(path: Path) -> RunCurve:
    """Returns the tests of a run.

    :param path: the folder of the run, or a CSV file of its curve, see :func:`write_curve`.
    :raises FileNotFoundError: if it is neither.
    :raises ValueError: if the run has no tests yet, or is damaged.
    """
    curve = _read_file(path) if path.is_file() else _read_folder(path)
    if not curve.steps:
        raise ValueError(f"{path} has no tests yet")
    if not np.isfinite(curve.mean).all():
        raise ValueError(f"{path} has a test whose mean return is no finite number")
    return curve


def _read_folder(run_dir: Path) -> RunCurve:
    config = read_config(run_dir)
    versions, processor = read_versions(run_dir)
    tests = read_curves(run_dir / "metrics.csv", "test", "mean", "std")
    rows = config.batch_size if isinstance(config, OfflineConfig) else 1  # logs of such runs count rows
    return RunCurve(
        source=run_dir,
        config=config,
        beyond=tuple(read_beyond(run_dir)),
        versions=versions,
        processor=processor,
        seconds=max((float(row["time"]) for row in CSVLogger(run_dir / "metrics.csv").rows()), default=0.0),
        ended=has_ended(run_dir, config) or max(tests["step"], default=0) // rows >= config.steps,
        steps=tuple(int(step) // rows for step in tests["step"]),
        mean=tuple(tests["mean"]),
        std=tuple(tests["std"]),
    )


def _read_file(path: Path) -> RunCurve:
    try:
        first, _, rest = path.read_text().partition("\n")
        if not first.startswith("# {"):
            raise ValueError("its first line is not that of rlfast report --curves")
        head = json.loads(first.removeprefix("# "))
        rows = [*csv.DictReader(StringIO(rest), strict=True)]
        return RunCurve(
            source=path,
            config=find(head["algorithm"]).config.from_json(json.dumps(head["settings"])),
            beyond=tuple(map(str, head["beyond"])),
            versions={str(name): str(version) for name, version in head["versions"].items()},
            processor=str(head["processor"]),
            seconds=float(head["seconds"]),
            ended=head["ended"] is True,
            steps=tuple(int(row["step"]) for row in rows),
            mean=tuple(float(row["mean"]) for row in rows),
            std=tuple(float(row["std"]) for row in rows),
        )
    except WRONG_DATA as error:
        raise ValueError(f"{path} is no file of evaluation curves: {summary(error)}") from error


def write_curve(run: RunCurve, folder: Path) -> Path:
    """Writes the tests of a run as a small CSV file, with what is needed to repeat it as JSON in its first line.

    :param run: the run.
    :param folder: the folder of the file, which is made.
    :return: the file, ``ALGO-ENV-seedSEED.csv``.
    """
    algorithm = algorithm_of(run.config).name
    settings = json.loads(run.config.to_json())
    head = {
        "command": command_of(run.config),
        "algorithm": algorithm,
        "env": run.config.env,
        "seed": run.config.seed,
        "ended": run.ended,
        "seconds": round(run.seconds, 1),
        "processor": run.processor,
        "versions": run.versions,
        "beyond": list(run.beyond),
        "settings": {name: value for name, value in settings.items() if name not in _NOT_KEPT},
    }
    text = StringIO(newline="")
    text.write(f"# {json.dumps(head)}\n")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(_COLUMNS)
    table.writerows((*row, run.config.eval_episodes) for row in zip(run.steps, run.mean, run.std, strict=True))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{run_name(run.config, algorithm)}.csv"
    replace_file(path, text.getvalue().encode())
    return path


def command_of(config: RunConfig) -> str:
    """Returns the command that trains with these settings: those that differ from the preset are options.

    :param config: the settings.

    >>> from dataclasses import replace
    >>> from rlfast.experiment import ALGORITHMS
    >>> command_of(replace(ALGORITHMS["sac"].preset("Pendulum-v1"), seed=3, hidden_sizes=(8, 8), bounded=True))
    'rlfast train sac --env Pendulum-v1 --seed 3 --hidden-sizes 8 8 --bounded'
    """
    algorithm = algorithm_of(config)
    preset = algorithm.preset(config.env)
    words = ["rlfast", "train", algorithm.name, "--env", config.env, "--seed", str(config.seed)]
    for one in fields(config):
        value = getattr(config, one.name)
        if one.name not in ("env", "seed", *_NOT_KEPT) and value != getattr(preset, one.name):
            words += _option(flag(one.name), value)
    return shlex.join(words)


def _option(option: str, value: object) -> list[str]:
    if isinstance(value, bool):
        return [option if value else option.replace("--", "--no-", 1)]
    if isinstance(value, dict):
        return [option, *(f"{name}={json.dumps(one)}" for name, one in value.items())]
    return [option, *map(str, value if isinstance(value, tuple) else (value,))]


def grouped(runs: Iterable[RunCurve]) -> dict[Configuration, list[RunCurve]]:
    """Returns the runs of each configuration.

    :param runs: the runs.
    :raises ValueError: if a run is given twice, by one path or two.
    """
    groups: dict[Configuration, list[RunCurve]] = {}
    seen: dict[Any, Path] = {}
    for run in runs:
        config, path = run.config, run.source
        values = json.loads(config.to_json()) | {"declared": list(run.beyond)}
        settings = {name: value for name, value in values.items() if name not in ("env", *_NO_CONFIGURATION)}
        key = Configuration(run.algorithm, config.env, json.dumps(settings))
        if path.resolve() in seen:
            raise ValueError(f"{path} is given twice: it would count as two seeds")
        if (other := seen.get((key, config.seed, config.env_seeds))) is not None:
            raise ValueError(
                f"{other} and {path} are runs of the same configuration and the same seed {config.seed}, and would "
                "count as two seeds: leave one out"
            )
        seen |= {path.resolve(): path, (key, config.seed, config.env_seeds): path}
        groups.setdefault(key, []).append(run)
    return groups


def labels_of(keys: Sequence[Configuration]) -> dict[Configuration, str]:
    """Returns the label of each configuration: the algorithm, and the settings in which it differs from others of the
    same algorithm and environment.

    :param keys: the configurations.
    """
    labels = {}
    for key in keys:
        others = [one.values for one in keys if (one.algorithm, one.env) == (key.algorithm, key.env)]
        varied = [name for name in key.values if any(other.get(name) != key.values[name] for other in others)]
        parts = [f"{name.replace('_', ' ')} {_shown(key.values[name])}" for name in varied]
        labels[key] = ", ".join([key.algorithm, *parts])
    return labels


def _shown(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "on", False: "off", None: "none"}[value]
    if isinstance(value, list):
        return "-".join(map(_shown, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
