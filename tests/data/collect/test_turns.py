"""Collectors that share environments or a buffer take turns: the episodes of the one before end there."""

import numpy as np
import pytest

from collecting import vector
from rlfast.data import Collector, VectorReplayBuffer
from scripted import Scripted, ScriptedPolicy


def of(envs, buffer=None):
    return Collector(ScriptedPolicy(), envs, buffer)


def test_collectors_of_one_buffer_do_not_continue_each_others_episodes():
    buffer = VectorReplayBuffer(20, 1)
    first, second = (of(vector(Scripted(length=9)), buffer) for _ in range(2))
    for one in (first, second, first):
        one.collect(n_step=2)
    assert buffer.obs[:6].tolist() == [[0, 0], [0, 1], [0, 0], [0, 1], [1, 0], [1, 1]]
    assert buffer.next(np.arange(6)).tolist() == [1, 1, 3, 3, 5, 5]
    assert buffer.truncated[:6].tolist() == [False, True, False, True, False, False]
    first.collect(n_step=2)  # nobody came between
    assert buffer.obs[6:8].tolist() == [[1, 2], [1, 3]]


def test_collectors_of_one_environment_begin_new_episodes():
    envs = vector(Scripted(length=9), Scripted(length=9))
    first, second = of(envs, VectorReplayBuffer(40, 2)), of(envs)
    first.collect(n_step=4)
    second.collect(n_step=4)
    first.collect(n_step=4)
    for ring in first.buffer.buffers:
        assert ring.obs[:4].tolist() == [[0, 0], [0, 1], [2, 0], [2, 1]]
        assert ring.next(np.arange(4)).tolist() == [1, 1, 3, 3]


@pytest.mark.filterwarnings("ignore:.*single environment")
def test_a_single_environment_is_noticed_through_its_wrappers():
    env = Scripted(length=9)
    first, second = of(env, VectorReplayBuffer(20, 1)), of(env)
    for one in (first, second, first):
        one.collect(n_step=2)
    assert first.buffer.obs[:4].tolist() == [[0, 0], [0, 1], [2, 0], [2, 1]]


def test_a_reset_by_another_collector_counts():
    envs = vector(Scripted(length=9))
    first, second = of(envs, VectorReplayBuffer(20, 1)), of(envs)
    first.collect(n_step=2)
    second.reset()
    first.collect(n_step=2)
    assert first.buffer.obs[:4].tolist() == [[0, 0], [0, 1], [2, 0], [2, 1]]


def test_environments_that_cannot_be_watched_are_collected_from():
    class Unhashable(type(vector(Scripted()))):
        __hash__ = None

    one = of(Unhashable([lambda: Scripted(length=9)]), VectorReplayBuffer(20, 1))
    one.collect(n_step=2)
    one.collect(n_step=2)
    assert one.buffer.obs[:4].tolist() == [[0, 0], [0, 1], [0, 2], [0, 3]]


def test_a_collector_that_is_gone_was_another_one():
    buffer = VectorReplayBuffer(20, 1)
    envs = vector(Scripted(length=9))
    of(envs, buffer).collect(n_step=2)
    one = of(envs, buffer)
    one.collect(n_step=2)
    assert buffer.next(np.arange(4)).tolist() == [1, 1, 3, 3]
