import subprocess
import sys

import pytest

from rlfast.experiment import ALGORITHMS, DQNConfig, RunConfig
from rlfast.experiment.algorithms import algorithm_of, find


def test_a_preset_is_for_its_environment_and_others_get_the_defaults():
    assert ALGORITHMS["dqn"].preset("CartPole-v1").stop_return == 475.0
    assert ALGORITHMS["dqn"].preset("MountainCar-v0") == DQNConfig(env="MountainCar-v0")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_is_found_by_name_and_by_its_settings(name):
    assert find(name).name == name
    assert algorithm_of(find(name).config()) is find(name)


def test_a_name_that_is_none():
    with pytest.raises(ValueError, match=f"there is no algorithm 'x': choose from {', '.join(ALGORITHMS)}"):
        find("x")


def test_settings_of_no_algorithm():
    with pytest.raises(TypeError, match="RunConfig has the settings of no algorithm"):
        algorithm_of(RunConfig())


IMPORTED = """
import sys
from rlfast.experiment.algorithms import ALGORITHMS
assert ALGORITHMS["discrete-sac"].config
print(*[name.rpartition(".")[2] for name in sys.modules if name.startswith("rlfast.experiment.algorithms.")])
"""


def test_only_the_algorithm_that_is_asked_for_is_imported():
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"dqn", "discrete_sac"}  # rlfast.experiment has the settings of DQN
    assert len(ALGORITHMS) == len([*ALGORITHMS]) > 30
