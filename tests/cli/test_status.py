import json
import os
import subprocess
import sys
import threading

import pytest

from rlfast.cli.main import main
from rlfast.cli.status import newest_figures, seconds_left
from rlfast.experiment.run_dir import is_training, only_process

if sys.platform != "win32":
    import fcntl


def written(folder, *rows, algorithm="dqn"):
    from rlfast.experiment import ALGORITHMS
    from rlfast.experiment.run_dir import write_config

    folder.mkdir()
    write_config(folder, ALGORITHMS[algorithm].config(max_steps=5000), algorithm)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def row(scope, axis, step, **figures):
    return {"scope": scope, "axis": axis, "step": step, "time": 1.5} | {f"{scope}/{k}": v for k, v in figures.items()}


def test_the_newest_figures_are_shown(run_dir, capsys):
    ray = {"steps_per_second": 812.34, "samples_per_insert": 31.5, "samples_per_insert_wanted": 32.0, "rows": 4096.0}
    rows = [
        row("ray", "env_step", 1024, **ray | {"steps_per_second": 1.0}),
        row("update", "gradient_step", 77, loss=0.5),
        row("ray", "env_step", 2048, **ray),
        {"scope": "test", "axis": "env_step", "step": 2000, "time": 2.0, "test/returns_stat/mean": -160.25},
        row("ray", "env_step", 2049, rows=4097.0),
    ]
    written(run_dir, *rows)
    assert main(["status", str(run_dir)]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = {line[:36].strip(): line[36:] for line in lines}
    assert shown == {
        "state": f"interrupted: rlfast train --resume {run_dir} continues it",
        "environment steps": "2,049 of 5,000 (41%)",
        "gradient steps": "77",
        "environment steps per second": "812.34",
        "samples per insert": "31.5, wanted 32",
        "rows in the shards": "4,097",
        "mean return of the last test": "-160.25",
        "mean return of the best test": "-160.25",
    }


def test_a_run_that_learns_from_data_is_as_far_as_its_gradient_steps(run_dir, capsys):
    rows = [row("test", "env_step", 256 * 4000, **{"returns_stat/mean": 7.0}), row("update", "gradient_step", 3999)]
    written(run_dir, *rows, algorithm="il")
    assert main(["status", str(run_dir)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["gradient", "steps", "4,000", "of", "5,000", "(80%)"],
        ["mean", "return", "of", "the", "last", "test", "7"],
        ["mean", "return", "of", "the", "best", "test", "7"],
    ]


def state(folder, capsys):
    """The state that is shown of a run, and the time left."""
    assert main(["status", str(folder)]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    return lines["state"], lines.get("time")


def saved(folder, **head):
    (folder / "checkpoint").mkdir(exist_ok=True)
    (folder / "checkpoint" / "checkpoint.json").write_text(json.dumps(head))


TESTS = [
    row("test", "env_step", step, **{"returns_stat/mean": float(step)}) | {"time": step / 50} for step in (0, 1000)
]


@pytest.mark.parametrize(
    ("head", "shown"),
    [
        ({"over": True, "env_step": 100}, "ended"),  # such as at its stop_return
        ({"over": False, "env_step": 5000}, "interrupted: "),
        ({"env_step": 5000}, "ended"),  # of an older version
        ({"env_step": 4999}, "interrupted: "),
        ({}, "interrupted: "),
        ([], "interrupted: "),
        ({"policy_only": True, "env_step": 0}, "a policy alone"),
    ],
)
def test_a_run_has_ended_or_was_interrupted(head, shown, run_dir, capsys):
    written(run_dir, *TESTS)
    (run_dir / "checkpoint").mkdir()
    (run_dir / "checkpoint" / "checkpoint.json").write_text(json.dumps(head))
    assert state(run_dir, capsys)[0].startswith(shown)


def test_a_run_that_learned_from_data_has_ended(run_dir, capsys):
    written(run_dir, *TESTS, algorithm="il")
    saved(run_dir, env_step=256 * 4999, gradient_step=4999)
    assert state(run_dir, capsys)[0].startswith("interrupted")
    saved(run_dir, env_step=256 * 5000, gradient_step=5000)
    assert state(run_dir, capsys)[0] == "ended"


def test_a_run_that_failed_says_why(run_dir, capsys):
    written(run_dir, *TESTS)
    saved(run_dir, env_step=100, over=False)
    (run_dir / "error.log").write_text("Traceback ...\nZeroDivisionError: in \x1b[31m the update\n")
    assert state(run_dir, capsys) == (
        f"failed: ZeroDivisionError: in ?[31m the update (traceback in {run_dir / 'error.log'})",
        None,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
def test_a_running_run_says_how_long_it_takes(run_dir, capsys):
    written(run_dir, *TESTS)
    (run_dir / "error.log").write_text("of an earlier part")
    hold = "import sys; from pathlib import Path; from rlfast.experiment.run_dir import only_process\n"
    hold += "with only_process(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", hold, str(run_dir)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        assert state(run_dir, capsys) == ("running", "left                           1 min 20 s")
        process.kill()
    assert state(run_dir, capsys)[0].startswith("failed")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
def test_looking_does_not_keep_a_run_from_beginning(run_dir):
    run_dir.mkdir()
    seen = []
    looking = threading.Timer(0.03, lambda: seen.append(os.close(held)))
    held = os.open(run_dir, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_SH)
    looking.start()
    with only_process(run_dir):
        assert seen == [None]
        assert is_training(run_dir)
    assert not is_training(run_dir)


@pytest.mark.parametrize(
    ("points", "seconds"),
    [
        ([], None),
        ([(100, 1.0)], None),
        ([(100, 1.0), (100, 2.0)], None),
        ([(100, 2.0), (200, 1.0)], None),  # of a clock that was set
        ([(0, 0.0), (1000, 10.0)], 40.0),
        ([(0, 0.0), (1000, 10.0), (2000, 110.0)], 300.0),  # by the newest pace
        ([(0, 0.0), (6000, 10.0)], 0.0),
        ([(0, "?"), (1000, 10.0)], None),
    ],
)
def test_the_time_that_is_left(points, seconds):
    rows = [{"scope": "train", "axis": "env_step", "step": step, "time": time} for step, time in points]
    rows.insert(1, {"scope": "update", "axis": "gradient_step", "step": 7, "time": 3.0})
    assert seconds_left(rows, 5000) == seconds


def test_the_states_of_a_run_from_its_beginning_to_its_end(tmp_path, capsys, monkeypatch):
    from rlfast.experiment import DQNConfig, resume, train
    from rlfast.trainer import BaseTrainer

    config = DQNConfig(
        run_dir=tmp_path / "run", max_steps=200, num_envs=2, eval_episodes=2, eval_envs=2, eval_interval=80,
        hidden_sizes=(8,), batch_size=8, buffer_size=100, start_steps=20, collect_steps=8, progress=False,
    )  # fmt: skip

    def at(step, action):
        collect = BaseTrainer.train_step

        def acting(trainer):
            if trainer.env_step >= step:
                action(trainer)
            return collect(trainer)

        return acting

    with monkeypatch.context() as patch:
        patch.setattr(BaseTrainer, "train_step", at(60, BaseTrainer.stop))
        train(config)
    assert state(tmp_path / "run", capsys)[0].startswith("interrupted")
    with monkeypatch.context() as patch:
        patch.setattr(BaseTrainer, "train_step", at(120, lambda _: 1 / 0))
        with pytest.raises(ZeroDivisionError):
            resume(tmp_path / "run")
    assert state(tmp_path / "run", capsys)[0].startswith("failed: ZeroDivisionError")
    resume(tmp_path / "run")
    assert state(tmp_path / "run", capsys)[0] == "ended"


def test_newer_figures_replace_older_ones():
    rows = [row("ray", "env_step", 1, rows=2.0, orders_in_flight=3.0), row("ray", "env_step", 5, rows=4.0)]
    assert newest_figures(rows) == {"ray/rows": 4.0, "ray/orders_in_flight": 3.0, "env_step": 5}
    assert newest_figures([]) == {}


@pytest.mark.parametrize("scope", ["save", "info"])
def test_gradient_steps_are_the_most_that_any_row_names(scope, run_dir, capsys):
    rows = [row("update", "gradient_step", 208, loss=0.5), row(scope, "epoch", 1, gradient_step=250)]
    for order in (rows, rows[::-1]):
        assert newest_figures(order)["gradient_step"] == 250
    assert newest_figures([*rows, row("update", "gradient_step", 300, loss=0.5)])["gradient_step"] == 300
    written(run_dir, *rows)
    assert main(["status", str(run_dir)]) == 0
    assert capsys.readouterr().out.splitlines()[2].split() == ["gradient", "steps", "250"]


@pytest.mark.parametrize("content", [None, ""])
def test_a_run_without_figures(content, run_dir, capsys):
    written(run_dir)
    if content is None:
        (run_dir / "metrics.jsonl").unlink()
    assert main(["status", str(run_dir)]) == 1
    assert capsys.readouterr().err == f"rlfast: {run_dir} has no figures yet\n"


def test_a_folder_that_is_no_run(tmp_path, capsys):
    assert main(["status", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"rlfast: {tmp_path} is no run folder: it has no config.json\n"


def test_a_damaged_log_is_named(run_dir, capsys):
    written(run_dir)
    (run_dir / "metrics.jsonl").write_text("{nonsense\n{}\n")
    assert main(["status", str(run_dir)]) == 2
    assert "metrics.jsonl is damaged" in capsys.readouterr().err
