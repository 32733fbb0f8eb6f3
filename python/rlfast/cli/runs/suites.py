"""Suites: named lists of tasks, which several algorithms learn with several seeds."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rlfast.cli.main import unknown
from rlfast.env.specs import is_atari, simulator_of
from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.experiment.config import DataConfig, flag
from rlfast.experiment.config.presets import ALE
from rlfast.experiment.run_dir import described_by
from rlfast.utils.arguments.validation import NonNegativeInt, PositiveInt, validate
from rlfast.utils.runtime.extras import how_to_install
from rlfast.utils.runtime.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlfast.experiment.config import RunConfig

SUITES: Final[dict[str, tuple[str, ...]]] = {
    "mujoco-v5": ("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5", "Humanoid-v5", "InvertedDoublePendulum-v5"),
    "classic": ("CartPole-v1", "Acrobot-v1", "MountainCarContinuous-v0", "Pendulum-v1"),
    "box2d": ("LunarLander-v3", "BipedalWalker-v3"),
    "atari-5": tuple(f"ALE/{game}-v5" for game in ("Pong", "Breakout", "Qbert", "BeamRider", "Seaquest")),
}
"""The tasks of each suite, by its name."""

SUITE_FILE = "suite.json"
"""Name of the file that says what a suite runs, in its folder."""


@dataclass(frozen=True, kw_only=True)
class Suite:
    """What a suite runs.

    :raises TypeError: if a value has another type than its field.
    :raises ValueError: if there is no such suite, algorithm or task; if an algorithm learns from data; or if a value is
        out of range.
    """

    name: str
    """A key of :data:`SUITES`."""
    algorithms: tuple[str, ...]
    """Names of algorithms, as on the command line."""
    tasks: tuple[str, ...]
    """Ids of environments of this suite."""
    seeds: tuple[int, ...]
    """The seeds of each algorithm on each task."""
    max_steps: int | None = None
    """Environment steps of each run. Default: those of its preset."""
    device: str = "cpu"
    """The device of the networks."""

    def __post_init__(self) -> None:
        if self.name not in SUITES:
            raise ValueError(unknown("suite", self.name, SUITES))
        self._check("algorithms", tuple[str, ...])
        self._check("tasks", tuple[str, ...])
        self._check("seeds", tuple[NonNegativeInt, ...])
        self._check("max_steps", PositiveInt | None)
        self._check("device", str)
        for algorithm in self.algorithms:
            if algorithm not in ALGORITHMS:
                raise ValueError(f"{unknown('algorithm', algorithm, ALGORITHMS, listed=False)} (rlfast train --help)")
            if issubclass(ALGORITHMS[algorithm].config, DataConfig):
                raise ValueError(f"{algorithm} learns from data, which suites do not have: leave it out")
        for task in self.tasks:
            if task not in SUITES[self.name]:
                raise ValueError(unknown(f"task of {self.name}", task, SUITES[self.name]))

    def _check(self, name: str, hint: Any) -> None:
        value = validate(flag(name), getattr(self, name), hint)
        if value == ():
            raise ValueError(f"the suite has no {name}")
        object.__setattr__(self, name, tuple(dict.fromkeys(value)) if isinstance(value, tuple) else value)

    def configs(self) -> Iterator[RunConfig]:
        """Yields the settings of all runs: presets, with one thread; first all runs of the first seed."""
        changes: dict[str, Any] = {} if self.max_steps is None else {"max_steps": self.max_steps}
        for seed in self.seeds:
            for task in self.tasks:
                for name in self.algorithms:
                    if has_preset(name, task):
                        preset = ALGORITHMS[name].preset(task)
                        yield replace(preset, seed=seed, device=self.device, threads=1, progress=False, **changes)

    def left_out(self) -> list[str]:
        """Returns a sentence for each algorithm and the tasks that it cannot learn or has no presets for."""
        sentences = []
        for name in self.algorithms:
            reasons: dict[str, list[str]] = {}
            for task in self.tasks:
                if not has_preset(name, task):
                    reasons.setdefault(_why_not(name, task), []).append(task)
            sentences += [f"{name} is left out on {', '.join(tasks)}: {reason}" for reason, tasks in reasons.items()]
        return sentences

    def missing_library(self) -> str | None:
        """Returns a sentence about a library that a task needs and that is not installed; None if all are there."""
        for task in self.tasks:
            library, extra = simulator_of(task) or ("", "")
            if library and find_spec(library) is None:
                return f"{task} needs {library}, which is not installed: {how_to_install(extra)}"
        return None

    def write(self, folder: Path) -> None:
        """Writes what the suite runs.

        :param folder: the folder of the suite.
        """
        replace_file(folder / SUITE_FILE, (json.dumps(asdict(self), indent=2) + "\n").encode())

    @classmethod
    def read(cls, folder: Path) -> Suite:
        """Returns the suite of a folder.

        :param folder: the folder.
        :raises FileNotFoundError: if it has none.
        :raises ValueError: if its file is damaged.
        """
        with described_by(folder, SUITE_FILE, "folder of a suite") as values:
            return cls(**values)


def has_preset(algorithm: str, task: str) -> bool:
    """Whether an algorithm has settings that are known to work for a task."""
    presets = ALGORITHMS[algorithm].presets
    return task in presets or (is_atari(task) and ALE in presets)


def _why_not(algorithm: str, task: str) -> str:
    """Returns why an algorithm does not learn a task that it has no preset for."""
    from rlfast.experiment.environments import make_env
    from rlfast.experiment.networks import Networks

    found = ALGORITHMS[algorithm]
    config = found.preset(task)
    env = make_env(config, training=True)
    try:
        found.build(Networks(config, found.title, env.observation_space, env.action_space))
    except ValueError as error:
        return str(error).partition(", and those of")[0]
    finally:
        env.close()
    return f"there is no preset (rlfast train {algorithm} --env {task} has the defaults)"
