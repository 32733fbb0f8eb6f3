import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import gymnasium as gym
import pytest
from safetensors.numpy import load_file

from rlfast.experiment import ALGORITHMS, resume, train
from rlfast.experiment.config import RunWarning
from rlfast.experiment.run import ConfigError


@pytest.fixture
def films(monkeypatch):
    """Replaces films by folders, and notes the lengths of the episodes that would be filmed."""
    lengths = []

    class Film(gym.Wrapper):
        def __init__(self, env, folder, **_):
            super().__init__(env)
            assert env.render_mode == "rgb_array"
            Path(folder).mkdir(parents=True)

        def reset(self, **given):
            lengths.append(0)
            return super().reset(**given)

        def step(self, action):
            lengths[-1] += 1
            return super().step(action)

    monkeypatch.setattr(gym.wrappers, "RecordVideo", Film)
    moviepy = ModuleType("moviepy")
    moviepy.__spec__ = type("Spec", (), {})()
    monkeypatch.setitem(sys.modules, "moviepy", moviepy)
    return lengths


def config(run_dir, **more):
    small = {"num_envs": 2, "eval_episodes": 2, "eval_envs": 2, "eval_interval": 64, "hidden_sizes": (8,)}
    small |= {"max_steps": 256, "start_steps": 16, "batch_size": 8, "progress": False, "normalize_obs": True}
    return replace(ALGORITHMS["dqn"].config(env="CartPole-v1"), **small | more, run_dir=run_dir)


def weights(run_dir):
    return {name: one.tolist() for name, one in load_file(run_dir / "checkpoint" / "policy.safetensors").items()}


def test_films_do_not_change_the_run(tmp_path, films):
    train(config(tmp_path / "plain"))
    assert not films
    result = train(config(tmp_path / "filmed", video_interval=100))
    assert weights(tmp_path / "filmed") == weights(tmp_path / "plain")
    names = sorted(path.name for path in (tmp_path / "filmed" / "videos").iterdir())
    assert names == ["step-0", "step-100", "step-200"]
    assert len([length for length in films if length]) == 3
    assert result.env_step == 256


def test_resumed_runs_film_what_is_missing(tmp_path, films):
    train(config(tmp_path / "run", video_interval=100))
    before = len(films)
    resume(tmp_path / "run", max_steps=390)
    assert max(path.name for path in (tmp_path / "run" / "videos").iterdir()) == "step-300"
    assert len(films) > before


def test_failed_films_are_a_warning(tmp_path, films, monkeypatch):
    tries = []

    def fail(*_, **__):
        tries.append(True)
        raise gym.error.DependencyNotInstalled("no pygame")

    monkeypatch.setattr(gym.wrappers, "RecordVideo", fail)
    with pytest.warns(RunWarning, match=r"the film of step \d+ is missing: a film needs libraries"):
        train(config(tmp_path / "run", video_interval=1_000, max_steps=200))
    assert len(tries) == 1  # and not after each test
    assert (tmp_path / "run" / "checkpoint").exists()


def test_missing_library_is_found_before_training(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "moviepy", None)
    with pytest.raises(ConfigError, match=r"--video-interval needs moviepy.*pip install '.\[video\]'"):
        train(config(tmp_path / "run", video_interval=100))
    assert not (tmp_path / "run").exists()
