"""Environments of runs: registered anew, in modules, in namespaces of packages."""

import sys
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.wrappers import TransformObservation

from rlfast.cli import main
from rlfast.experiment import ALGORITHMS, evaluate
from rlfast.experiment.build import build
from rlfast.experiment.config import RunWarning
from rlfast.experiment.environments import make_envs
from rlfast.experiment.run import ConfigError, resume, train
from scripted import Scripted

MODULE = """
import gymnasium as gym
from pathlib import Path
from scripted import Scripted

Path({witness!r}).touch()
gym.register("Theirs-v0", entry_point=Scripted, disable_env_checker=True, max_episode_steps=4)
"""


IMAGE = Box(-9, 9, (4, 8, 8))


def as_image(obs):
    return np.broadcast_to(np.clip(obs, -9, 9)[:, None, None], IMAGE.shape).astype(np.float32)


class Goal(gym.Env):
    """Observations are dicts, as those of robots that are shown a goal."""

    observation_space = Dict(achieved_goal=Box(-1, 1, (2,)), desired_goal=Box(-1, 1, (2,)), step=Discrete(5))
    action_space = Box(-1, 1, (1,))

    def observe(self):
        return {**{name: np.zeros(2, np.float32) for name in ("achieved_goal", "desired_goal")}, "step": self.steps}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.observe(), {}

    def step(self, action):
        self.steps += 1
        return self.observe(), float(action[0]), self.steps == 4, False, {}


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


def test_a_folder_imports_no_module_unless_it_is_allowed(tiny, module, capsys, monkeypatch, tmp_path):
    witness, forget = module
    run = train(tiny(env="their_envs:Theirs-v0", max_steps=60)).run_dir
    assert witness.exists()  # who starts a run says what it imports
    forget()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another user"))
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


@pytest.mark.parametrize("id", ["ALE/Pong-v5", "PongNoFrameskip-v4"])
def test_games_of_atari_are_seen_by_convolutions(tiny, id):
    pytest.importorskip("ale_py")
    parts = build(tiny(env=id, num_envs=1, eval_envs=1))
    assert parts.train_collector.env.single_observation_space.shape == (4, 84, 84)
    assert parts.policy.model.encoder.convolutions.net[0].in_channels == 4
    parts.close()


def test_images_too_small_for_convolutions_are_warned_of(tiny, monkeypatch):
    spec = EnvSpec("Tiny-v0", entry_point=lambda: TransformObservation(gym.make("CartPole-v1"), as_image, IMAGE))
    monkeypatch.setitem(gym.registry, "Tiny-v0", spec)
    config = tiny(env="Tiny-v0")
    with pytest.warns(RunWarning, match=r"shape \(4, 8, 8\), too small for convolutions: .* takes them as 256 numbers"):
        make_envs(config, "train").close()
    make_envs(config, "test").close()  # said once


@pytest.mark.parametrize(("env", "algorithm"), [("FrozenLake-v1", "dqn"), ("FrozenLake-v1", "ppo"), ("Goal-v0", "sac")])
def test_observations_of_other_kinds_are_trained_on(run_dir, monkeypatch, env, algorithm):
    monkeypatch.setitem(gym.registry, "Goal-v0", EnvSpec("Goal-v0", entry_point=Goal))
    small = {"hidden_sizes": (8,), "num_envs": 2, "collect_steps": 4, "max_steps": 60, "batch_size": 8, "eval_envs": 2}
    off = {} if algorithm == "ppo" else {"start_steps": 20, "buffer_size": 100}
    kind = ALGORITHMS[algorithm].config
    result = train(kind(env=env, run_dir=run_dir, eval_interval=40, eval_episodes=2, progress=False, **small, **off))
    assert result.info.gradient_step > 0
    assert len(evaluate(run_dir, 2).returns) == 2


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_networks_with_a_memory_are_trained_and_gone_on_with(run_dir, algorithm):
    small = {"hidden_sizes": (8,), "num_envs": 2, "collect_steps": 4, "batch_size": 8, "eval_envs": 2}
    off = {} if algorithm == "ppo" else {"start_steps": 20, "buffer_size": 100}
    kind = ALGORITHMS[algorithm].config
    config = kind(run_dir=run_dir, recurrent=True, max_steps=40, eval_interval=40, eval_episodes=2, **small, **off)
    first = train(replace(config, progress=False))
    assert first.info.gradient_step > 0
    assert resume(run_dir, max_steps=60).env_step == 60
    assert len(evaluate(run_dir, 2).returns) == 2


class Odd(gym.Env):
    """Has any spaces, and ends each episode at once."""

    def __init__(self, obs, act):
        self.observation_space, self.action_space = obs, act

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 1.0, True, False, {}


VECTOR = gym.spaces.Box(-1, 1, (3,))
FEW = {"num_envs": 2, "collect_steps": 4, "max_steps": 8, "batch_size": 8, "eval_envs": 1, "eval_episodes": 1}


@pytest.mark.parametrize(
    ("algorithm", "act", "message"),
    [
        ("ppo", gym.spaces.Box(-np.inf, 1, (2,)), "PPO needs actions with finite bounds, and those of Odd-v0 are Box"),
        ("sac", gym.spaces.Box(-np.inf, np.inf, (2,)), "SAC needs actions with finite bounds, and those of Odd-v0"),
        ("ppo", gym.spaces.Box(0, 3, (2,), np.int64), "PPO needs continuous actions, and those of Odd-v0 are Box"),
        ("sac", gym.spaces.Box(0, 3, (2,), np.int64), "SAC needs continuous actions, and those of Odd-v0 are Box"),
        ("sac", gym.spaces.Box(0, 3, ()), "SAC needs actions along at least one axis, and those of Odd-v0 are Box"),
        ("ddpg", gym.spaces.Box(0, 3, ()), "DDPG needs actions along at least one axis"),
    ],
)
def test_actions_that_no_policy_can_give_are_refused_before_a_run(run_dir, monkeypatch, algorithm, act, message):
    spec = EnvSpec("Odd-v0", entry_point=Odd, kwargs={"obs": VECTOR, "act": act})
    monkeypatch.setitem(gym.registry, "Odd-v0", spec)
    with pytest.raises(ConfigError, match=message):
        train(ALGORITHMS[algorithm].config(env="Odd-v0", run_dir=run_dir, progress=False, **FEW))
    assert not run_dir.exists()


def test_a_mask_beside_observations_is_no_other_space(run_dir, monkeypatch):
    space = gym.spaces.Dict(obs=VECTOR, mask=gym.spaces.Box(1, 2, (2,), np.int8))
    spec = EnvSpec("Odd-v0", entry_point=Odd, kwargs={"obs": space, "act": gym.spaces.Discrete(2)})
    monkeypatch.setitem(gym.registry, "Odd-v0", spec)
    config = ALGORITHMS["ppo"].config(env="Odd-v0", run_dir=run_dir, hidden_sizes=(8,), progress=False, **FEW)
    assert train(config).env_step == 8  # and no warning, which would fail the test
