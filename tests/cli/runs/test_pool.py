import json
import signal
import sys
from types import SimpleNamespace

import pytest

from rlfast.cli.runs import pool
from rlfast.cli.runs.pool import Clock, PooledRun
from rlfast.experiment import ALGORITHMS


@pytest.fixture
def make(tmp_path):
    """Makes a run of 1,000 steps: one that waits, or one with a log of steps, each of which took ``pace`` seconds."""

    def make(algorithm, steps=None, *, pace=1.0, status=None):
        folder = tmp_path / str(len([*tmp_path.iterdir()]))
        folder.mkdir()
        process = None
        if steps is not None:
            rows = [{"scope": "train", "axis": "env_step", "step": n, "time": n * pace} for n in (steps // 2, steps)]
            (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            process = SimpleNamespace(poll=lambda: status, returncode=status)
        config = ALGORITHMS[algorithm].config(max_steps=1_000)
        return PooledRun(label=folder.name, config=config, folder=folder, process=process)

    return make


def test_no_time_is_known_before_the_first_step(make):
    assert Clock([make("dqn"), make("dqn", 0)], 2).seconds_left() is None


@pytest.mark.parametrize(("jobs", "seconds"), [(1, 600 + 900 * 2 + 1_000 * 2.0 + 1_000), (2, 2_700.0)])
def test_waiting_runs_take_the_pace_of_their_algorithm(make, jobs, seconds):
    runs = [make("dqn", 400), make("ppo", 100, pace=2.0), make("ppo"), make("dqn")]
    assert Clock(runs, jobs).seconds_left() == seconds


def test_algorithms_that_no_run_has_begun_take_the_mean_pace(make):
    assert Clock([make("dqn", 1_000), make("ppo", 1_000, pace=3.0), make("sac")], 1).seconds_left() == 2_000


def test_the_longest_run_is_waited_for(make):
    assert Clock([make("dqn", 1_000), make("dqn", 100)], 2).seconds_left() == 900


def test_ended_runs_take_no_time_and_give_their_pace(make):
    runs = [make("dqn", 1_000, pace=0.5, status=0), make("dqn")]
    clock = Clock(runs, 2)
    assert clock.seconds_left() is None
    assert clock.progress(runs[0]) == (1.0, 0.0)
    assert clock.seconds_left() == 500


@pytest.mark.skipif(sys.platform == "win32", reason="Windows ends processes in another way")
def test_an_error_of_a_callback_stops_the_runs(make, monkeypatch):
    monkeypatch.setattr(pool, "_CHILD", "from rlfast.cli.runs.pool import _stop_with_parent as stop; stop()")
    runs = [make("dqn") for _ in range(3)]

    def fail():
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        pool.train(runs, 2, lambda _: None, fail)
    assert [run.process and run.process.wait() for run in runs] == [-signal.SIGTERM, -signal.SIGTERM, None]
    assert runs[0].outcome() == "interrupted, no test"
    for run in runs:
        run.messages()
