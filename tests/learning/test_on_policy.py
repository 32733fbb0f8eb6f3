import sys
from dataclasses import replace

import pytest

from rlfast.experiment import ALGORITHMS
from rlfast.experiment.run import train


@pytest.mark.learning
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("algorithm", "env", "threshold"),
    [
        ("a2c", "CartPole-v1", 475.0),
        ("npg", "CartPole-v1", 475.0),
        ("npg", "Pendulum-v1", -250.0),
        ("pg", "CartPole-v1", 475.0),
        ("pqn", "CartPole-v1", 475.0),
        ("trpo", "CartPole-v1", 475.0),
        ("trpo", "Pendulum-v1", -250.0),
    ],
)
def test_the_preset_solves(algorithm, env, threshold, seed, run_dir):
    preset = ALGORITHMS[algorithm].preset(env)
    result = train(replace(preset, seed=seed, run_dir=run_dir, progress=False))
    sys.stdout.write(result.summary() + "\n")
    assert preset.stop_return == threshold
    assert result.reached
    assert len(result.test.returns) == 20
