import gymnasium as gym
import numpy as np
import pytest

from rlfast.env import DummyEnvWorker
from rlfast.utils.tree import stack
from scripted import Scripted


@pytest.mark.pitfall("E8")
def test_send_twice_and_recv_without_send():
    worker = DummyEnvWorker(Scripted)
    with pytest.raises(RuntimeError, match="call send"):
        worker.recv()
    worker.send(None)
    with pytest.raises(RuntimeError, match="twice in a row"):
        worker.send(None)
    worker.recv()
    assert worker.step(1)[1] == 1.0


def test_seed_reaches_env_and_action_space():
    worker = DummyEnvWorker(lambda: gym.make("CartPole-v1"))
    obs, _ = worker.reset(seed=3)
    actions = [worker.action_space.sample() for _ in range(20)]
    assert worker.seed(3) == [3]
    assert [worker.action_space.sample() for _ in range(20)] == actions
    np.testing.assert_array_equal(worker.reset(seed=3)[0], obs)


def test_attributes_are_found_through_the_wrappers():
    with DummyEnvWorker(lambda: gym.make("CartPole-v1")) as worker:
        assert worker.get_env_attr("gravity") == 9.8
        worker.set_env_attr("gravity", 1.0)
        assert worker.env.unwrapped.gravity == 1.0
        with pytest.raises(AttributeError):
            worker.get_env_attr("no_such_thing")
    assert worker.is_closed
    worker.close()


def test_stacked_rows_are_copies():
    row = np.zeros(3)
    stacked = stack([row, row])
    row[:] = 1
    assert not stacked.any()
