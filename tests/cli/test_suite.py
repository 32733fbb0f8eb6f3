import csv
import json
import re
import sys
from dataclasses import replace

import pytest

from cli.test_train import weights
from machine import PATIENCE
from rlfast.cli import main
from rlfast.cli.runs import pool, suites
from rlfast.cli.runs.suites import SUITES, Suite
from rlfast.experiment import ALGORITHMS, DQNConfig
from rlfast.experiment.run_dir import only_process, write_config

PENDULUM = ["classic", "--algos", "ppo", "--tasks", "Pendulum-v1"]


def suite(*more):
    return main(["suite", *more])


def metrics(run_dir):
    """The log of a run without the columns that are times."""
    with (run_dir / "metrics.csv").open(newline="") as file:
        rows = [*csv.DictReader(file)]
    return [{name: row[name] for name in row if not re.search("time|speed|memory", name)} for row in rows]


INTERRUPTED = """
import sys
from rlfast.cli import main
from rlfast.cli.runs import pool

pool._CHILD = '''
import os, signal, sys
from rlfast.cli.runs.pool import child
from rlfast.experiment import training

save, saved = training.save_checkpoint, []

def save_and_interrupt(*given, **more):
    save(*given, **more)
    if not saved:
        saved.append(True)
        os.kill(os.getppid(), signal.SIGTERM)
        signal.pause()  # until the pool tells this process to stop

training.save_checkpoint = save_and_interrupt
sys.exit(child(*sys.argv[1:]))
'''
sys.exit(main(sys.argv[1:]))
"""
"""A command whose first run asks the command to stop at its first checkpoint, after 3,000 steps or so."""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to send")
def test_resumed_suite_equals_single_runs(tmp_path, start, capsys):
    folder, steps = tmp_path / "suite", ["--max-steps", "4000"]
    command = [sys.executable, "-c", INTERRUPTED, "suite", "classic", "--algos", "dqn", "--tasks", "CartPole-v1"]
    process = start([*command, "--seeds", "0,1", "--jobs", "1", "--out", str(folder), *steps])
    _, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, error
    assert error.endswith(f"rlfast: interrupted: rlfast suite --resume {folder} continues it\n")
    assert "Traceback" not in error
    runs = [folder / f"dqn-CartPole-v1-seed{seed}" for seed in (0, 1)]
    assert 1_000 < json.loads((runs[0] / "checkpoint" / "checkpoint.json").read_text())["env_step"] < 4_000
    assert not runs[1].exists()

    assert suite("--resume", str(folder), "--jobs", "2") == 0
    shown = capsys.readouterr()
    assert f"suite classic: 2 runs, 2 at a time, in {folder}\n" in shown.out
    assert f"rlfast report {folder}" in shown.out
    assert re.search(r"^\[2/2\] dqn CartPole-v1 seed [01]: [0-9.]+ at step 4,000$", shown.err, re.MULTILINE)
    for seed, run in enumerate(runs):
        alone = tmp_path / f"alone{seed}"
        command = ["train", "dqn", "--env", "CartPole-v1", "--seed", str(seed), "--run-dir", str(alone)]
        assert main([*command, "--no-progress", *steps]) == 0
        assert weights(run) == weights(alone)
        assert metrics(run) == metrics(alone)

    capsys.readouterr()
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert suite("--resume", str(folder)) == 0
    assert "2 runs, of which 2 have ended" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_a_failed_run_stops_no_other_and_is_tried_again(tmp_path, monkeypatch, capsys):
    child = """if True:
        import json, os, sys
        print("bad\\n\\nbad\\nrlfast: luck with", os.environ["OMP_NUM_THREADS"], "thread\\nbad", file=sys.stderr)
        sys.exit(json.loads(sys.argv[3])["seed"] == 0)
    """
    monkeypatch.setattr(pool, "_CHILD", child)
    folder = tmp_path / "suite"
    assert suite(*PENDULUM, "--seeds", "0-1", "--max-steps", "40", "--jobs", "1", "--out", str(folder)) == 1
    shown = capsys.readouterr()
    assert shown.out == f"suite classic: 2 runs, 1 at a time, in {folder}\n"
    assert shown.err.splitlines() == [
        *(f"ppo Pendulum-v1 seed 0: {line}" for line in ("bad", "luck with 1 thread", "bad")),
        "[1/2] ppo Pendulum-v1 seed 0: failed, no test",
        *(f"ppo Pendulum-v1 seed 1: {line}" for line in ("bad", "luck with 1 thread", "bad")),
        "[2/2] ppo Pendulum-v1 seed 1: no test",
        f"rlfast: 1 of 2 runs failed (ppo Pendulum-v1 seed 0); rlfast suite --resume {folder} tries again",
    ]
    assert json.loads((folder / "suite.json").read_text()) == {
        "name": "classic", "algorithms": ["ppo"], "tasks": ["Pendulum-v1"], "seeds": [0, 1], "max_steps": 40,
    } | {"device": "cpu"}  # fmt: skip
    monkeypatch.setattr(pool, "_CHILD", "")
    assert suite("--resume", str(folder)) == 0


def test_runs_are_presets_seed_by_seed():
    suite = Suite(name="classic", algorithms=("ppo", "sac", "dqn"), tasks=SUITES["classic"], seeds=(3, 5))
    runs = [(config.seed, config.env, type(config)) for config in suite.configs()]
    of = {name: ALGORITHMS[name].config for name in ("ppo", "sac", "dqn")}
    once = [
        ("CartPole-v1", of["ppo"]), ("CartPole-v1", of["dqn"]), ("Acrobot-v1", of["ppo"]), ("Acrobot-v1", of["dqn"]),
        ("Pendulum-v1", of["ppo"]), ("Pendulum-v1", of["sac"]),
    ]  # fmt: skip
    assert runs == [(seed, *pair) for seed in (3, 5) for pair in once]
    assert [config.max_steps for config in suite.configs() if config.seed == 3 and config.env == "Pendulum-v1"] == [
        ALGORITHMS[name].presets["Pendulum-v1"].max_steps for name in ("ppo", "sac")
    ]


def test_runs_have_one_thread(monkeypatch):
    several = replace(ALGORITHMS["ppo"].preset("Pendulum-v1"), threads=4)
    monkeypatch.setitem(ALGORITHMS["ppo"].presets, "Pendulum-v1", several)
    one = {"name": "classic", "algorithms": ("ppo",), "tasks": ("Pendulum-v1",), "seeds": (7,)}
    (config,) = Suite(**one, max_steps=9, device="cuda").configs()
    assert config == replace(several, threads=1, seed=7, max_steps=9, device="cuda", progress=False)


def test_games_have_the_presets_of_all_games():
    configs = [*Suite(name="atari-5", algorithms=("ppo", "sac"), tasks=SUITES["atari-5"], seeds=(0,)).configs()]
    assert [config.env for config in configs] == [*SUITES["atari-5"]]
    assert all(config.max_steps == ALGORITHMS["ppo"].presets["ALE/"].max_steps for config in configs)


def test_pairs_that_cannot_be_run_are_named():
    tasks = ("CartPole-v1", "MountainCarContinuous-v0", "Pendulum-v1")
    no_preset = "there is no preset (rlfast train {} --env MountainCarContinuous-v0 has the defaults)"
    sentences = Suite(name="classic", algorithms=("sac", "dqn", "ppo"), tasks=tasks, seeds=(0,)).left_out()
    assert sentences == [
        "sac is left out on CartPole-v1: SAC needs continuous actions",
        f"sac is left out on MountainCarContinuous-v0: {no_preset.format('sac')}",
        "dqn is left out on MountainCarContinuous-v0, Pendulum-v1: DQN needs discrete actions",
        f"ppo is left out on MountainCarContinuous-v0: {no_preset.format('ppo')}",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no suite was given: choose from mujoco-v5, classic, box2d, atari-5"),
        (["clasic", "--algos", "ppo"], "there is no suite 'clasic'; did you mean classic?"),
        (["classic"], "--algos is needed"),
        (["classic", "--algos"], "argument --algos: expected at least one argument"),
        (["classic", "--algos", "pppo"], "there is no algorithm 'pppo'; did you mean ppo?"),
        (["classic", "--algos", "ppo,dqn,no"], "there is no algorithm 'no'"),
        (["classic", "--algos", ","], "the suite has no algorithms"),
        (["classic", "--algos", "ppo", "--tasks", "CartPole-v1,x"], "there is no task of classic 'x'"),
        (["classic", "--algos", "cql"], "cql learns from data, which suites do not have"),
        (["classic", "--algos", "ppo", "--tasks", "Hopper-v5"], "there is no task of classic 'Hopper-v5'"),
        (["classic", "--algos", "sac", "--tasks", "CartPole-v1"], "SAC needs continuous actions"),
        (["classic", "--algos", "sac", "--tasks", "CartPole-v1"], "no run is left"),
        (["classic", "--algos", "ppo", "--jobs", "0"], "--jobs must be at least 1, got 0"),
        (["classic", "--algos", "ppo", "--jobs", "-1"], "--jobs must be at least 1, got -1"),
        (["classic", "--algos", "ppo", "--jobs", "two"], "'two' is no whole number"),
        (["classic", "--algos", "ppo", "--seeds", "4-0"], "the range 4-0 ends before it begins"),
        (["classic", "--algos", "ppo", "--seeds", "0,0"], "names a seed twice"),
        (["classic", "--algos", "ppo", "--max-steps", "0"], "--max-steps must be at least 1"),
        (["classic", "--algos", "ppo", "--gamma", "0.9"], "unrecognized arguments: --gamma 0.9"),
        (["classic", "--algos", "ppo", "--device", "cuda:9"], "--device cuda:9 cannot be used here"),
        (["--resume", "nowhere"], "nowhere is no folder of a suite: it has no suite.json"),
        (["--resume", "nowhere", "--jobs", "0"], "--jobs must be at least 1, got 0"),
        (["classic", "--resume", "x", "--max-steps", "9"], "leave out NAME, --max-steps"),
    ],
)
def test_bad_arguments_end_with_2_and_leave_nothing(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert suite(*arguments) == 2
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("rlfast: ") and message in line for line in lines)
    assert list(tmp_path.iterdir()) == []


SIMULATORS = {"mujoco-v5": ("mujoco", "mujoco"), "box2d": ("Box2D", "box2d"), "atari-5": ("ale_py", "atari")}


@pytest.mark.parametrize(("name", "needed"), SIMULATORS.items())
def test_a_missing_simulator_is_named_at_once(name, needed, tmp_path, monkeypatch, capsys):
    library, extra = needed
    monkeypatch.setattr(suites, "find_spec", lambda wanted: None if wanted == library else object())
    assert suite(name, "--algos", "ppo", "--out", str(tmp_path / "out")) == 2
    error = capsys.readouterr().err
    assert error == (
        f"rlfast: {SUITES[name][0]} needs {library}, which is not installed: pip install '.[{extra}]' in the checkout "
        "of rlfast\n"
    )
    assert not (tmp_path / "out").exists()


def test_folders_in_use_are_refused(tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("")
    (tmp_path / "file").write_text("")
    for name in ("mine", "file"):
        assert suite(*PENDULUM, "--out", str(tmp_path / name)) == 2
        assert f"{tmp_path / name} is not empty: choose another --out" in capsys.readouterr().err
    other = tmp_path / "other"
    other.mkdir()
    Suite(name="mujoco-v5", algorithms=("sac",), tasks=("Hopper-v5",), seeds=(0,)).write(other)
    assert suite(*PENDULUM, "--out", str(other)) == 2
    expected = (
        f"{other} has a suite, mujoco-v5 with sac: choose another --out; rlfast suite --resume {other} continues it"
    )
    assert expected in capsys.readouterr().err
    assert [path.name for path in other.iterdir()] == ["suite.json"]


def test_two_processes_do_not_train_one_suite(tmp_path, capsys):
    Suite(name="classic", algorithms=("ppo",), tasks=("Pendulum-v1",), seeds=(0,)).write(tmp_path)
    with only_process(tmp_path):
        assert suite("--resume", str(tmp_path)) == 2
    assert "another process is training in" in capsys.readouterr().err


def test_the_run_of_another_task_is_not_continued(tmp_path, capsys):
    Suite(name="classic", algorithms=("dqn",), tasks=("CartPole-v1",), seeds=(0,)).write(tmp_path)
    folder = tmp_path / "dqn-CartPole-v1-seed0"
    folder.mkdir()
    write_config(folder, DQNConfig(env="Acrobot-v1"), "dqn")
    assert suite("--resume", str(tmp_path)) == 2
    assert f"{folder} has another run, of dqn on Acrobot-v1: move it away" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "other"}, "there is no suite 'other'"),
        ({"tasks": ["../x"]}, "there is no task of classic '../x'"),
        ({"tasks": []}, "the suite has no tasks"),
        ({"algorithms": ["none"]}, "there is no algorithm 'none'"),
        ({"seeds": [-1]}, "--seeds"),
        ({"seeds": "01"}, "--seeds"),
        ({"seeds": None}, "--seeds"),
        ({"max_steps": 1.5}, "--max-steps"),
        ({"more": 1}, "more"),
    ],
)
def test_damaged_suite_files_are_refused(change, message, tmp_path, capsys):
    content = {"name": "classic", "algorithms": ["ppo"], "tasks": ["Pendulum-v1"], "seeds": [0], "max_steps": None}
    (tmp_path / "suite.json").write_text(json.dumps(content | change))
    assert suite("--resume", str(tmp_path)) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"rlfast: {tmp_path / 'suite.json'} cannot be used: ")
    assert message in error
    for text in ("", "[]", "{", "\0"):
        (tmp_path / "suite.json").write_text(text)
        assert suite("--resume", str(tmp_path)) == 2
        assert "cannot be used" in capsys.readouterr().err


def test_the_help_names_suites_and_tasks(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "suite" in shown
    assert "report" in shown
    assert suite("--help") == 0
    shown = capsys.readouterr().out
    for name, tasks in SUITES.items():
        assert f"{name:<12}{', '.join(tasks)}" in shown
