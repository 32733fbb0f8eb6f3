import itertools
import pickle

import gymnasium as gym
import numpy as np
import pytest

from rlfast.env import (
    ContinuousToDiscrete,
    DummyVectorEnv,
    MultiDiscreteToDiscrete,
    TruncatedAsTerminated,
    VectorEnvWrapper,
)
from rlfast.utils.arguments.checks import ArgumentError
from scripted import Scripted


class Space(Scripted):
    def __init__(self, space):
        super().__init__()
        self.action_space = space


def test_continuous_actions_become_steps():
    env = ContinuousToDiscrete(
        Space(gym.spaces.Box(np.array([-1, 0], np.float32), np.array([1, 3], np.float32))), [3, 4]
    )
    assert env.action_space == gym.spaces.MultiDiscrete([3, 4])
    np.testing.assert_array_equal(env.action(np.array([0, 0])), [-1, 0])
    np.testing.assert_array_equal(env.action(np.array([[2, 3], [1, 1]])), [[1, 3], [0, 1]])
    assert env.action(np.array([0, 0])).dtype == np.float32
    env.reset()
    env.step(np.array([1, 2]))
    np.testing.assert_array_equal(env.unwrapped.actions[-1], [0, 2])


def test_one_number_serves_all_dimensions():
    env = ContinuousToDiscrete(Space(gym.spaces.Box(0, 1, (2,))), 5)
    assert env.action_space == gym.spaces.MultiDiscrete([5, 5])


@pytest.mark.parametrize(
    ("space", "count", "error", "message"),
    [
        (gym.spaces.Discrete(2), 3, TypeError, "needs a Box"),
        (gym.spaces.Box(0, 1, (2, 2)), 3, TypeError, "of one axis"),
        (gym.spaces.Box(0, 1, (2,)), [3], ValueError, "2 dimensions"),
        (gym.spaces.Box(0, 1, (2,)), [3, 1], ValueError, "2 or more"),
        (gym.spaces.Box(0, 1, (2,)), itertools.count(2), ValueError, r"2 dimensions, got \[2, 3, 4\]"),
        (gym.spaces.Box(0, np.inf, (2,)), 3, ValueError, "finite bounds"),
    ],
)
def test_what_cannot_become_steps(space, count, error, message):
    with pytest.raises(error, match=message):
        ContinuousToDiscrete(Space(space), count)


def test_combinations_last_dimension_fastest():
    env = MultiDiscreteToDiscrete(Space(gym.spaces.MultiDiscrete([2, 3, 4])))
    assert env.action_space == gym.spaces.Discrete(24)
    assert env.bases.tolist() == [1, 4, 12]
    combinations = [tuple(env.action(i)) for i in range(24)]
    assert combinations == [(i, j, k) for i in range(2) for j in range(3) for k in range(4)]
    np.testing.assert_array_equal(env.action(np.array([0, 23])), [[0, 0, 0], [1, 2, 3]])
    for space in (gym.spaces.Discrete(2), gym.spaces.MultiDiscrete([[2, 3], [2, 2]])):
        with pytest.raises(AssertionError, match="needs a MultiDiscrete action space of one axis"):
            MultiDiscreteToDiscrete(Space(space))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8])
def test_combinations_are_in_the_wrapped_space(dtype):
    space = gym.spaces.MultiDiscrete([2, 3], start=[1, -5], dtype=dtype)
    env = MultiDiscreteToDiscrete(Space(space))
    combinations = [env.action(np.int64(i)) for i in range(6)]
    assert all(space.contains(one) and one.dtype == dtype for one in combinations)
    assert len({tuple(one.tolist()) for one in combinations}) == 6
    assert env.action(np.arange(6)).tolist() == [one.tolist() for one in combinations]


def test_too_many_combinations_are_refused():
    assert MultiDiscreteToDiscrete(Space(gym.spaces.MultiDiscrete([2**31, 2**31]))).action_space.n == 2**62
    with pytest.raises(ArgumentError, match="9223372036854775808 combinations are too many"):
        MultiDiscreteToDiscrete(Space(gym.spaces.MultiDiscrete([2**31, 2**32])))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.uint8, np.int64])
def test_steps_are_in_the_wrapped_space(dtype):
    limits = np.finfo(dtype) if np.dtype(dtype).kind == "f" else np.iinfo(dtype)
    for low, high in [(limits.min, limits.max), (0.1, 0.7), (3, 3), (0, 5)]:
        space = gym.spaces.Box(np.array([low], dtype), np.array([high], dtype), dtype=dtype)
        env = ContinuousToDiscrete(Space(space), 6)
        steps = [env.action(np.array([k])) for k in range(6)]
        assert all(space.contains(one) and one.dtype == dtype for one in steps)
        assert (steps[0], steps[5]) == (space.low, space.high)
        assert (np.diff(np.ravel(steps).astype(float)) >= 0).all()


def test_truncation_is_reported_as_an_end():
    env = TruncatedAsTerminated(Scripted(2, truncate=True))
    env.reset()
    assert env.step(0)[2:4] == (False, False)
    assert env.step(0)[2:4] == (True, True)


def test_a_wrapper_passes_everything_on():
    inner = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 2)
    outer = VectorEnvWrapper(VectorEnvWrapper(inner))
    assert len(outer) == outer.env_num == 2
    assert not outer.is_async
    assert outer.ready_id == [0, 1]
    assert outer.action_space == inner.action_space
    assert outer.seed(3) == [[3], [4]]
    np.testing.assert_array_equal(outer.reset(seed=1)[0], inner.reset(seed=1)[0])
    obs, rew, *_ = outer.step([0], id=[1])
    assert obs.shape == (1, 4)
    assert rew.tolist() == [1.0]
    outer.set_env_attr("gravity", 5.0)
    assert outer.get_env_attr("gravity", [1]) == inner.get_env_attr("gravity", [1]) == [5.0]
    outer.close()
    assert inner.is_closed
    assert outer.is_closed
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = outer.no_such_thing


def test_wrapped_attributes():
    wrapped = TruncatedAsTerminated(gym.make("Pendulum-v1"))
    assert wrapped.max_torque == wrapped.unwrapped.max_torque  # below three more wrappers
    for absent in ("compute_reward", "_hidden"):
        with pytest.raises(AttributeError, match=absent):
            getattr(wrapped, absent)
    again = pickle.loads(pickle.dumps(TruncatedAsTerminated(gym.make("Pendulum-v1").unwrapped)))
    assert again.max_torque == wrapped.max_torque
