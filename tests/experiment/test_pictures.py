"""A short run learns to play from pictures, by convolutions."""

from dataclasses import replace

import pytest

from rlfast.experiment import ALGORITHMS
from rlfast.experiment.run import train


@pytest.mark.learning
def test_dqn_learns_to_catch(run_dir):
    preset = ALGORITHMS["dqn"].preset("Catch-v0")
    changes = {"max_steps": 6_000, "eval_interval": 500, "stop_return": 0.2}  # random actions have -0.7
    result = train(replace(preset, **changes, run_dir=run_dir, progress=False))
    assert result.reached, result.summary()
    assert len(result.test.returns) == 100
