import sys
from dataclasses import replace

import pytest

from rlfast.experiment import ALGORITHMS
from rlfast.experiment.run import train


@pytest.mark.learning
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("env", "threshold", "package"), [("Acrobot-v1", -100.0, "rlfast"), ("LunarLander-v3", 200.0, "Box2D")]
)
def test_the_preset_reaches_its_threshold(env, threshold, package, seed, run_dir):
    pytest.importorskip(package)
    preset = ALGORITHMS["dqn"].preset(env)
    result = train(replace(preset, seed=seed, run_dir=run_dir, progress=False))
    sys.stdout.write(result.summary() + "\n")
    assert preset.stop_return == threshold
    assert result.reached
    assert len(result.test.returns) == 20
