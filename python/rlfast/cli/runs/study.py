"""A study: runs of an algorithm, the trials, whose settings Optuna chooses by the tests of those before."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from rlfast.cli.runs.pool import PooledRun, tests
from rlfast.experiment.algorithms import find
from rlfast.experiment.config import stream_seed
from rlfast.experiment.config.search import OneOf, Range, Search, range_of
from rlfast.experiment.run_dir import described_by, read_config
from rlfast.utils.arguments.validation import PositiveInt, validate
from rlfast.utils.runtime.extras import needed_by
from rlfast.utils.runtime.files import replace_file

with needed_by("rlfast tune"):
    import optuna
    from optuna.trial import TrialState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rlfast.experiment.config import RunConfig

STUDY_FILE: Final = "study.json"
"""Name of the file that says what a study searches, in its folder."""
DATABASE: Final = "study.db"
"""Name of the SQLite database of Optuna."""
_AVERAGED: Final = 3
_FAILURES: Final = 3

Pruner = Literal["median", "hyperband", "none"]


def score(returns: Sequence[float]) -> float:
    """Returns the score of a trial so far: the mean of its last three tests, without the one before training.

    :param returns: the mean returns of its tests.

    >>> score([0.0, 10.0, 20.0, 30.0])
    20.0
    """
    last = returns[-_AVERAGED:]
    return sum(last) / len(last)


@dataclass(frozen=True, kw_only=True)
class Study:
    """What a study searches.

    :raises TypeError: if a value has another type than its field.
    :raises ValueError: if a value is out of range.
    """

    algorithm: str
    """The name on the command line."""
    config: RunConfig
    """The settings of all trials, but for those that are searched. Its seed is that of the first trial; each other one
    has the next."""
    search: Search
    """The ranges of the settings that are searched."""
    pruner: Pruner = "median"
    """Which trials are stopped early: those below the median of the others at the same step; those that Hyperband
    leaves out; or none."""
    trials: PositiveInt = 50
    """The number of trials."""

    def __post_init__(self) -> None:
        validate("--trials", self.trials, PositiveInt)
        validate("--pruner", self.pruner, Pruner)

    def write(self, folder: Path) -> None:
        """Writes what the study searches.

        :param folder: the folder of the study.
        """
        content = {
            "algorithm": self.algorithm,
            "trials": self.trials,
            "pruner": self.pruner,
            "search": {name: vars(one) for name, one in self.search.items()},
            "config": json.loads(self.config.to_json()),
        }
        replace_file(folder / STUDY_FILE, (json.dumps(content, indent=2) + "\n").encode())

    @classmethod
    def read(cls, folder: Path) -> Study:
        """Returns the study of a folder.

        :param folder: the folder.
        :raises FileNotFoundError: if it has none.
        :raises ValueError: if the file is damaged.
        """
        with described_by(folder, STUDY_FILE, "folder of a study") as values:
            config = find(values["algorithm"]).config.from_json(json.dumps(values["config"]))
            search = {name: range_of(one) for name, one in values["search"].items()}
            return cls(**values | {"config": config, "search": search})

    def open(self, folder: Path) -> optuna.Study:
        """Returns Optuna's study, which is made if there is none. Trials that a killed process was running wait again.

        :param folder: the folder of the study.
        """
        from sqlalchemy import URL

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        storage = optuna.storages.RDBStorage(URL.create("sqlite", database=str(folder / DATABASE)).render_as_string())
        opened = optuna.create_study(
            study_name=f"{self.algorithm} on {self.config.env}",
            storage=storage,
            load_if_exists=True,
            direction="maximize",
            pruner=self._pruner(),
        )
        for trial in opened.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
            again(opened, trial.number)
        return opened

    def sampler(self, number: int) -> optuna.samplers.BaseSampler:
        """Returns what suggests the settings of a trial. They follow from the seed of the study and the trials before,
        so a study that was interrupted goes on as it would have, with one trial at a time.

        :param number: the number of trials before.
        """
        return optuna.samplers.TPESampler(seed=stream_seed(self.config.seed, f"tune {number}"))

    def _pruner(self) -> optuna.pruners.BasePruner:
        steps, interval = self.config.steps, self.config.eval_interval
        if self.pruner == "median":
            return optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=steps // 5)
        if self.pruner == "hyperband":
            return optuna.pruners.HyperbandPruner(min_resource=min(3 * interval, steps), max_resource=steps)
        return optuna.pruners.NopPruner()

    def settings(self, values: dict[str, Any]) -> dict[str, Any]:
        """Returns the settings of a trial that are not those of the preset, for a file that ``--config`` reads.

        :param values: the searched ones.
        """
        config = replace(self.config, **values)
        preset = find(self.algorithm).preset(config.env)
        own = {"seed", "run_dir", "progress", "threads", "stop_return", "env"}
        there = json.loads(config.to_json())
        given = {one.name for one in fields(config) if getattr(config, one.name) != getattr(preset, one.name)}
        names = [one.name for one in fields(config) if one.name in (given | values.keys()) - own]
        return {"algorithm": self.algorithm, "env": config.env, **{name: there[name] for name in names}}


def again(study: optuna.Study, number: int) -> None:
    """Makes a trial that was interrupted wait: another one with its settings continues its run.

    :param study: the study.
    :param number: the number of the trial.
    """
    trial = study.get_trials(deepcopy=False)[number]
    study.tell(number, state=TrialState.FAIL)
    study.enqueue_trial(trial.params, user_attrs={"run": _run_of(trial)} | trial.user_attrs)


def _run_of(trial: optuna.trial.FrozenTrial) -> int:
    """Returns the number of the run of a trial, which all trials share that continue it."""
    return int(trial.user_attrs.get("run", trial.number))


def _texts(given: OneOf) -> dict[Any, Any]:
    """Returns the values of a range by what Optuna stores, which are texts for tuples, as on the command line."""
    return {" ".join(map(str, one)) if isinstance(one, tuple) else one: one for one in given.values}


def _suggested(trial: optuna.Trial, name: str, given: Range) -> Any:
    """Returns the value of a setting that Optuna suggests."""
    if isinstance(given, OneOf):
        texts = _texts(given)
        return texts[trial.suggest_categorical(name, [*texts])]
    if isinstance(given.low, int) and isinstance(given.high, int):
        return trial.suggest_int(name, given.low, given.high, log=given.log)
    return trial.suggest_float(name, given.low, given.high, log=given.log)


class Trial:
    """A trial that runs."""

    def __init__(self, asked: optuna.Trial, run: PooledRun, values: dict[str, Any]) -> None:
        self.asked, self.run, self.values = asked, run, values
        self.returns: list[float] = []
        self.step = 0
        """The step of the last test."""
        self.pruned = False

    def watch(self) -> None:
        """Reports tests that are new, and asks the run to stop if it is worse than others were."""
        trained = [one for one in tests(self.run.folder) if one[0] > 0]
        for step, value in trained[len(self.returns) :]:
            self.returns.append(value)
            self.step = step
            if math.isfinite(score(self.returns)):
                self.asked.report(score(self.returns), step)
                self.pruned = self.pruned or (step < self.run.config.steps and self.asked.should_prune())
        if self.pruned:
            self.run.stop(1)

    def outcome(self) -> str:
        """Returns what became of the run, in words."""
        if self.returns and (self.pruned or self.run.status == 0):
            return f"{score(self.returns):,.1f}{f', stopped at step {self.step:,}' if self.run.status else ''}"
        return self.run.outcome()


class Trials:
    """The trials of a study, which become runs of a pool.

    :param study: what is searched.
    :param folder: the folder of the study.
    """

    def __init__(self, study: Study, folder: Path) -> None:
        self.study, self.folder = study, folder
        self.optuna = study.open(folder)
        self.active: dict[int, Trial] = {}
        """The trials that run, by their numbers."""

    def ended_runs(self) -> int:
        """Returns the number of runs that have ended, not counting those that were interrupted."""
        ended: set[int] = set()
        waiting: set[int] = set()
        for trial in self.optuna.get_trials(deepcopy=False):
            (ended if trial.state.is_finished() else waiting).add(_run_of(trial))
        return len(ended - waiting)

    def runs(self) -> Iterator[PooledRun]:
        """Yields the runs of all trials that are left, whose settings are chosen when they are asked for. There are no
        more if the first three have failed, as all would then.
        """
        while self.ended_runs() + len(self.active) < self.study.trials:
            if self.ended_runs() >= _FAILURES and not self.scores():
                return
            if (run := self._next()) is not None:
                yield run

    def _next(self) -> PooledRun | None:
        """Returns the next run; None if its settings contradict each other."""
        self.optuna.sampler = self.study.sampler(self.ended_runs() + len(self.active))
        before = [_run_of(trial) for trial in self.optuna.get_trials(deepcopy=False)]
        asked = self.optuna.ask()
        if "run" not in asked.user_attrs:
            asked.set_user_attr("run", max(before, default=-1) + 1)
        number = asked.user_attrs["run"]
        values = {name: _suggested(asked, name, one) for name, one in self.study.search.items()}
        folder = self.folder / f"trial-{number:04}"
        begun = (folder / "config.json").exists()
        try:
            seed = self.study.config.seed + number
            config = read_config(folder) if begun else replace(self.study.config, **values, seed=seed)
        except ValueError as error:
            sys.stderr.write(f"trial {number} is left out: {error}\n")
            self.optuna.tell(asked, state=TrialState.FAIL)
            return None
        run = PooledRun(label=f"trial {number}", config=replace(config, run_dir=folder), folder=folder, resumed=begun)
        self.active[number] = Trial(asked, run, values)
        return run

    def watch(self) -> None:
        """Reports the tests of the trials that run, and stops those that are worse than others were."""
        for trial in self.active.values():
            trial.watch()

    def ended(self, run: PooledRun) -> Trial:
        """Tells Optuna what became of a trial.

        :param run: its run, which has ended.
        """
        (number,) = (number for number, one in self.active.items() if one.run is run)
        trial = self.active.pop(number)
        stopped = trial.run.stop_requests > 0
        trial.watch()
        if run.status == 0 and trial.returns and math.isfinite(score(trial.returns)):
            self.optuna.tell(trial.asked, score(trial.returns))
        elif trial.pruned and stopped:
            self.optuna.tell(trial.asked, state=TrialState.PRUNED)
        elif stopped or run.process is None or run.status == 130:
            again(self.optuna, trial.asked.number)
        else:
            self.optuna.tell(trial.asked, state=TrialState.FAIL)
        return trial

    @property
    def best(self) -> tuple[float, int, dict[str, Any]] | None:
        """The score of the best trial, the number of its run, and its settings; None before a trial has succeeded."""
        complete = self.optuna.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
        if not complete:
            return None
        best = max(complete, key=lambda trial: trial.value or 0.0)
        ranges = self.study.search
        texts = {name: _texts(one) if isinstance(one := ranges[name], OneOf) else {} for name in best.params}
        values = {name: texts[name].get(value, value) for name, value in best.params.items()}
        return float(best.value or 0.0), _run_of(best), values

    def write_best(self, path: Path) -> None:
        """Writes the settings of the best trial, if there is one, to a file that ``--config`` reads.

        :param path: the file.
        """
        if self.best is not None:
            replace_file(path, (json.dumps(self.study.settings(self.best[2]), indent=2) + "\n").encode())

    def scores(self) -> list[tuple[float, bool]]:
        """Returns the score of each trial that has one, in the order of their starts, and whether it was stopped."""
        ended = self.optuna.get_trials(deepcopy=False, states=[TrialState.COMPLETE, TrialState.PRUNED])
        return [(one.value, one.state is TrialState.PRUNED) for one in ended if one.value is not None]

    def importances(self) -> dict[str, float]:
        """Returns which part of the differences between scores each setting explains, the largest first."""
        if len({score for score, stopped in self.scores() if not stopped}) < 2:
            return {}
        return optuna.importance.get_param_importances(self.optuna)
