"""Runs of a simulated cheetah, which take minutes to an hour each: one seed."""

import sys
from dataclasses import replace

import pytest

from rlfast.experiment import ALGORITHMS
from rlfast.experiment.run import train


@pytest.mark.learning
@pytest.mark.timeout(4 * 3600)
@pytest.mark.parametrize(("name", "steps", "least"), [("ppo", 1_000_000, 5_000), ("sac", 300_000, 7_000)])
def test_the_preset_runs_fast(name, steps, least, run_dir):
    pytest.importorskip("mujoco")
    preset = ALGORITHMS[name].preset("HalfCheetah-v5")
    result = train(replace(preset, run_dir=run_dir, progress=False))
    sys.stdout.write(result.summary() + "\n")
    assert result.env_step == steps
    assert result.test.returns.mean() >= least
