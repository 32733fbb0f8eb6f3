import json
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from rlfast.cli import main
from rlfast.experiment import ALGORITHMS, evaluate
from rlfast.experiment.config import RunWarning
from rlfast.experiment.run import train


@pytest.fixture
def run(tiny):
    return train(tiny(max_steps=60)).run_dir


def test_so_many_episodes_and_the_same_each_time(run):
    first = evaluate(run, 7)
    assert len(first.returns) == first.n_collected_episodes == 7
    np.testing.assert_array_equal(first.returns, first.lens)  # CartPole gives one for each step
    assert evaluate(run, 7).returns.tolist() == first.returns.tolist()
    assert evaluate(run, 7, seed=6).returns.tolist() != first.returns.tolist()


@pytest.mark.parametrize("episodes", [0, -1])
def test_episodes_must_be_positive(run, episodes):
    with pytest.raises(ValueError, match="episodes must be at least 1"):
        evaluate(run, episodes)


def test_what_cannot_be_evaluated(run, tmp_path):
    with pytest.raises(FileNotFoundError, match="is no run folder"):
        evaluate(tmp_path / "nowhere")
    (run / "checkpoint" / "checkpoint.json").unlink()
    with pytest.raises(FileNotFoundError, match="holds no checkpoint"):
        evaluate(run)


def test_a_run_from_a_gpu_is_played_without_one(run):
    expected = evaluate(run, 3).returns.tolist()
    content = json.loads((run / "config.json").read_text())
    content["config"]["device"] = "cuda:7"
    (run / "config.json").write_text(json.dumps(content))
    with pytest.warns(RunWarning, match="was trained on cuda:7, which is not here: the CPU takes over"):
        assert evaluate(run, 3).returns.tolist() == expected
    assert evaluate(run, 3, device="cpu").returns.tolist() == expected
    with pytest.raises(ValueError, match="--device cuda:9 cannot be used here"):
        evaluate(run, 3, device="cuda:9")


def test_actions_may_be_drawn(run, run_dir):
    with pytest.raises(ValueError, match="DQNPolicy draws no actions: it cannot play with deterministic=False"):
        evaluate(run, 1, deterministic=False)
    assert evaluate(run, 3, deterministic=True).returns.tolist() == evaluate(run, 3).returns.tolist()
    config = {"max_steps": 64, "num_envs": 2, "collect_steps": 32, "batch_size": 32, "hidden_sizes": (8,)}
    ppo = train(
        ALGORITHMS["ppo"].config(run_dir=run_dir.with_name("ppo"), eval_episodes=2, progress=False, **config)
    ).run_dir
    best, drawn = (evaluate(ppo, 5, deterministic=one).returns.tolist() for one in (True, False))
    assert evaluate(ppo, 5).returns.tolist() == best != drawn
    content = json.loads((ppo / "config.json").read_text())
    content["config"]["deterministic_eval"] = False
    (ppo / "config.json").write_text(json.dumps(content))
    assert evaluate(ppo, 5).returns.tolist() == drawn
    assert evaluate(ppo, 5, deterministic=True).returns.tolist() == best


def test_an_environment_with_other_arguments(run, tiny, run_dir):
    stats = evaluate(run, 3, env_kwargs={"sutton_barto_reward": True})
    assert stats.returns.tolist() == [-1, -1, -1]
    assert stats.lens.tolist() == evaluate(run, 3).lens.tolist()
    with pytest.raises(ValueError, match=r"does not take --env-kwargs \{'force': 3\}"):
        evaluate(run, 1, env_kwargs={"force": 3})
    lake = train(tiny(max_steps=60, env="FrozenLake-v1", run_dir=run_dir.with_name("lake"))).run_dir
    with pytest.raises(
        ValueError, match=r"the observation_space is Discrete\(64\), and in the run it was Discrete\(16\)"
    ):
        evaluate(lake, 1, env_kwargs={"map_name": "8x8"})


def test_episodes_in_a_window(run, tiny, run_dir, monkeypatch):
    frames = []
    monkeypatch.setattr(CartPoleEnv, "render", lambda env: frames.append(env.render_mode))
    expected = evaluate(run, 1).returns.tolist()
    assert frames == []
    stats = evaluate(run, 3, render=True)
    assert stats.returns[0] == expected[0]
    assert frames == ["human"] * (3 + sum(stats.lens))  # one of each reset
    monkeypatch.setitem(CartPoleEnv.metadata, "render_modes", ["ansi"])
    with (
        pytest.warns(UserWarning, match="render_mode='human' that is not in the possible render_modes"),
        pytest.raises(ValueError, match=r"CartPole-v1 cannot be shown in a window: its render modes are \['ansi'\]"),
    ):
        evaluate(run, 1, render=True)
    catch = train(tiny(max_steps=60, env="Catch-v0", run_dir=run_dir.with_name("catch"))).run_dir
    with pytest.raises(ValueError, match="Catch-v0 cannot be rendered: it exists in Rust alone"):
        evaluate(catch, 1, render=True)


def test_a_film_names_our_own_extra(run, tmp_path, monkeypatch):
    for library in ("moviepy", "moviepy.video.io.ImageSequenceClip"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=r"pip install '\.\[video\]'"):
        evaluate(run, 1, video=tmp_path / "video")
    assert not (tmp_path / "video").exists()


@pytest.mark.parametrize(
    ("simulator", "chosen", "advice"), [("mujoco", None, True), ("mujoco", "glfw", False), ("other", None, False)]
)
def test_a_film_without_a_display_is_one_line(run, monkeypatch, capsys, simulator, chosen, advice):
    class FatalError(Exception): ...  # as MuJoCo's, which is no RuntimeError

    class Film(gym.Wrapper):
        def __init__(self, env, folder, **_):
            super().__init__(env)
            Path(folder).mkdir()

        def reset(self, **_):
            raise FatalError("an OpenGL platform library\nhas not been loaded")

    monkeypatch.setattr(gym.wrappers, "RecordVideo", Film)
    monkeypatch.delitem(sys.modules, "mujoco", raising=False)
    monkeypatch.setitem(sys.modules, simulator, object())
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    if chosen is not None:
        monkeypatch.setenv("MUJOCO_GL", chosen)
    assert main(["eval", str(run), "--episodes", "1", "--video"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "CartPole-v1 cannot be filmed" in error
    assert "has not been loaded" in error
    assert ("MUJOCO_GL=egl" in error) is advice
    assert not (run / "video").exists()


def test_a_film(run, tmp_path):
    pytest.importorskip("moviepy")
    pytest.importorskip("pygame")
    evaluate(run, 1, video=tmp_path / "video")
    (film,) = (tmp_path / "video").glob("*.mp4")
    assert film.read_bytes()[4:8] == b"ftyp"
