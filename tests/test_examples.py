"""Every example runs, in a small setting; `tests/learning/test_examples.py` runs them as they are."""

import math
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
EXAMPLES = sorted(path.stem for path in FOLDER.glob("*.py"))
STEPS = {"dqn_cartpole": 500, "psrl_chain": 200}


def test_each_has_a_small_setting():
    assert sorted(STEPS) == EXAMPLES


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_runs(name):
    train = runpy.run_path(str(FOLDER / f"{name}.py"))["train"]
    assert math.isfinite(train(steps=STEPS[name]))


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_is_read_from_top_to_bottom(name):
    text = (FOLDER / f"{name}.py").read_text()
    assert text.startswith('"""')
    assert f"python examples/{name}.py" in text
    assert len(text.splitlines()) <= 80
