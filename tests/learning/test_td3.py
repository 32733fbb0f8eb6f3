import sys
from dataclasses import replace

import pytest

from rlfast.experiment import ALGORITHMS
from rlfast.experiment.run import train


@pytest.mark.learning
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("env", "threshold"), [("Pendulum-v1", -200.0), ("MountainCarContinuous-v0", 90.0), ("InvertedPendulum-v5", 950.0)]
)
def test_the_preset_solves_it(env, threshold, seed, run_dir):
    if env == "InvertedPendulum-v5":
        pytest.importorskip("mujoco")
    preset = ALGORITHMS["td3"].preset(env)
    result = train(replace(preset, seed=seed, run_dir=run_dir, progress=False))
    sys.stdout.write(result.summary() + "\n")
    assert preset.stop_return == threshold
    assert result.reached
    assert len(result.test.returns) == 20
