"""Every example runs, in a small setting; `tests/learning/test_examples.py` runs them as they are."""

import math
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
EXAMPLES = sorted(path.stem for path in FOLDER.glob("*.py"))
STEPS = {
    "dqn_cartpole": 500,
    "drqn_cartpole": 300,
    "her_reach": 80,
    "icm_mountain_car": 200,
    "ppo_cartpole": 304,
    "psrl_chain": 200,
    "qrdqn_cartpole": 300,
    "redq_pendulum": 30,
    "sac_pendulum": 60,
    "td3_pendulum": 60,
    "tic_tac_toe": 200,
    "trpo_cartpole": 304,
}


def test_each_has_a_small_setting():
    assert sorted(STEPS) == EXAMPLES


@pytest.mark.filterwarnings("ignore:The old environment creation API:DeprecationWarning")  # of PettingZoo
@pytest.mark.parametrize("name", EXAMPLES)
def test_it_runs(name):
    if name == "tic_tac_toe":
        pytest.importorskip("pygame", reason="PettingZoo's board games draw with pygame")
    train = runpy.run_path(str(FOLDER / f"{name}.py"))["train"]
    assert math.isfinite(train(steps=STEPS[name]))


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_is_read_from_top_to_bottom(name):
    text = (FOLDER / f"{name}.py").read_text()
    assert text.startswith('"""')
    assert f"python examples/{name}.py" in text
    assert len(text.splitlines()) <= 80
