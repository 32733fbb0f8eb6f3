import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from cli.test_train import SMALL, weights
from machine import PATIENCE, wait_until
from rlfast.cli import main
from rlfast.cli.runs.seeds import parse_seeds
from rlfast.experiment import ALGORITHMS

FAILING = """
import gymnasium as gym

class FailsForSome(gym.Wrapper):
    def step(self, action):
        if self.unwrapped.np_random_seed % 2:
            raise ZeroDivisionError("an odd seed")
        return super().step(action)

gym.register("FailsForSome-v0", lambda: FailsForSome(gym.make("CartPole-v1", max_episode_steps=20)))
"""


def train(*more):
    return main(["train", "dqn", "--env", "CartPole-v1", *SMALL, "--max-steps", "60", "--no-progress", *more])


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("3", [3]), ("0-4", [0, 1, 2, 3, 4]), ("0,2,5-7", [0, 2, 5, 6, 7]), (" 4 - 5 , 1", [4, 5, 1]), ("7-7", [7])],
)
def test_a_list_of_seeds(text, seeds):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "--seeds takes numbers and ranges such as 0,2,5-7, got ''"),
        ("a", "got 'a'"),
        ("1,", "got '1,'"),
        ("-1", "got '-1'"),
        ("1-", "got '1-'"),
        ("1-2-3", "got '1-2-3'"),
        ("1.5", "got '1.5'"),
        ("5-3", "the range 5-3 ends before it begins"),
        ("0-2,1", "--seeds 0-2,1 names a seed twice"),
        ("0-10000", "more than 10,000 seeds"),
        (f"0-{10**30}", "more than 10,000 seeds"),
    ],
)
def test_what_is_no_list_of_seeds(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_seeds(text)


def test_each_seed_is_the_run_it_would_be_alone(tmp_path, capsys):
    folder = tmp_path / "cart"
    assert train("--seeds", "0,2-3", "--run-dir", str(folder), "--jobs", "2") == 0
    shown = capsys.readouterr()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cart-seed0", "cart-seed2", "cart-seed3"]
    assert "DQN on CartPole-v1, 3 seeds" in shown.out
    for seed in (0, 2, 3):
        assert re.search(rf"  seed {seed}\s+[0-9.]+ at step 60\s+{folder}-seed{seed}\n", shown.out)
        assert re.search(rf"^seed {seed}: [0-9.]+ at step 60$", shown.err, re.MULTILINE)
        config = json.loads(Path(f"{folder}-seed{seed}", "config.json").read_text())["config"]
        assert (config["seed"], config["max_steps"]) == (seed, 60)
    assert train("--seed", "2", "--run-dir", str(tmp_path / "alone")) == 0
    assert weights(Path(f"{folder}-seed2")) == weights(tmp_path / "alone")
    assert weights(Path(f"{folder}-seed2")) != weights(Path(f"{folder}-seed3"))
    command = next(line for line in shown.out.splitlines() if line.startswith("rlfast plot")).removesuffix(
        " draws them"
    )
    assert main([*command.split()[1:], "--out", str(tmp_path / "curves.png")]) == 0
    assert "over 3 runs" in capsys.readouterr().out


def test_folders_have_the_names_of_single_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert train("--seeds=1") == 0
    assert train("--seeds=1") == 0
    capsys.readouterr()
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
        "dqn-CartPole-v1-seed1",
        "dqn-CartPole-v1-seed1-2",
    ]


def test_a_seed_that_fails_stops_no_other(tmp_path, monkeypatch, capsys):
    (tmp_path / "their_failing_envs.py").write_text(FAILING)
    monkeypatch.syspath_prepend(str(tmp_path))
    from rlfast.experiment.config import stream_seed

    fails = {seed: any(stream_seed(seed, f"env/train/{i}") % 2 for i in range(2)) for seed in range(12)}
    tests = {seed: any(stream_seed(seed, f"env/test/{i}") % 2 for i in range(2)) for seed in range(12)}
    bad = next(seed for seed in fails if fails[seed] and not tests[seed])
    good = next(seed for seed in fails if not fails[seed] and not tests[seed])
    arguments = ["train", "dqn", "--env", "their_failing_envs:FailsForSome-v0", *SMALL, "--max-steps", "30"]
    arguments += ["--num-envs", "2", "--eval-envs", "2", "--eval-episodes", "2"]
    assert main([*arguments, "--seeds", f"{bad},{good}", "--run-dir", str(tmp_path / "run")]) == 1
    shown = capsys.readouterr()
    assert f"seed {bad}: the run failed: ZeroDivisionError: an odd seed" in shown.err
    assert f"rlfast: seeds {bad} failed\n" in shown.err
    assert re.search(rf"  seed {bad}\s+failed, ", shown.out)
    assert re.search(rf"  seed {good}\s+[0-9.]+ at step 30", shown.out)
    assert (tmp_path / f"run-seed{bad}" / "error.log").exists()


def test_a_required_return_that_is_missed_fails(tmp_path, capsys):
    assert train("--seeds", "0-1", "--run-dir", str(tmp_path / "run"), "--require-stop-return") == 1
    assert "rlfast: seeds 0, 1 failed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "x"], "--seeds takes numbers and ranges"),
        (["--seeds", "0-1", "--seed", "3"], "--seed and --seeds exclude each other"),
        (["--seeds", "0-1", "--jobs", "0"], "--jobs must be at least 1, got 0"),
        (["--jobs", "2"], "--jobs is for --seeds"),
        (["--seeds", "0-1", "--max-steps", "0"], "--max-steps must be at least 1, got 0"),
        (["--seeds", "0-1", "--no-such-flag"], "there is no option --no-such-flag"),
    ],
)
def test_bad_arguments_end_with_2_and_leave_nothing(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "dqn", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_settings_that_no_run_can_have_end_with_2(tmp_path, capsys):
    folder = tmp_path / "run"
    assert main(["train", "dqn", "--env", "Pendulum-v1", "--seeds", "0-1", "--run-dir", str(folder)]) == 2
    assert "seed 1: DQN needs discrete actions" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_use_is_refused_before_anything_begins(tmp_path, capsys):
    (tmp_path / "run-seed1").mkdir()
    (tmp_path / "run-seed1" / "notes.txt").write_text("mine")
    assert train("--seeds", "0-2", "--run-dir", str(tmp_path / "run")) == 2
    assert "run-seed1 is not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["run-seed1"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT to send")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_all_and_leaves_what_can_go_on(tmp_path, number, start):
    folders = [tmp_path / f"run-seed{seed}" for seed in range(3)]
    command = [sys.executable, "-m", "rlfast", "train", "dqn", "--env", "CartPole-v1", *SMALL, "--seeds", "0-2"]
    command += ["--jobs", "2", "--stop-return", "None", "--run-dir", str(tmp_path / "run")]
    process = start(command)
    saved = [folder / "checkpoint" / "checkpoint.json" for folder in folders[:2]]
    wait_until(lambda: all(path.exists() for path in saved) or process.poll() is not None, "saving")
    assert process.poll() is None, process.stderr.read()
    os.kill(process.pid, number)
    shown, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert f"rlfast: interrupted: rlfast train --resume RUN_DIR goes on with {folders[0]} {folders[1]}\n" in error
    assert "Traceback" not in error
    assert not folders[2].exists()
    assert "not begun" in shown
    steps = json.loads(saved[0].read_text())["env_step"]
    assert f"seed 0: interrupted at step {steps}:" in error
    more = ["--max-steps", str(steps + 8), "--no-progress"]
    assert main(["train", "--resume", str(folders[0]), *more]) == 0
    assert json.loads(saved[0].read_text())["env_step"] == steps + 8


def test_the_help_names_it(capsys):
    assert main(["train", "--help"]) == 0
    assert "--seeds 0,2,5-7" in capsys.readouterr().out
    assert main(["train", "dqn", "--help"]) == 0
    assert "--seeds 0-4" in " ".join(capsys.readouterr().out.split())
    assert ALGORITHMS["dqn"].config().seed == 0
