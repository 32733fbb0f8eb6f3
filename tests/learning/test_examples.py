"""The examples learn what they say."""

import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
REACHED = {
    "dqn_cartpole": 475,
    "gail_cartpole": 475,
    "icm_mountain_car": 0.9,
    "offline_cartpole": 475,
    "psrl_chain": 3_400,
    "tic_tac_toe": 0.8,
}


@pytest.mark.filterwarnings("ignore:The old environment creation API:DeprecationWarning")  # of PettingZoo
@pytest.mark.learning
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", REACHED)
def test_the_example_learns(name, seed):
    reached = runpy.run_path(str(FOLDER / f"{name}.py"))["train"](seed=seed)
    sys.stdout.write(f"{name}, seed {seed}: {reached:.4g}\n")
    assert reached >= REACHED[name]


@pytest.mark.learning
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(3))
def test_the_sparse_mountain_car_is_not_solved_without_curiosity(seed):
    train = runpy.run_path(str(FOLDER / "icm_mountain_car.py"))["train"]
    assert train(seed=seed, curiosity=0.0) < 0.5
