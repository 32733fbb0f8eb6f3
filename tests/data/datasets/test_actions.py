import gymnasium as gym
import numpy as np
import pytest

from rlfast.data.datasets.actions import to_environment_form, to_policy_form

BOX = gym.spaces.Box(np.float32([-2.0, 0.0]), np.float32([2.0, 1.0]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_each_form_is_made_from_the_other(dtype):
    act = np.array([[-2.0, 0.5], [1.0, 1.0]], dtype)
    given = to_policy_form(act, BOX)
    assert given.tolist() == [[-1.0, 0.0], [0.5, 1.0]]
    assert given.dtype == dtype
    assert np.array_equal(to_environment_form(given, BOX), act)
    assert to_environment_form(given, BOX).dtype == dtype


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_])
def test_integers_of_a_box_are_scaled_to_floats(dtype):
    act = np.array([[1, 1], [0, 0]], dtype)
    given = to_policy_form(act, BOX)
    assert given.tolist() == [[0.5, 1.0], [0.0, -1.0]]
    assert given.dtype == np.float32
    halves = gym.spaces.Box(-0.5, 0.5, (2,))
    assert to_environment_form(act, halves).tolist() == (act * 0.5).tolist()


@pytest.mark.parametrize("bounds", [(-np.inf, np.inf), (0.0, np.inf)])
def test_actions_without_finite_bounds_stay(bounds):
    act, space = np.array([[0.25], [3.0]], np.float32), gym.spaces.Box(*bounds, (1,))
    assert np.array_equal(to_policy_form(act, space), act)
    assert np.array_equal(to_environment_form(act, space), act)


def test_choices_are_counted_from_0():
    space = gym.spaces.Discrete(3, start=5)
    assert to_policy_form(np.array([5, 7]), space).tolist() == [0, 2]
    assert to_environment_form(np.array([0, 2]), space).tolist() == [5, 7]
