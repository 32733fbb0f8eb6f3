import shutil
from pathlib import Path

import pytest

from rlfast.cli import main
from rlfast.experiment import DQNConfig, train


@pytest.fixture
def run(run_dir):
    config = DQNConfig(
        run_dir=run_dir, max_steps=40, num_envs=2, eval_episodes=2, eval_envs=2, hidden_sizes=(8,), collect_steps=8,
        buffer_size=100, start_steps=20, batch_size=8, progress=False,
    )  # fmt: skip
    return str(train(config).run_dir)


def test_returns_are_summarised(run, capsys):
    assert main(["eval", run, "--episodes", "3"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("3 episodes: return ")
    assert main(["eval", run, "--episodes", "3"]) == 0
    assert capsys.readouterr().out == shown


def test_how_episodes_are_played(run, capsys):
    assert main(["eval", run, "--episodes", "2", "--env-kwargs", "sutton_barto_reward=true", "--deterministic"]) == 0
    assert capsys.readouterr().out.startswith("2 episodes: return -1.00 ")
    assert main(["eval", run, "--no-deterministic"]) == 2
    assert capsys.readouterr().err == "rlfast: DQNPolicy draws no actions: it cannot play with deterministic=False\n"
    assert main(["eval", run, "--env-kwargs", "sutton"]) == 2
    assert "argument --env-kwargs: 'sutton' is not NAME=VALUE" in capsys.readouterr().err


def test_a_run_from_a_gpu(run, capsys):
    config = Path(run, "config.json")
    config.write_text(config.read_text().replace('"device": "cpu"', '"device": "cuda:7"'))
    said = "rlfast: the run was trained on cuda:7, which is not here: the CPU takes over (--device chooses)\n"
    assert main(["eval", run, "--episodes", "3"]) == 0
    assert capsys.readouterr().err == said
    assert main(["eval", run, "--episodes", "3", "--device", "cpu"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["train", "--resume", run, "--max-steps", "60", "--no-progress"]) == 0
    assert capsys.readouterr().err == said
    assert main(["train", "--resume", run, "--max-steps", "80", "--device", "cpu", "--no-progress"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["eval", run, "--device", "cuda:7"]) == 2


def test_curves_are_drawn(run, tmp_path, capsys):
    other = shutil.copytree(run, tmp_path / "other")
    assert main(["plot", run, str(other), "--out", str(tmp_path / "x.png")]) == 2
    said = f"rlfast: {run} and {other} are runs of the same configuration and the same seed 0"
    assert capsys.readouterr().err.startswith(said)
    config = other / "config.json"
    config.write_text(config.read_text().replace('"seed": 0', '"seed": 1'))
    assert main(["plot", run, str(other), "--out", str(tmp_path / "x.png")]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("DQN, CartPole-v1: ")
    assert shown[0].endswith(" over 2 runs")
    assert shown[1] == str(tmp_path / "x.png")
    assert (tmp_path / "x.png").exists()
    assert main(["plot", run, "--output", str(tmp_path / "y.png")]) == 0  # as of `rlfast bench`
    assert (tmp_path / "y.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["eval"], "the following arguments are required: RUN (rlfast eval --help)"),
        (["eval", "nowhere"], "nowhere is no run folder"),
        (["eval", "nowhere", "--episodes", "some"], "'some' is no whole number"),
        (["plot"], "the following arguments are required: RUN (rlfast plot --help)"),
        (["plot", "nowhere"], "nowhere is no run folder"),
        (["plot", "nowhere", "--confidence", "2"], "--confidence must be within 0 and 1, got 2.0"),
    ],
)
def test_bad_arguments_end_with_2(arguments, message, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert f"rlfast: {message}" in error or message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--episodes", "0"], "episodes must be at least 1, got 0"),
        (["--seed", "-1"], "seed must not be negative, got -1"),
        (["--best"], "has no best policy"),
    ],
)
def test_what_a_run_cannot_be_played_with(run, arguments, message, capsys):
    shutil.rmtree(Path(run, "best"))
    assert main(["eval", run, *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_the_best_policy_is_played(run, capsys):
    assert main(["eval", run, "--episodes", "2", "--best"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("2 episodes of the best policy: return ")
    shutil.rmtree(Path(run, "checkpoint"))
    assert main(["eval", run, "--episodes", "2", "--best"]) == 0
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize("command", ["eval", "plot"])
def test_help(command, capsys):
    assert main([command, "--help"]) == 0
    assert "usage: rlfast " + command in capsys.readouterr().out
    assert main(["train", "--resume", "--help"]) == 0
