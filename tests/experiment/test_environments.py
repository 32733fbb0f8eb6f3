"""Environments of runs: registered anew, in modules, in namespaces of packages."""

import sys

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec

from rlfast.cli import main
from rlfast.experiment.evaluate import evaluate
from rlfast.experiment.parts import RunWarning, make_envs
from rlfast.experiment.run import ConfigError, resume, train
from scripted import Scripted

MODULE = """
import gymnasium as gym
from pathlib import Path
from scripted import Scripted

Path({witness!r}).touch()
gym.register("Theirs-v0", entry_point=Scripted, disable_env_checker=True, max_episode_steps=4)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module that leaves a file when it runs, which this gives, and how to forget that it was imported."""
    witness = tmp_path / "was_here"
    (tmp_path / "their_envs.py").write_text(MODULE.format(witness=str(witness)))
    monkeypatch.syspath_prepend(str(tmp_path))

    def forget():
        sys.modules.pop("their_envs", None)
        gym.registry.pop("Theirs-v0", None)
        witness.unlink(missing_ok=True)

    yield witness, forget
    forget()


def test_a_folder_imports_no_module_unless_it_is_allowed(tiny, module, capsys):
    witness, forget = module
    run = train(tiny(env="their_envs:Theirs-v0", max_steps=60)).run_dir
    assert witness.exists()  # who starts a run says what it imports
    forget()
    with pytest.raises(ConfigError, match=r"names the environment 'their_envs:Theirs-v0'.*'their_envs' would be"):
        resume(run, max_steps=80)
    with pytest.raises(ValueError, match="allow_import=True"):
        evaluate(run, 2)
    assert main(["eval", str(run), "--episodes", "2"]) == 2
    assert main(["train", "--resume", str(run), "--max-steps", "80", "--no-progress"]) == 2
    shown = capsys.readouterr().err
    assert shown.count("--allow-import") == shown.count("\n") == 2
    assert main(["plot", str(run), "--out", str(run / "x.png")]) == 0
    assert not witness.exists()
    assert len(evaluate(run, 2, allow_import=True).returns) == 2
    assert witness.exists()
    assert main(["eval", str(run), "--episodes", "2", "--allow-import"]) == 0
    assert main(["train", "--resume", str(run), "--max-steps", "80", "--allow-import", "--no-progress"]) == 0
    assert resume(run, max_steps=100, allow_import=True).env_step == 100


def test_what_the_caller_names_needs_no_flag(tiny, module):
    run = train(tiny(env="their_envs:Theirs-v0", max_steps=60)).run_dir
    module[1]()
    assert resume(run, max_steps=80, env="their_envs:Theirs-v0").env_step == 80


@pytest.mark.parametrize("kind", ["class", "wrapper", "limit"])
def test_a_run_has_the_environment_that_is_registered(tiny, monkeypatch, kind):
    own = gym.spec("CartPole-v1")
    spec = {
        "class": EnvSpec("CartPole-v1", entry_point=Scripted, disable_env_checker=True),
        "wrapper": gym.wrappers.TimeAwareObservation(gym.make("CartPole-v1")).spec,
        "limit": EnvSpec("CartPole-v1", entry_point=own.entry_point, max_episode_steps=7),
    }[kind]
    monkeypatch.setitem(gym.registry, "CartPole-v1", spec)
    envs = make_envs(tiny(), "train")
    assert envs.placement == ("native" if kind == "limit" else "in-process")
    assert envs.single_observation_space.shape == {"class": (2,), "wrapper": (5,), "limit": (4,)}[kind]
    assert envs.spec[0].max_episode_steps == spec.max_episode_steps
    envs.close()


def test_games_of_atari_are_there_and_warned_of(tiny):
    pytest.importorskip("ale_py")
    config = tiny(env="ALE/Pong-v5")
    with pytest.warns(RunWarning, match=r"shape \(210, 160, 3\): the fully connected network .* 100,800 numbers"):
        envs = make_envs(config, "train")
    assert envs.single_observation_space.shape == (210, 160, 3)
    envs.close()
    make_envs(config, "test").close()  # said once
