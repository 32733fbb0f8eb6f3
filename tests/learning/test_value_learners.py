import sys
from dataclasses import replace

import pytest

from rlfast.experiment import ALGORITHMS
from rlfast.experiment.run import train


@pytest.mark.learning
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["c51", "qrdqn", "rainbow", "iqn", "fqf", "discrete-sac"])
def test_the_preset_solves_cartpole(name, seed, run_dir):
    preset = ALGORITHMS[name].preset("CartPole-v1")
    result = train(replace(preset, seed=seed, run_dir=run_dir, progress=False))
    sys.stdout.write(result.summary() + "\n")
    assert preset.stop_return == 475.0
    assert result.reached
    assert len(result.test.returns) == 20
