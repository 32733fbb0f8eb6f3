import pytest

from rlfast.experiment import ALGORITHMS
from rlfast.experiment.build import build
from rlfast.experiment.config import ExplorationConfig


@pytest.mark.parametrize(
    "name", [name for name in ALGORITHMS if issubclass(ALGORITHMS[name].config, ExplorationConfig)]
)
def test_exploration_follows_its_schedule(name):
    config = ALGORITHMS[name].config(eps_start=1.0, eps_end=0.0, eps_steps=100)
    parts = build(config)
    config.set_schedules(parts.policy, 25)
    assert parts.policy.eps == 0.75
    parts.close()
