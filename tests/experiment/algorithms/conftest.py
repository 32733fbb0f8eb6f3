"""The parts of short runs of any algorithm that learns from a replay buffer."""

import pytest

from rlfast.experiment import ALGORITHMS
from rlfast.experiment.build import build

SHORT = {"max_steps": 80, "num_envs": 2, "eval_episodes": 2, "eval_envs": 2, "eval_interval": 40, "hidden_sizes": (8,)}
SHORT |= {"collect_steps": 4, "updates_per_step": 0.5, "batch_size": 8, "buffer_size": 200, "start_steps": 20}


@pytest.fixture
def short(run_dir):
    """Returns the settings of a run of 80 steps and 30 updates."""
    return lambda name, **changes: ALGORITHMS[name].config(**{"run_dir": run_dir, "progress": False} | SHORT | changes)


@pytest.fixture
def parts_of(short):
    """Returns the parts of such a run."""
    made = []

    def make(name, **changes):
        made.append(build(short(name, **changes)))
        return made[-1]

    yield make
    for parts in made:
        parts.close()
