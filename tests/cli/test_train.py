import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import fields

import gymnasium as gym
import pytest

from machine import PATIENCE, wait_until
from rlfast.cli import main
from rlfast.cli.parsing import GROUPS, descriptions_of, read_settings
from rlfast.cli.train import config_of
from rlfast.experiment import ALGORITHMS

SMALL = [f"--{setting}" for setting in (
    "num-envs=2", "eval-episodes=2", "eval-envs=2", "eval-interval=80", "hidden-sizes=8", "batch-size=8",
    "buffer-size=100", "start-steps=20", "collect-steps=8",
)]  # fmt: skip


def train(run_dir, *more):
    return main(["train", "dqn", "--env", "CartPole-v1", "--run-dir", str(run_dir), *SMALL, *more])


def test_a_run(run_dir, capsys):
    assert train(run_dir, "--max-steps", "200", "--seed", "4") == 0
    shown = capsys.readouterr()
    assert "DQN on CartPole-v1, seed 4" in shown.out
    assert "environment steps   200" in shown.out
    assert shown.out.startswith(f"run folder: {run_dir}\n")
    assert [line.partition(",")[0] for line in shown.err.splitlines()] == [
        "step 100 of 200 (50%)", "step 180 of 200 (90%)", "step 200 of 200 (100%)"
    ]  # fmt: skip
    assert "best test" in shown.out
    assert str(run_dir / "best") in shown.out
    config = json.loads((run_dir / "config.json").read_text())["config"]
    assert (config["max_steps"], config["seed"], config["stop_return"]) == (200, 4, 475.0)


@pytest.mark.parametrize("env", ["CartPole", "CartPole-v1"])
def test_an_environment_without_a_version_is_the_newest(env, run_dir, capsys):
    assert main(["train", "dqn", f"--env={env}", "--run-dir", str(run_dir), *SMALL, "--max-steps", "40"]) == 0
    assert "DQN on CartPole-v1, seed 0" in capsys.readouterr().out
    config = json.loads((run_dir / "config.json").read_text())["config"]
    assert (config["env"], config["stop_return"]) == ("CartPole-v1", 475.0)


@pytest.mark.parametrize(
    ("given", "compiles"),
    [
        ({}, True),
        ({"max_steps": 29_999}, False),  # after 25,000 without gradient steps
        ({"max_steps": 30_000}, True),
        ({"max_steps": 27_500, "updates_per_step": 2}, True),
        ({"max_steps": 100, "compile": True}, True),
        ({"compile": False}, False),
    ],
)
def test_short_runs_of_presets_do_not_compile(given, compiles):
    assert config_of(ALGORITHMS["td3"], {"env": "HalfCheetah-v5"} | given).compile == compiles


@pytest.mark.parametrize(
    ("algorithm", "env", "steps"),
    [("ppo", "HalfCheetah-v5", 156_250), ("dqn", "LunarLander-v3", 49_875), ("cql", "Pendulum-v1", 10_000)],
)
def test_gradient_steps_of_presets(algorithm, env, steps):
    assert ALGORITHMS[algorithm].preset(env).gradient_steps == steps


@pytest.mark.parametrize("env", ["NoGame", "x/y/z", "a b", "CartPole-v0x", ""])
def test_unknown_environments_are_refused_by_their_own_name(env, run_dir, capsys):
    assert main(["train", "dqn", "--env", env, "--run-dir", str(run_dir), *SMALL]) == 2
    assert env in capsys.readouterr().err
    assert not run_dir.exists()


def test_any_field_can_be_set(run_dir):
    fields = {
        "--n-step": "2",
        "--gamma": "0.9",
        "--learning-rate": "0.01",
        "--alpha": "0.5",
        "--stop-return": "None",
        "--target-update-freq": "0",
    }
    flags = ["--prioritized", "--no-double", "--dueling", "--no-huber", "--no-progress"]
    arguments = [text for pair in fields.items() for text in pair]
    assert train(run_dir, "--max-steps", "60", *arguments, *flags) == 0
    config = json.loads((run_dir / "config.json").read_text())["config"]
    numbers = {"estimation_step": 2, "discount_factor": 0.9, "learning_rate": 0.01, "alpha": 0.5, "stop_return": None}
    switches = {"prioritized": True, "is_double": False, "dueling": True, "clip_loss_grad": False}
    assert numbers.items() | switches.items() <= config.items()


def test_help_shows_the_settings_of_the_environment(capsys):
    assert main(["train", "--help"]) == 0
    assert "dqn" in capsys.readouterr().out
    assert main(["train", "dqn", "--env", "CartPole-v1", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for part in ("--max-steps INT", "--run-dir", "--prioritized", "475.0", "Exact number of environment steps"):
        assert part in shown, part
    assert main(["train", "dqn", "--env", "Acrobot-v1", "--help"]) == 0
    assert "475.0" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "rlfast: no algorithm was given (rlfast train --help lists all)"),
        (["train", "ppoo"], "rlfast: there is no algorithm 'ppoo'; did you mean ppo?"),
        (["train", "discrete_sac"], "did you mean discrete-sac?"),
        (["train", "PPO"], "did you mean ppo?"),
        (["train", "xyz"], "rlfast: there is no algorithm 'xyz' (rlfast train --help lists all)"),
        (["train", "dqn", "--resume", "runs/x"], "without an algorithm: rlfast train --resume RUN_DIR"),
        (["train", "dqn", "--resume=runs/x"], "without an algorithm: rlfast train --resume RUN_DIR"),
        (["train", "dqn", "--no-such-flag", "3"], "rlfast: there is no option --no-such-flag ("),
        (["train", "npg", "--compile"], "rlfast: there is no option --compile"),
        (["train", "dqn", "--lr", "3"], "did you mean --learning-rate?"),
        (["train", "dqn", "--total-timesteps", "3"], "did you mean --max-steps?"),
        (["train", "dqn", "--n_envs", "3"], "did you mean --num-envs?"),
        (["train", "dqn", "--no-doubel"], "did you mean --no-double?"),
        (["train", "dqn", "--hiden-sizes", "3"], "did you mean --hidden-sizes?"),
        (["train", "dqn", "--seds", "0-3"], "did you mean --seeds?"),
        (["train", "dqn", "--max-step", "3"], "did you mean --max-steps?"),
        (["train", "dqn", "--max-steps", "many"], "rlfast: argument --max-steps: 'many' is no whole number"),
        (["train", "dqn", "--double", "False"], "False; --double is a switch without a value, and --no-double is its"),
        (["train", "dqn", "CartPole-v1"], "CartPole-v1; did you mean --env CartPole-v1?"),
        (["train", "dqn", "--hidden-sizes", "64,a"], "argument --hidden-sizes: 'a' is no whole number"),
        (["train", "dqn", "--channels", "1", "2"], "--channels must be 3 values, got 2"),
        (["train", "dqn", "--max-steps", "1.5"], "argument --max-steps: '1.5' is no whole number"),
        (["train", "dqn", "--gamma", "high"], "argument --gamma: 'high' is no number"),
        (["train", "dqn", "--backend", "fast"], "'fast' is none of auto, native, in-process, process"),
        (["train", "dqn", "--env-kwargs", "gravity"], "argument --env-kwargs: 'gravity' is not NAME=VALUE"),
        (["train", "dqn", "--env-kwargs", "{"], "argument --env-kwargs: '{' is no JSON"),
        (["train", "dqn", "--env-kwargs", "no_such=1"], "no_such"),
        (["train", "dqn", "--wrappers", "gymnasium.wrappers:No"], "--wrappers gymnasium.wrappers:No cannot be found"),
        (["train", "dqn", "--storage", "zst"], "--storage zst is none of ram, lz4, zstd: write ./zst for a folder"),
        (["train", "dqn", "--env"], "rlfast: argument --env: expected one argument"),
        (["train", "dqn", "--max-steps", "0"], "rlfast: --max-steps must be at least 1, got 0"),
        (["train", "dqn", "--gamma", "2"], "rlfast: --gamma must be within 0 and 1, got 2.0"),
        (["train", "dqn", "--env", "NoSuchEnv-v0"], "NoSuchEnv"),
        (["train", "dqn", "--env", "no_such_module:Env-v0"], "no_such_module"),
        (["train", "dqn", "--env", "Pendulum-v1"], "rlfast: DQN needs discrete actions"),
        (["train", "dqn", "--device", "abacus"], "rlfast: --device abacus cannot be used here"),
        (["train", "dqn", "--device", "mps"], "from the 'MPS' backend; choose --device cpu\n"),
    ],
)
def test_bad_arguments_end_with_2_and_leave_nothing(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("rlfast: ")
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        (["--max-steps", "6e1"], "max_steps", 60),
        (["--max-steps=6_0"], "max_steps", 60),
        (["--max_steps", "60"], "max_steps", 60),
        (["--stop-return", "-2e2"], "stop_return", -200.0),
        (["--stop-return", "-.5"], "stop_return", -0.5),
        (["--stop-return=none"], "stop_return", None),
        (["--hidden-sizes", "8,4"], "hidden_sizes", [8, 4]),
        (["--hidden-sizes", "8", "4"], "hidden_sizes", [8, 4]),
        (["--hidden-sizes"], "hidden_sizes", []),
        (["--env-seeds", "1", "2"], "env_seeds", [1, 2]),
        (["--env-seeds", "None"], "env_seeds", None),
        (["--max-steps", "10", "--max-steps", "60"], "max_steps", 60),
        (["--env-kwargs", "sutton_barto_reward=true"], "env_kwargs", {"sutton_barto_reward": True}),
        (["--env-kwargs", "a=False", "b=None"], "env_kwargs", {"a": False, "b": None}),
        (["--env-kwargs", '{"sutton_barto_reward": false}'], "env_kwargs", {"sutton_barto_reward": False}),
        (["--wrappers", "a:B,c:D"], "wrappers", ["a:B", "c:D"]),
        (
            ["--wrappers", "a:B(x=1, y=(2, (3, 4)), z='a'),c:D", "e:F"],
            "wrappers",
            ["a:B(x=1, y=(2, (3, 4)), z='a')", "c:D", "e:F"],
        ),
        (["--wrappers", "a:B(x=1"], "wrappers", ["a:B(x=1"]),
    ],
)
def test_values_may_be_written_in_several_ways(arguments, name, value):
    kind = ALGORITHMS["dqn"].config
    given = read_settings("rlfast train dqn", kind, arguments, ALGORITHMS["dqn"].preset)
    assert given.keys() == {name}
    assert json.loads(kind(**given).to_json())[name] == value


@pytest.mark.parametrize("algorithm", ["dqn", "ppo", "il"])
def test_settings_stand_in_groups(algorithm, capsys):
    assert main(["train", algorithm, "--help"]) == 0
    shown = capsys.readouterr().out
    titles = re.findall(r"^(\w[^\n]*):$", shown, re.MULTILINE)
    assert titles == ["options", "common", "algorithm", "network", "tests, checkpoints and logging", "distributed"]
    common = shown[shown.index("\ncommon:") : shown.index("\nalgorithm:")]
    places = [common.index(f"  --{name} ") for name in ("env", "max-steps", "seed", "run-dir", "learning-rate")]
    assert places == sorted(places)
    assert shown.index("--ray") > shown.index("\ndistributed:")
    assert "Always" not in shown  # what has one value is not shown


def test_each_setting_is_in_one_group():
    named = [name for names in GROUPS.values() for name in names]
    assert len({*named}) == len(named)
    known = {field.name for algorithm in ALGORITHMS.values() for field in fields(algorithm.config)}
    assert {*named} - known == {"config", "seeds", "jobs"}


@pytest.mark.parametrize("algorithm", [*ALGORITHMS])
def test_each_setting_is_described(algorithm, capsys):
    kind = ALGORITHMS[algorithm].config
    described = descriptions_of(kind)
    assert {field.name for field in fields(kind) if not described.get(field.name)} == set()


FIRST = """
import sys
from rlfast.cli import main

class Out:
    def write(self, text):
        if text.strip():
            print(text.strip(), "torch" in sys.modules, file=sys.stderr)
            raise KeyboardInterrupt

    def flush(self):
        pass

sys.stdout = Out()
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("chosen", [True, False])
def test_the_folder_is_named_before_torch_is_imported(tmp_path, chosen):
    command = [sys.executable, "-c", FIRST, "train", "dqn", "--env", "CartPole-v1"]
    command += ["--run-dir", "a/b"] if chosen else []
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    folder = "a/b" if chosen else os.path.join("runs", "dqn-CartPole-v1-seed0")  # noqa: PTH118 (as it is printed)
    assert done.stderr == f"run folder: {folder} False\nrlfast: interrupted\n"
    assert done.returncode == 130
    assert [*tmp_path.iterdir()] == []  # what was empty is gone


def test_folders_that_were_there_stay(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "mine").mkdir()
    for folder in ([], ["--run-dir", "mine"]):
        assert main(["train", "dqn", "--env", "NoSuchEnv-v0", *folder]) == 2
    assert "NoSuchEnv" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["mine", "runs"]


OWN = """
import gymnasium as gym
gym.register("Own-v0", "gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=20)
"""


def test_an_environment_in_the_current_folder_needs_no_permission(tmp_path, monkeypatch, run_dir, capsys):
    name = f"own_{abs(hash(str(tmp_path)))}"
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / f"{name}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path / "project")
    path = [one for one in sys.path if one]
    monkeypatch.setattr(sys, "path", [*path])  # as the command finds it, and not `python -m`
    assert main(["check-env", f"{name}:Own-v0", "--steps", "50"]) == 0
    sys.modules.pop(name)
    gym.registry.pop("Own-v0")
    monkeypatch.setattr(sys, "path", [*path])
    command = ["train", "dqn", "--env", f"{name}:Own-v0", "--run-dir", str(run_dir), *SMALL, "--no-progress"]
    assert main([*command, "--max-steps", "60"]) == 0
    monkeypatch.chdir(tmp_path)
    for arguments in (
        ["eval", str(run_dir), "--episodes", "2"],
        ["train", "--resume", str(run_dir), "--max-steps", "80"],
    ):
        sys.modules.pop(name)
        gym.registry.pop("Own-v0")
        monkeypatch.setattr(sys, "path", [*path])
        assert main([*arguments, *(["--no-progress"] if "train" in arguments else [])]) == 0
    gym.registry.pop("Own-v0")
    assert capsys.readouterr().err == ""


def test_a_cluster_is_not_connected_to_unless_it_is_named(run_dir, capsys):
    assert train(run_dir, "--max-steps", "60", "--no-progress") == 0
    text = (run_dir / "config.json").read_text()
    (run_dir / "config.json").write_text(text.replace('"ray": null', '"ray": "evil:6379"'))
    capsys.readouterr()
    assert main(["train", "--resume", str(run_dir), "--max-steps", "80", "--allow-import"]) == 2
    assert "connects only when it is asked for: --ray evil:6379" in capsys.readouterr().err


def test_a_folder_in_use_is_refused(run_dir, capsys):
    run_dir.mkdir()
    (run_dir / "notes.txt").write_text("mine")
    assert train(run_dir) == 2
    assert f"rlfast: {run_dir} is not empty" in capsys.readouterr().err
    assert [path.name for path in run_dir.iterdir()] == ["notes.txt"]


def test_a_failed_run_ends_with_1_and_one_line(run_dir, monkeypatch, capsys):
    def broken(*_):
        raise ZeroDivisionError("in the\nupdate")

    monkeypatch.setattr("rlfast.policy.DQNPolicy.learn", broken)
    assert train(run_dir, "--max-steps", "200", "--no-progress") == 1
    error = capsys.readouterr().err
    assert error.startswith("rlfast: the run failed: ZeroDivisionError: in the update (traceback in ")
    assert error.count("\n") == 1


def test_a_missing_compiler_is_told_in_our_own_words(run_dir, monkeypatch, capsys):
    def broken(*_):
        raise RuntimeError("InvalidCxxCompiler: No working C++ compiler found in torch._inductor.config.cpp.cxx")

    monkeypatch.setattr("rlfast.policy.DQNPolicy.learn", broken)
    assert train(run_dir, "--max-steps", "200", "--no-progress") == 1
    message = "rlfast: the run failed: --compile needs a C++ compiler: install one, or leave it out (traceback in "
    assert capsys.readouterr().err.startswith(message)


def test_a_required_return_that_is_missed_fails_the_run(run_dir, capsys):
    assert train(run_dir, "--max-steps", "60", "--require-stop-return", "--no-progress") == 1
    shown = capsys.readouterr()
    assert "rlfast: the run ended below the return that was required, 475" in shown.err
    assert "below 475" in shown.out


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT to send")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_a_checkpoint_and_a_readable_line(run_dir, number, start):
    command = [sys.executable, "-m", "rlfast", "train", "dqn", "--env", "CartPole-v1", "--run-dir", str(run_dir)]
    command += [*SMALL, "--stop-return", "None", "--no-progress"]
    process = start(command)
    saved = run_dir / "checkpoint" / "checkpoint.json"
    wait_until(lambda: saved.exists() or process.poll() is not None, "saving")
    assert process.poll() is None, process.stderr.read()
    os.kill(process.pid, number)
    error = process.communicate(timeout=PATIENCE)[1]
    assert process.returncode == 130
    assert "rlfast: interrupted at step" in error
    assert "Traceback" not in error
    counters = json.loads((run_dir / "checkpoint" / "checkpoint.json").read_text())
    assert f"interrupted at step {counters['env_step']}:" in error
    assert f"rlfast train --resume {run_dir} goes on" in error
    assert (run_dir / "learning_curve.png").exists()


def weights(run_dir):
    return (run_dir / "checkpoint" / "policy.safetensors").read_bytes()


KILLED = """
import os, signal, sys
from rlfast.cli import main
from rlfast.experiment import training
from rlfast.policy import DQNPolicy

saved, updated = [], []
save, update = training.save_checkpoint, DQNPolicy.update

def count_saves(*args, **kwargs):
    save(*args, **kwargs)
    saved.append(True)

def count_updates(*args, **kwargs):
    updated.extend(saved[1:2])
    if len(updated) == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return update(*args, **kwargs)

training.save_checkpoint, DQNPolicy.update = count_saves, count_updates
sys.exit(main(sys.argv[1:]))
"""  # it is killed at the fifth update after its second checkpoint


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.pitfall("F10")
def test_a_run_that_was_killed_goes_on_as_if_it_had_not(run_dir, tmp_path, capsys):
    assert train(tmp_path / "straight", "--max-steps", "1200", "--stop-return", "None", "--no-progress") == 0
    command = [sys.executable, "-c", KILLED, "train", "dqn", "--env", "CartPole-v1", "--run-dir", str(run_dir)]
    command += [*SMALL, "--max-steps", "1200", "--stop-return", "None", "--no-progress"]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert (run_dir / "checkpoint").exists()
    assert main(["train", "--resume", str(run_dir), "--no-progress"]) == 0
    assert "environment steps   1,200" in capsys.readouterr().out
    assert weights(run_dir) == weights(tmp_path / "straight")
    assert main(["train", "--resume", str(run_dir), "--no-progress"]) == 0
    assert capsys.readouterr().err == "rlfast: the run had ended at step 1200: nothing was left to do\n"
    assert weights(run_dir) == weights(tmp_path / "straight")


def test_the_folder_may_follow_an_equals_sign(run_dir, capsys):
    assert main(["train", f"--resume={run_dir}"]) == 2
    assert capsys.readouterr().err == f"rlfast: {run_dir} is no run folder: it has no config.json\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: RUN_DIR (rlfast train --resume --help)"),
        (["nowhere"], "rlfast: nowhere is no run folder: it has no config.json"),
        (["nowhere", "--max-steps", "many"], "'many' is no whole number"),
        (["nowhere", "--colour"], "unrecognized arguments: --colour"),
        (["nowhere", "--seed", "3"], "a resumed run keeps its settings, and --seed cannot be changed: leave it out"),
        (["nowhere", "--no-prioritized"], "--no-prioritized cannot be changed"),
        (["nowhere", "--learning-rate=1e-3"], "--learning-rate cannot be changed"),
    ],
)
def test_what_cannot_be_resumed_ends_with_2(arguments, message, capsys):
    assert main(["train", "--resume", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_settings_without_effect_are_told_in_one_line(run_dir, capsys):
    assert train(run_dir, "--max-steps", "60", "--no-progress", "--schedule-factor", "0.5") == 0
    assert capsys.readouterr().err == "rlfast: without effect: --schedule-factor (no schedule is exponential)\n"
    assert main(["train", "--resume", str(run_dir), "--max-steps", "80", "--no-progress"]) == 0
    assert capsys.readouterr().err == ""  # told once


FILES = {
    "best.json": '{"algorithm": "dqn", "env": "CartPole-v1", "hidden_sizes": [16, 8], "lr": 0.01, "--eval-envs": 2}',
    "some.toml": "hidden-sizes = [16, 8]\nlearning_rate = 0.01\n",
}


@pytest.mark.parametrize(("name", "text"), FILES.items(), ids=FILES)
def test_settings_come_from_a_file(name, text, tmp_path):
    (tmp_path / name).write_text(text.replace('"lr"', '"learning-rate"'))
    small = [one for one in SMALL if "hidden" not in one]
    command = ["train", "dqn", "--config", str(tmp_path / name), "--max-steps", "40", "--no-progress", *small]
    assert main([*command, "--run-dir", str(tmp_path / "run"), "--learning-rate", "0.02"]) == 0
    config = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert (config["hidden_sizes"], config["learning_rate"], config["num_envs"]) == ([16, 8], 0.02, 2)

    again = ["train", "dqn", "--config", str(tmp_path / "run" / "config.json"), "--run-dir", str(tmp_path / "again")]
    assert main(again) == 0
    assert json.loads((tmp_path / "again" / "config.json").read_text())["config"] == config | {
        "run_dir": str(tmp_path / "again")
    }


WRONG_FILES = {
    "no JSON": ("a.json", "{", "cannot be read: Expecting property name"),
    "no TOML": ("a.toml", "x = = 1", "cannot be read: Invalid value"),
    "no text": ("a.json", b"\xff\xfe\x00", "cannot be read: "),
    "deep": ("a.json", "[" * 100_000, "cannot be read: "),
    "a list": ("a.json", "[1]", "must have a table of settings, got list"),
    "another algorithm": ("a.json", '{"algorithm": "ppo"}', "has settings of ppo: rlfast train ppo --config"),
    "no algorithm": ("a.json", '{"algorithm": []}', "has settings of []"),
    "a misspelt setting": ("a.json", '{"learning_rat": 1}', "there is no setting learning_rat; did you mean"),
    "a wrong type": ("a.json", '{"learning_rate": "fast"}', "--learning-rate must be"),
    "out of range": ("a.json", '{"max_steps": 0}', "--max-steps must be at least 1, got 0"),
}


@pytest.mark.parametrize(("name", "text", "error"), WRONG_FILES.values(), ids=WRONG_FILES)
def test_wrong_files_of_settings_are_one_line(name, text, error, tmp_path, capsys):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    assert train(tmp_path / "run", "--config", str(tmp_path / name)) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert error in shown
    assert not (tmp_path / "run").exists()


def test_a_missing_file_of_settings_is_one_line(tmp_path, capsys):
    assert train(tmp_path / "run", "--config", str(tmp_path / "none.json"), "--seeds", "0-1") == 2
    assert capsys.readouterr().err == f"rlfast: {tmp_path / 'none.json'}: No such file or directory\n"
