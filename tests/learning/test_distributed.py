"""Agents that collect and learn in Ray actors reach the thresholds of their presets."""

from dataclasses import replace

import pytest

pytest.importorskip("ray", reason="Ray is not installed: pip install '.[ray]'")

from rlfast.distributed import train
from rlfast.experiment.algorithms import ALGORITHMS


@pytest.mark.learning
@pytest.mark.filterwarnings("default")  # other libraries warn of themselves
@pytest.mark.parametrize(("name", "env"), [("sac", "Pendulum-v1"), ("dqn", "CartPole-v1")])
def test_agents_in_actors_reach_their_thresholds(name, env, run_dir):
    preset = ALGORITHMS[name].preset(env)
    result = train(replace(preset, ray="local", collectors=2, shards=2, progress=False, run_dir=run_dir))
    assert result.reached, result.summary()
