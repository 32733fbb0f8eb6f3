import sys
from dataclasses import replace

import pytest

from rlfast.experiment import ALGORITHMS
from rlfast.experiment.run import train


@pytest.mark.learning
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("env", "threshold"),
    [
        ("CartPole-v1", 475.0),
        ("Acrobot-v1", -100.0),
        ("LunarLander-v3", 200.0),
        ("BipedalWalker-v3", 300.0),
        ("Pendulum-v1", -200.0),
        ("InvertedPendulum-v5", 950.0),
    ],
)
def test_the_preset_solves(env, threshold, seed, run_dir):
    pytest.importorskip(
        {"InvertedPendulum-v5": "mujoco", "LunarLander-v3": "Box2D", "BipedalWalker-v3": "Box2D"}.get(env, "rlfast")
    )
    preset = ALGORITHMS["ppo"].preset(env)
    result = train(replace(preset, seed=seed, run_dir=run_dir, progress=False))
    sys.stdout.write(result.summary() + "\n")
    assert preset.stop_return == threshold
    assert result.reached
    assert len(result.test.returns) == 20
