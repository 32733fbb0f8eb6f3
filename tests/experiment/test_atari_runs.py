"""Runs on Atari games: what training and tests see, and exact resume."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file

from rlfast.env.atari import AtariEnv
from rlfast.experiment import evaluate
from rlfast.experiment.environments import make_envs
from rlfast.experiment.run import ConfigError, resume, train
from rlfast.trainer import BaseTrainer

pytest.importorskip("ale_py", reason="ale-py is not installed")


@pytest.fixture
def breakout(tiny):
    size = {"max_steps": 60, "eval_interval": 60, "eval_episodes": 1, "eval_envs": 1, "batch_size": 4}

    def make(**changes):
        return tiny(env="ALE/Breakout-v5", **({"backend": "in-process"} | size | changes))

    return make


@pytest.mark.parametrize(("name", "training"), [("train", True), ("test", False)])
def test_lives_are_episodes_and_rewards_are_clipped_in_training_only(breakout, name, training):
    with closing(make_envs(breakout(), name)) as envs:
        assert envs.single_observation_space.shape == (4, 84, 84)
        envs.reset()
        lives, ends = [], 0
        for _ in range(400):
            _, _, terminated, truncated, infos = envs.step(np.ones(len(envs), int))
            lives.append(infos[0]["lives"])
            ends += terminated[0]
            if terminated[0] or truncated[0]:
                break
        assert ends == 1
        assert lives[-1] == (4 if training else 0)


def test_a_resumed_run_is_an_uninterrupted_one_and_can_be_evaluated(breakout, tmp_path, monkeypatch):
    def invaders(folder):  # whose games end without the right action
        return replace(breakout(run_dir=tmp_path / folder, n_step=2), env="ALE/SpaceInvaders-v5")

    train(invaders("straight"))
    with monkeypatch.context() as patch:
        step = BaseTrainer.train_step

        def stopping(self):
            result = step(self)
            if self.env_step >= 36:
                self.stop()
            return result

        patch.setattr(BaseTrainer, "train_step", stopping)
        assert train(invaders("stopped")).env_step < 60
    assert resume(tmp_path / "stopped").env_step == 60
    ours, theirs = (load_file(tmp_path / run / "checkpoint" / "policy.safetensors") for run in ("stopped", "straight"))
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    stats = evaluate(tmp_path / "stopped", episodes=1)
    assert stats.lens[0] > 20


@pytest.mark.long
def test_a_run_of_100_000_frames_is_the_same_stopped_anywhere(breakout, tmp_path, monkeypatch):
    steps = 25_000  # of four frames

    def run(folder):
        return breakout(
            run_dir=tmp_path / folder,
            backend="auto",
            num_envs=8,
            collect_steps=8,
            updates_per_step=0.02,
            n_step=3,
            channels=(4, 8, 8),
            buffer_size=20_000,  # the ring begins anew
            max_steps=steps,
            eval_interval=10_000,
        )

    train(run("straight"))
    stops = sorted(np.random.default_rng().integers(100, steps - 100, 6).tolist())
    step = BaseTrainer.train_step

    def stopping(self):
        result = step(self)
        if stops and self.env_step >= stops[0]:
            while stops and self.env_step >= stops[0]:
                stops.pop(0)
            self.stop()
        return result

    monkeypatch.setattr(BaseTrainer, "train_step", stopping)
    points = list(stops)
    reached = train(run("stopped")).env_step
    while reached < steps:
        reached = resume(tmp_path / "stopped").env_step
    assert not stops
    ours, theirs = (
        load_file(tmp_path / name / "checkpoint" / "policy.safetensors") for name in ("stopped", "straight")
    )
    assert ours.keys() == theirs.keys()
    differ = [name for name in ours if not np.array_equal(ours[name], theirs[name])]
    assert not differ, f"{differ} differ after stops at {points}"


def test_games_are_not_native(breakout):
    with pytest.raises((ValueError, ConfigError), match="ALE/Breakout-v5 cannot be native"):
        train(breakout(backend="native"))


def test_an_unknown_game_is_named(breakout):
    with pytest.raises((ValueError, ConfigError), match="ale-py has no game 'ALE/Brakeout-v5'; did you mean breakout"):
        train(replace(breakout(), env="ALE/Brakeout-v5"))


def test_a_missing_rom_is_one_line(breakout, tmp_path, monkeypatch):
    monkeypatch.setenv("ALE_ROMS_DIR", str(tmp_path / "gone"))
    with pytest.raises(ConfigError, match=r"^the ROM of breakout cannot be read: [^\n]*$"):
        train(breakout())


def test_a_film_shows_the_colours(breakout):
    env = AtariEnv("Breakout", render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().shape == (210, 160, 3)
