import json
import re
import shutil
import sys
import time
from dataclasses import replace

import optuna
import pytest
from optuna.trial import TrialState

from cli.test_suite import INTERRUPTED
from cli.test_train import weights
from machine import PATIENCE
from rlfast.cli import main
from rlfast.cli.runs import study as studies
from rlfast.cli.runs.study import Study, Trials
from rlfast.experiment import ALGORITHMS
from rlfast.experiment.config.search import Between, OneOf, possible
from rlfast.utils.logger import CSVLogger

SMALL = [f"--{setting}" for setting in (
    "num-envs=2", "eval-episodes=2", "eval-envs=2", "eval-interval=80", "max-steps=400", "buffer-size=500",
    "collect-steps=8", "start-steps=20", "batch-size=8", "env=CartPole-v1",
)]  # fmt: skip


def tune(*more):
    return main(["tune", *more])


def trials_of(folder):
    name = "dqn on CartPole-v1"
    return optuna.load_study(study_name=name, storage=f"sqlite:///{folder / 'study.db'}").trials


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to send")
def test_interrupted_study_continues_its_runs(tmp_path, start, capsys):
    folder = tmp_path / "study"
    command = [sys.executable, "-c", INTERRUPTED, "tune", "dqn", "--trials", "2", "--jobs", "1", "--out", str(folder)]
    process = start([*command, *SMALL, "--search", "learning-rate", "hidden-sizes", "--seed", "5"])
    _, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, error
    assert error.endswith(f"rlfast: interrupted: rlfast tune --resume {folder} continues it\n")
    assert "Traceback" not in error
    step = json.loads((folder / "trial-0000" / "checkpoint" / "checkpoint.json").read_text())["env_step"]
    assert 0 < step < 400

    assert tune("--resume", str(folder), "--jobs", "2") == 0
    shown = capsys.readouterr()
    assert f"dqn on CartPole-v1: 2 trials, 2 at a time, in {folder}\n" in shown.out
    line = r"^\[\d/2\] trial \d: [\d.]+; --learning-rate \S+ --hidden-sizes \d+ \d+$"
    assert len(re.findall(line, shown.err, re.MULTILINE)) == 2
    ended = [trial for trial in trials_of(folder) if trial.state is TrialState.COMPLETE]
    assert sorted(trial.user_attrs["run"] for trial in ended) == [0, 1]
    best = max(ended, key=lambda trial: trial.value)
    number = best.user_attrs["run"]
    assert f"best: {best.value:,.1f}, trial {number}; " in shown.out
    assert (folder / "study.png").exists()

    alone = tmp_path / "alone"
    command = ["train", "dqn", "--config", str(folder / "best.json"), "--seed", str(5 + number)]
    assert main([*command, "--stop-return", "none", "--no-progress", "--run-dir", str(alone)]) == 0
    assert weights(alone) == weights(folder / f"trial-{number:04}")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot lock the folders of runs")
def test_the_runs_of_a_killed_study_stop_and_are_continued_at_once(tmp_path, start, capsys):
    folder, alone = tmp_path / "study", tmp_path / "alone"
    process = start([sys.executable, "-m", "rlfast", "tune", "dqn", "--trials", "1", "--jobs", "1", "--out", folder,
                     *SMALL, "--max-steps", "20000", "--search", "learning-rate", "--seed", "5"])  # fmt: skip
    run = folder / "trial-0000"
    until = time.monotonic() + PATIENCE
    while not (run / "checkpoint").exists():
        assert time.monotonic() < until
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert tune("--resume", str(folder), "--jobs", "1") == 0, capsys.readouterr()
    shown = capsys.readouterr().err
    assert re.search(r"^\[1/1\] trial 0: [\d.]+; --learning-rate \S+$", shown, re.MULTILINE), shown
    command = ["train", "dqn", "--config", str(folder / "best.json"), "--seed", "5", "--stop-return", "none"]
    assert main([*command, "--no-progress", "--run-dir", str(alone)]) == 0
    assert weights(alone) == weights(run)


def study_of(**more):
    config = replace(ALGORITHMS["dqn"].config(), stop_return=None, max_steps=1_000, eval_interval=100, threads=1)
    search = {"learning_rate": Between(1e-4, 1e-2, log=True), "hidden_sizes": OneOf(((8,), (16, 16)))}
    return Study(algorithm="dqn", config=config, search=search, **more)


class FakeRun:
    """A run whose tests are written by a test."""

    def __init__(self, run):
        self.run, self.folder, self.config = run, run.folder, run.config
        self.folder.mkdir()
        self.process, self.status, self.stop_requests = "some", None, 0
        self.logger = CSVLogger(self.folder / "metrics.csv")

    def test(self, step, value):
        self.logger.write("test/env_step", step, {"test/returns_stat/mean": value})

    def stop(self, times):
        self.stop_requests = times


@pytest.fixture
def fake(tmp_path):
    trials = Trials(study_of(), tmp_path)
    runs = trials.runs()

    def begin():
        run = next(runs)
        number = int(run.folder.name.removeprefix("trial-"))
        trials.active[number].run = FakeRun(run)
        return trials.active[number].run

    return trials, begin


def test_trials_below_the_median_are_stopped(fake):
    trials, begin = fake
    for value in (10.0, 20.0, 30.0, 40.0, 50.0):
        run = begin()
        for step in range(100, 1_001, 100):
            run.test(step, value)
        trials.watch()
        assert not run.stop_requests
        run.status = 0
        assert not trials.ended(run).pruned
    assert trials.best[:2] == (50.0, 4)
    good, bad = begin(), begin()
    for step in (100, 200, 300):
        good.test(step, 35.0)
        bad.test(step, 25.0 if step < 300 else 0.0)  # the mean of three tests is 16.7, below the median of 30
        trials.watch()
        assert good.stop_requests == 0
        assert bad.stop_requests == (step >= 200)  # after a fifth of the steps
    bad.status = 130
    assert trials.ended(bad).pruned
    assert trials.ended_runs() == 6
    assert trials.scores()[-1] == (pytest.approx(50 / 3), True)


def test_interrupted_studies_suggest_the_same(tmp_path):
    def search(folder, stops):
        folder.mkdir()
        trials, values = Trials(study_of(trials=14), folder), []
        while (run := next(trials.runs(), None)) is not None:
            (trial,) = trials.active.values()
            trial.run = FakeRun(run)
            number = len(values)
            if number in stops:
                stops.remove(number)
                trial.run.status, trial.run.stop_requests = 130, 1
                trials.ended(trial.run)
                shutil.rmtree(trial.run.folder)
                trials = Trials(study_of(trials=14), folder)
                continue
            values.append(trial.values)
            trial.run.test(1_000, -abs(trial.values["learning_rate"] - 1e-3))
            trial.run.status = 0
            trials.ended(trial.run)
        return values

    whole = search(tmp_path / "whole", [])
    assert search(tmp_path / "parts", [0, 5, 12]) == whole
    assert len(whole) == 14
    assert len({str(one) for one in whole}) == 14


def test_failed_trials_count_and_have_no_score(fake):
    trials, begin = fake
    for value in (1.0, float("nan")):
        run = begin()
        run.test(1_000, value)
        run.status = 0 if value != 1.0 else 1
        trials.ended(run)
    assert trials.ended_runs() == 2
    assert trials.scores() == []
    assert trials.best is None
    assert trials.importances() == {}
    run = begin()
    run.status = 1
    trials.ended(run)
    with pytest.raises(StopIteration):
        begin()


def test_scores_average_three_tests(fake):
    trials, begin = fake
    run = begin()
    for step, value in enumerate([100.0, 1.0, 2.0, 6.0], 1):
        run.test(step, value)
    run.status = 0
    trials.ended(run)
    assert trials.best[0] == 3.0


def test_the_test_before_training_does_not_count(fake):
    trials, begin = fake
    run = begin()
    for step, value in ((0, 100.0), (1, 2.0), (2, 4.0)):
        run.test(step, value)
    run.status = 0
    trials.ended(run)
    assert trials.best[0] == 3.0


@pytest.mark.parametrize("name", ALGORITHMS)
def test_ranges_are_of_settings(name):
    algorithm = ALGORITHMS[name]
    config = algorithm.config()
    assert len(algorithm.search) >= 3
    for setting, one in algorithm.search.items():
        for value in one.values if isinstance(one, OneOf) else (one.low, one.high):
            assert getattr(replace(config, **{setting: value}), setting) == value
    kept = possible(algorithm.search, replace(config, max_steps=10_000_000))
    assert kept == algorithm.search


def test_study_file_has_all_of_a_study(tmp_path):
    one = study_of(pruner="hyperband", trials=7)
    one.write(tmp_path)
    assert Study.read(tmp_path) == one


def test_settings_that_change_nothing_are_not_searched(tmp_path, monkeypatch):
    monkeypatch.setattr(Trials, "runs", lambda _: iter(()))
    assert tune("ppo", "--env", "CartPole-v1", "--out", str(tmp_path / "a"), "--num-envs", "3", "--repeat", "2",
                "--collect-steps", "300") == 1  # fmt: skip
    searched = Study.read(tmp_path / "a").search
    assert {"learning_rate", "eps_clip"} <= searched.keys()
    assert not {"log_std", "repeat", "collect_steps"} & searched.keys()
    assert Study.read(tmp_path / "a").config.stop_return is None
    assert Study.read(tmp_path / "a").config.learning_rate == ALGORITHMS["ppo"].preset("CartPole-v1").learning_rate


WRONG = {
    "no algorithm": ([], "no algorithm was given"),
    "another algorithm": (["pppo"], "there is no algorithm 'pppo'; did you mean ppo?"),
    "no trials": (["dqn", "--trials", "0"], "--trials must be at least 1, got 0"),
    "no jobs": (["dqn", "--jobs", "0"], "--jobs must be at least 1, got 0"),
    "seeds": (
        ["dqn", "--seeds", "0-3"],
        "--seeds is for rlfast train: leave it out (--seed is that of the first trial)",
    ),
    "no setting": (["dqn", "--learning-rat", "1"], "there is no option --learning-rat; did you mean --learning-rate?"),
    "no range": (["dqn", "--search", "learning-rat"], "there is no range of a setting 'learning_rat'; did you mean"),
    "nothing to search": (["dqn", "--search", "activation", "--activation", "relu"], "nothing is left to search"),
    "no environment": (["dqn", "--env", "None-v0"], "Environment `None` doesn't exist"),
    "wrong actions": (["dqn", "--env", "Pendulum-v1"], "DQN needs discrete actions"),
    "offline without data": (["iql", "--env", "Pendulum-v1"], "--data is needed"),
    "an algorithm and resume": (["dqn", "--resume", "x"], "a study continues as it was started"),
    "only options": (["--trials", "3"], "an algorithm is needed, before the options"),
}


@pytest.mark.parametrize(("arguments", "error"), WRONG.values(), ids=WRONG)
def test_wrong_arguments_are_one_line(arguments, error, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert tune(*arguments) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1, shown
    assert error in shown
    assert not any(tmp_path.iterdir())


def test_wrong_folders_are_refused(tmp_path, capsys):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    assert tune("dqn", "--out", str(tmp_path / "other")) == 2
    assert "is not empty: choose another --out" in capsys.readouterr().err
    assert tune("--resume", str(tmp_path / "other")) == 2
    assert "is no folder of a study: it has no study.json" in capsys.readouterr().err
    for text in ("{", "[]", '{"algorithm": "dqn"}', '{"algorithm": 3, "config": {}, "search": {}}'):
        (tmp_path / "other" / studies.STUDY_FILE).write_text(text)
        assert tune("--resume", str(tmp_path / "other")) == 2
        assert "study.json cannot be used: " in capsys.readouterr().err
    assert tune("--resume", str(tmp_path / "other"), "--lr", "1") == 2
    assert "with --trials and --jobs alone: leave out --lr" in capsys.readouterr().err


def test_help_lists_ranges(capsys):
    assert tune("ppo", "--help") == 0
    shown = capsys.readouterr().out
    assert re.search(r"--learning-rate +1e-05 to 0.01, logarithmic\n", shown)
    assert re.search(r"--hidden-sizes +64 64, 128 128, ", shown)
    assert tune("--help") == 0
    assert "rlfast train ALGORITHM --help" in capsys.readouterr().out


def test_missing_optuna_names_the_extra(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.delitem(sys.modules, "rlfast.cli.runs.study")
    assert tune("dqn", "--out", str(tmp_path / "study")) == 1
    assert "rlfast tune needs optuna" in capsys.readouterr().err
    assert not (tmp_path / "study").exists()
