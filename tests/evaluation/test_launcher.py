"""Launchers run experiments in their order, and leave out those that fail."""

import logging
import os
from types import SimpleNamespace

import pytest

from rlfast.data import InfoStats, TimingStats
from rlfast.evaluation.launcher import JoblibConfig, JoblibExpLauncher, RegisteredExpLauncher, SequentialExpLauncher


def stats(step):
    counts = dict.fromkeys(("train_episode", "test_step", "test_episode"), 0)
    rewards = {"best_reward": 0.0, "best_reward_std": 0.0}
    return InfoStats(gradient_step=os.getpid(), train_step=step, timing=TimingStats(), **counts, **rewards)


class Experiment:
    def __init__(self, number, fails=False):
        self.number, self.fails = number, fails

    def run(self):
        if self.fails:
            raise KeyError("lost")
        return SimpleNamespace(trainer_result=stats(self.number))


class Awkward(Exception):
    """Cannot be pickled with its one argument."""

    def __init__(self, number, text):
        super().__init__(f"{number} {text}")


@pytest.fixture(params=["sequential", "joblib"])
def launcher(request):
    return RegisteredExpLauncher(request.param).create_launcher()


@pytest.mark.timeout(300)
def test_results_come_in_order_without_those_that_failed(launcher, caplog):
    with caplog.at_level(logging.ERROR):
        found = launcher.launch([Experiment(1), Experiment(2, fails=True), Experiment(3)])
    assert [one.train_step for one in found] == [1, 3]
    in_this_process = isinstance(launcher, SequentialExpLauncher)
    assert {one.gradient_step == os.getpid() for one in found} == {in_this_process}
    assert "experiment 2 of 3 failed" in caplog.text


@pytest.mark.timeout(300)
def test_all_fail(launcher):
    with pytest.raises(RuntimeError, match="all 2 experiments failed; the first with KeyError"):
        launcher.launch([Experiment(1, fails=True), Experiment(2, fails=True)])


def test_one_runs_in_this_process_and_raises_what_it_raises(launcher):
    assert [one.gradient_step for one in launcher.launch([Experiment(1)])] == [os.getpid()]
    with pytest.raises(KeyError, match="lost"):
        launcher.launch([Experiment(1, fails=True)])


def test_nothing_to_launch(launcher):
    with pytest.raises(ValueError, match="no experiment"):
        launcher.launch([])


@pytest.mark.timeout(300)
def test_an_exception_that_cannot_be_sent_is_described():
    def run(experiment):  # not importable, as what a script defines
        raise Awkward(experiment.number, "apples")

    with pytest.raises(RuntimeError, match="Awkward: 1 apples"):
        JoblibExpLauncher(JoblibConfig(n_jobs=1), run).launch([Experiment(1), Experiment(2)])


def test_a_runner_replaces_the_usual_one():
    assert SequentialExpLauncher(lambda experiment: experiment.number).launch([Experiment(7), Experiment(8)]) == [7, 8]


@pytest.mark.parametrize("number", [0, -2])
def test_numbers_of_jobs(number):
    with pytest.raises(ValueError, match=f"n_jobs must be at least 1, or -1 for all processors, got {number}"):
        JoblibExpLauncher(JoblibConfig(n_jobs=number))


def test_threads_are_warned_about():
    with pytest.warns(UserWarning, match="in processes"):
        JoblibExpLauncher(JoblibConfig(backend="threading"))
