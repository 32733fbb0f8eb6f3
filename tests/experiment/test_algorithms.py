import pytest

from rlfast.experiment import ALGORITHMS, DQNConfig
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
