"""Every example runs, in a small setting; `tests/learning/test_examples.py` runs them as they are."""

import math
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "examples"
EXAMPLES = sorted(path.stem for path in FOLDER.glob("*.py"))
STEPS = {
    "dqn_cartpole": 500,
    "dqn_pong": 20,
    "drqn_cartpole": 300,
    "gail_cartpole": 304,
    "her_reach": 80,
    "icm_mountain_car": 200,
    "offline_cartpole": 20,
    "ppo_cartpole": 304,
    "ppo_mujoco": 128,
    "psrl_chain": 200,
    "qrdqn_cartpole": 300,
    "redq_pendulum": 30,
    "sac_pendulum": 60,
    "td3_pendulum": 60,
    "tic_tac_toe": 200,
    "trpo_cartpole": 304,
}


NEEDS = {"dqn_pong": ["ale_py"], "ppo_mujoco": ["mujoco"], "tic_tac_toe": ["pygame"]}  # PettingZoo draws boards with it


def make_games_short(monkeypatch):
    """Ends Atari games after 40 steps, as a game of Pong has a thousand."""
    from rlfast.env.atari import vector

    make = vector.make_atari_vec
    monkeypatch.setattr(vector, "make_atari_vec", lambda *args, **given: make(*args, **given, max_frames=160))


def test_each_has_a_small_setting():
    assert sorted(STEPS) == EXAMPLES


@pytest.mark.filterwarnings("ignore:The old environment creation API:DeprecationWarning")  # of PettingZoo
@pytest.mark.parametrize("name", EXAMPLES)
def test_it_runs(name, monkeypatch, tmp_path):
    for module in NEEDS.get(name, ()):
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)  # MuJoCo writes warnings to a file there
    if name == "dqn_pong":
        make_games_short(monkeypatch)
    train = runpy.run_path(str(FOLDER / f"{name}.py"))["train"]
    assert math.isfinite(train(steps=STEPS[name]))


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_is_read_from_top_to_bottom(name):
    text = (FOLDER / f"{name}.py").read_text()
    assert text.startswith('"""')
    assert f"python examples/{name}.py" in text
    assert len(text.splitlines()) <= 80
