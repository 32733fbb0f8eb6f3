"""Catch-v0 is learned from pictures of 84 by 84 pixels: at least 95 balls of 100 are caught."""

import sys
from dataclasses import replace

import pytest

from rlfast.experiment import ALGORITHMS
from rlfast.experiment.run import train


@pytest.mark.learning
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["dqn", "qrdqn", "ppo", "c51", "iqn", "rainbow", "discrete-sac", "fqf"])
def test_the_preset_catches_the_ball(name, seed, run_dir):
    preset = ALGORITHMS[name].preset("Catch-v0")
    result = train(replace(preset, seed=seed, run_dir=run_dir, progress=False))
    sys.stdout.write(result.summary() + "\n")
    assert preset.stop_return == 0.9
    assert result.reached
    assert len(result.test.returns) == 100
