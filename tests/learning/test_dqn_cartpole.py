import sys
from dataclasses import replace

import pytest

from rlfast.experiment import ALGORITHMS
from rlfast.experiment.run import train

PRESET = ALGORITHMS["dqn"].preset("CartPole-v1")
VARIANTS = {
    "preset": {},
    "prioritized": {"prioritized": True},
    "dueling": {"dueling": True},
    "one step": {"n_step": 1},
    "one environment": {"num_envs": 1},
}


@pytest.mark.learning
@pytest.mark.parametrize("seed", range(5))
def test_the_preset_solves_cartpole(seed, run_dir):
    result = train(replace(PRESET, seed=seed, run_dir=run_dir, progress=False))
    sys.stdout.write(result.summary() + "\n")
    assert result.reached
    assert len(result.test.returns) == 20


@pytest.mark.learning
@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_solve_it_too(variant, run_dir):
    config = replace(PRESET, run_dir=run_dir, progress=False, **VARIANTS[variant])
    result = train(config)
    sys.stdout.write(result.summary() + "\n")
    assert result.reached
