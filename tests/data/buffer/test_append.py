"""The arguments of ``append``, which the engine matches by itself."""

import itertools
import random

import numpy as np
import pytest

from rlfast._core import Replay
from rlfast.data import Batch, ReplayBuffer

ROW = {"obs": 1.0, "act": 2, "rew": 3.0, "terminated": False, "truncated": True, "obs_next": 4.0}


def test_keywords_may_come_in_any_order():
    for order in itertools.permutations(ROW):
        buffer = ReplayBuffer(2)
        assert buffer.append(**ROW) == 0
        assert buffer.append(**{name: ROW[name] for name in order}) == 1
        for name, value in ROW.items():
            assert buffer[1][name] == value


def test_names_need_not_be_the_same_objects():
    buffer = ReplayBuffer(2)
    buffer.append(**ROW)
    fresh = {"".join(list(name)): value for name, value in ROW.items()}
    assert buffer.append(**fresh) == 1
    assert buffer.act.tolist() == [2, 2]


@pytest.mark.filterwarnings("ignore:obs_next is not given")
def test_obs_next_may_be_left_out_or_be_none():
    plain = {name: value for name, value in ROW.items() if name != "obs_next"} | {"truncated": False}
    for more in ({}, {"obs_next": None}):
        buffer = ReplayBuffer(4)
        buffer.append(**plain, obs_next=5.0)
        assert buffer.append(**plain | {"obs": 5.0}, **more) == 1
        buffer.append(**plain | {"obs": 7.0}, obs_next=8.0)
        assert buffer[1].obs_next == 7.0


def test_missing_unknown_and_positional_arguments_are_named_and_change_nothing():
    buffer = ReplayBuffer(4)
    buffer.append(**ROW)
    without = {name: value for name, value in ROW.items() if name not in ("act", "rew")}
    with pytest.raises(TypeError, match="missing 2 required keyword-only arguments: 'act', 'rew'"):
        buffer.append(**without)
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'rew'"):
        buffer.append(**without, act=2)
    with pytest.raises(TypeError, match="missing 5 required keyword-only arguments"):
        buffer.append()
    with pytest.raises(TypeError, match="unexpected keyword argument 'reward': it takes obs, act, rew"):
        buffer.append(**ROW, reward=1.0)
    with pytest.raises(TypeError, match="no positional arguments, but 1 were given: name them"):
        buffer.append(*[1.0], **ROW)
    with pytest.raises(TypeError, match="no positional arguments"):
        buffer.append(Batch(**ROW))
    assert len(buffer) == 1


def test_the_method_belongs_to_the_class():
    with pytest.raises(TypeError):
        Replay.append(object(), **ROW)
    with pytest.raises(TypeError):
        Replay.append(**ROW)
    assert Replay.append.__name__ == "append"
    engine = Replay([2], batch=Batch)
    engine.define([((name,), np.dtype(float), ()) for name in ("obs", "act", "rew", "obs_next")])
    assert engine.append.__self__ is engine


def test_rows_by_keywords_are_those_of_add():
    rng = random.Random(0)
    one, other = ReplayBuffer(7), ReplayBuffer(7)
    for step in range(40):
        fields = {"obs": float(step), "act": step, "rew": rng.random(), "obs_next": step + 1.0}
        fields |= {"terminated": rng.random() < 0.2, "truncated": rng.random() < 0.2}
        assert one.append(**fields) == other.add(Batch(**fields))[0][0]
        for name in ROW:
            assert one[:][name].tolist() == other[:][name].tolist()
