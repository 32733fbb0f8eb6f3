import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlfast.utils.space_info import ActionSpaceInfo, ObservationSpaceInfo, SpaceInfo


def test_the_spaces_of_an_environment():
    info = SpaceInfo.from_env(gym.make("Pendulum-v1"))
    assert info == SpaceInfo(
        action_info=ActionSpaceInfo(action_shape=(1,), min_action=-2.0, max_action=2.0),
        observation_info=ObservationSpaceInfo(obs_shape=(3,)),
    )
    assert (info.action_info.action_dim, info.observation_info.obs_dim) == (1, 3)


def test_spaces_of_numbers_and_of_several_axes():
    info = SpaceInfo.from_spaces(spaces.Discrete(4, start=-1), spaces.Discrete(16))
    assert info.action_info == ActionSpaceInfo(action_shape=4, min_action=-1.0, max_action=2.0)
    assert (info.action_info.action_dim, info.observation_info.obs_shape, info.observation_info.obs_dim) == (4, 16, 16)
    box = spaces.Box(np.array([[-1, -2, 0]], np.float32), np.array([[1, 3, 0]], np.float32))
    action = ActionSpaceInfo.from_space(box)
    assert action == ActionSpaceInfo(action_shape=(1, 3), min_action=-2.0, max_action=3.0)
    assert action.action_dim == ObservationSpaceInfo.from_space(box).obs_dim == 3


@pytest.mark.parametrize("space", [spaces.MultiDiscrete([2, 3]), spaces.Dict(a=spaces.Discrete(2))])
@pytest.mark.parametrize("kind", [ActionSpaceInfo, ObservationSpaceInfo])
def test_other_spaces_are_refused(kind, space):
    with pytest.raises(ValueError, match="must be a Box or Discrete, got"):
        kind.from_space(space)


def test_they_say_what_they_are():
    info = ActionSpaceInfo.from_space(spaces.Discrete(4))
    assert str(info) == "ActionSpaceInfo[action_shape=4, min_action=0.0, max_action=3.0, action_dim=4]"
    assert "obs_dim=6" in str(ObservationSpaceInfo(obs_shape=(2, 3)))
