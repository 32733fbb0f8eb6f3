"""Curves are read from folders of runs and from the small files that are kept of them."""

import json
from dataclasses import replace

import pytest

from rlfast.cli.parsing import read_settings
from rlfast.experiment import ALGORITHMS
from rlfast.experiment.config import RunWarning
from rlfast.experiment.report.curves import command_of, find_curves, grouped, read_run, write_curve
from rlfast.experiment.run_dir import write_config
from rlfast.utils.logger import CSVLogger


def make_run(folder, config, tests, algorithm="dqn"):
    folder.mkdir(parents=True)
    write_config(folder, config, algorithm)
    logger = CSVLogger(folder / "metrics.csv", train_interval=1)
    for step, mean in tests:
        logger.log_test_data({"returns_stat": {"mean": mean, "std": mean / 3}}, step)
    return folder


def test_a_folder_is_read(tiny, tmp_path):
    curve = read_run(make_run(tmp_path / "run", tiny(seed=4), [(0, 1 / 3), (100, 2.0)]))
    assert (curve.algorithm, curve.config.seed, curve.ended) == ("DQN", 4, False)
    assert (curve.steps, curve.mean, curve.std) == ((0, 100), (1 / 3, 2.0), (1 / 9, 2 / 3))
    assert {"rlfast", "torch", "gymnasium"} <= curve.versions.keys()
    (tmp_path / "run" / "checkpoint").mkdir()
    (tmp_path / "run" / "checkpoint" / "checkpoint.json").write_text('{"over": true}')
    assert read_run(tmp_path / "run").ended


@pytest.mark.parametrize(("steps", "ended"), [(199, False), (200, True)])
def test_a_run_whose_last_test_is_at_its_end_has_ended(steps, ended, tiny, tmp_path):
    assert read_run(make_run(tmp_path / "run", tiny(max_steps=200), [(0, 1.0), (steps, 2.0)])).ended is ended


def test_wall_clock_is_that_of_the_last_entry(tiny, tmp_path):
    folder = make_run(tmp_path / "run", tiny(), [(0, 1.0), (100, 2.0)])
    lines = (folder / "metrics.csv").read_text().splitlines()
    cells = [line.split(",") for line in lines]
    for row, seconds in zip(cells[1:], ("5.5", "61.25"), strict=True):
        row[cells[0].index("time")] = seconds
    (folder / "metrics.csv").write_text("".join(",".join(row) + "\n" for row in cells))
    assert read_run(folder).seconds == 61.25


def test_steps_of_offline_runs_are_gradient_steps(tmp_path):
    config = ALGORITHMS["iql"].config(data="x", batch_size=64)
    run = read_run(make_run(tmp_path / "run", config, [(0, 1.0), (640, 2.0)], "iql"))
    assert (run.steps, run.ended) == ((0, 10), False)


def test_files_keep_what_folders_have(tiny, tmp_path):
    config = tiny(seed=2, env="Acrobot-v1", env_kwargs={"a": [1, None]}, stop_return=-90.5)
    run = read_run(make_run(tmp_path / "run", config, [(0, -1 / 3), (100, 1e-17), (150, -2e9)]))
    path = write_curve(run, tmp_path / "kept" / "deep")
    assert path == tmp_path / "kept" / "deep" / "dqn-Acrobot-v1-seed2.csv"
    kept = read_run(path)
    assert kept.config == replace(config, run_dir=None, progress=True)
    same = ("beyond", "versions", "processor", "ended", "steps", "mean", "std", "algorithm")
    assert all(getattr(kept, name) == getattr(run, name) for name in same)
    assert kept.seconds == pytest.approx(run.seconds, abs=0.05)
    assert write_curve(kept, tmp_path / "again").read_bytes() == path.read_bytes()
    with pytest.raises(ValueError, match="would count as two seeds"):
        grouped([run, kept])  # a file is the run
    first, columns, *rows = path.read_text().splitlines()
    head = json.loads(first.removeprefix("# "))
    assert head["command"].startswith("rlfast train dqn --env Acrobot-v1 --seed 2 ")
    assert columns == "step,mean,std,episodes"
    assert rows[1] == f"100,1e-17,{1e-17 / 3},3"
    assert str(tmp_path) not in first


@pytest.mark.parametrize(
    ("algorithm", "env", "changes"),
    [
        ("dqn", "CartPole-v1", {}),
        ("sac", "Pendulum-v1", {"max_steps": 7, "tau": 0.5, "hidden_sizes": (8, 4)}),
        ("dqn", "CartPole-v1", {"stop_return": None, "is_double": False, "prioritized": True, "env_seeds": (1, 2)}),
        ("ppo", "Pendulum-v1", {"env_kwargs": {"g": 9.5, "name": "a b"}, "wrappers": ("a:b", "c:d"), "log_std": -0.5}),
        ("ppo", "ALE/Pong-v5", {"threads": 1, "eps_clip": 0.3}),
        ("td3", "Walker2d-v5", {"max_steps": 300_000}),
    ],
)
def test_commands_repeat_the_settings(algorithm, env, changes):
    import shlex

    found = ALGORITHMS[algorithm]
    config = replace(found.preset(env), seed=3, **changes)
    program, command, name, *arguments = shlex.split(command_of(config))
    assert (program, command, name) == ("rlfast", "train", algorithm)
    given = read_settings("rlfast train", found.config, arguments, found.preset)
    assert replace(found.preset(given["env"]), **given) == config


def test_runs_and_files_are_found_at_any_depth(tiny, tmp_path):
    run = read_run(make_run(tmp_path / "a" / "b" / "run", tiny(seed=1), [(0, 1.0)]))
    make_run(tmp_path / "empty", tiny(seed=2), [])
    make_run(tmp_path / "a" / "b" / "run" / "copy", tiny(seed=7), [(0, 1.0)])  # within a run
    write_curve(replace(run, config=tiny(seed=3)), tmp_path / "kept")
    with pytest.warns(RunWarning, match="empty has no test yet: it is left out"):
        assert [curve.config.seed for curve in find_curves(tmp_path)] == [1, 3]
    assert [curve.config.seed for curve in find_curves(tmp_path / "a" / "b" / "run")] == [1]
    assert [curve.config.seed for curve in find_curves(tmp_path / "kept" / "dqn-CartPole-v1-seed3.csv")] == [3]


def test_folders_without_runs_are_refused(tiny, tmp_path):
    with pytest.raises(FileNotFoundError, match="absent is no folder with runs"):
        find_curves(tmp_path / "absent")
    with pytest.raises(ValueError, match="no run with a test, and no file"):
        find_curves(tmp_path)
    make_run(tmp_path / "run", tiny(), [])
    with pytest.raises(ValueError, match="no run with a test"):
        find_curves(tmp_path)
    with pytest.raises(ValueError, match="run has no tests yet"):
        read_run(tmp_path / "run")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("# {", "{", "its first line is not that of rlfast report --curves"),
        ('"seconds"', '"Seconds"', "seconds"),
        ('"max_steps": 200', '"max_steps": 0', "--max-steps must be at least 1"),
        ('"algorithm": "dqn"', '"algorithm": "x"', "no algorithm 'x'"),
        ("0,1.5", "0,one", "one"),
        ("0,1.5", "0.5,1.5", "0.5"),
        ("0,1.5,0.5,3", "0,1.5", "float"),
        ("step,mean", "step,average", "mean"),
        ("0,1.5", "0,nan", "whose mean return is no finite number"),
        ("\n0,1.5,0.5,3", "", "has no tests yet"),
        ("# {", '# {"', "is no file of evaluation curves"),
    ],
)
def test_damaged_files_are_refused(old, new, message, tiny, tmp_path):
    path = write_curve(read_run(make_run(tmp_path / "run", tiny(), [(0, 1.5)])), tmp_path)
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=message) as error:
        find_curves(path)
    assert str(path) in str(error.value)


def test_other_csv_files_are_refused_by_name(tmp_path):
    (tmp_path / "mine.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"mine\.csv is no file of evaluation curves"):
        find_curves(tmp_path)


def test_folders_of_older_versions_have_no_processor(tiny, tmp_path):
    folder = make_run(tmp_path / "run", tiny(), [(0, 1.0)])
    content = json.loads((folder / "config.json").read_text())
    del content["processor"], content["versions"]
    (folder / "config.json").write_text(json.dumps(content))
    curve = read_run(folder)
    assert (curve.versions, curve.processor) == ({}, "")
