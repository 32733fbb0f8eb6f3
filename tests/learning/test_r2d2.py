import sys
from dataclasses import replace

import pytest

from rlfast.experiment import ALGORITHMS
from rlfast.experiment.run import train


@pytest.mark.learning
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(3))
def test_the_preset_solves_cartpole_without_velocities(seed, run_dir):
    preset = ALGORITHMS["r2d2"].preset("CartPole-v1")
    result = train(replace(preset, seed=seed, run_dir=run_dir, progress=False))
    sys.stdout.write(result.summary() + "\n")
    assert preset.stop_return == 400.0
    assert preset.observe == (0, 2)
    assert result.reached
    assert len(result.test.returns) == 20
