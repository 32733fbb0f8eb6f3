import sys
from dataclasses import replace

import pytest

from rlfast.experiment import ALGORITHMS
from rlfast.experiment.run import train


@pytest.mark.learning
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(3))
def test_the_preset_swings_the_acrobot_up(seed, run_dir):
    preset = ALGORITHMS["dqn"].preset("Acrobot-v1")
    result = train(replace(preset, seed=seed, run_dir=run_dir, progress=False))
    sys.stdout.write(result.summary() + "\n")
    assert preset.stop_return == -100.0
    assert result.reached
    assert len(result.test.returns) == 20
