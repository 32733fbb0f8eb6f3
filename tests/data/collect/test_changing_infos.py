"""Infos of environments that change their dtype, shape or structure, through every kind of vector environment."""

import gymnasium as gym
import numpy as np
import pytest

from rlfast.data import AsyncCollector, Batch, Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv, SubprocVectorEnv
from rlfast.policy import RandomPolicy

PAIRS = {
    "integer, float": (0, 0.5),
    "integer, None": (3, None),
    "flag, number": (True, 2),
    "int32, large": (np.int32(1), 2**40),
    "longer array": (np.zeros(2), np.ones(3)),
    "dict, number": ({"p": 1}, 3),
    "number, dict": (3, {"p": 1}),
    "integer, word": (3, "x"),
}
NUMBERS = ("integer, float", "flag, number", "int32, large")  # what Gymnasium's vector environments can put together


class Changing(gym.Env):
    """Its infos have another kind of value from its step ``at`` on."""

    observation_space = gym.spaces.Box(0, 99, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, at=3, pairs=()):
        self.at, self.steps, self.pairs = at, 0, pairs

    def info(self):
        return {pair: PAIRS[pair][self.steps >= self.at] for pair in self.pairs}

    def reset(self, *, seed=None, options=None):
        return np.zeros(1, np.float32), self.info()

    def step(self, action):
        self.steps += 1
        return np.full(1, self.steps, np.float32), 1.0, self.steps % 4 == 0, False, self.info()


def gymnasium_vector(makers):
    return gym.vector.SyncVectorEnv(makers)


WORLDS = {
    "dummy": (DummyVectorEnv, Collector),
    "workers": (SubprocVectorEnv, Collector),
    "asynchronous": (lambda makers: DummyVectorEnv(makers, wait_num=1), AsyncCollector),
    "Gymnasium's": (gymnasium_vector, Collector),
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.filterwarnings("ignore:asynchronous environments may")
def test_a_collect_promotes_columns(world):
    make, collector_class = WORLDS[world]
    pairs = NUMBERS if world == "Gymnasium's" else (*PAIRS,)
    envs = make([lambda at=at: Changing(at, pairs) for at in (5, 7)])
    collector = collector_class(RandomPolicy(action_space=Changing.action_space), envs, VectorReplayBuffer(60, 2))
    with pytest.warns(UserWarning, match=r"info\..* is promoted from .*") as told:
        collector.collect(n_step=24)
    assert len([one for one in told if "promoted" in str(one.message)]) == len(pairs)
    for ring, at in enumerate((5, 7)):
        rows = collector.buffer.buffers[ring][:]
        steps = np.asarray(rows.obs_next).ravel().tolist()
        for pair in pairs:
            first, later = PAIRS[pair]
            for step, value in zip(steps, rows.info[pair], strict=True):
                assert is_same(value, later if step >= at else first), (pair, step, value)
    envs.close()


def is_same(value, wanted):
    if isinstance(value, Batch | dict):
        return dict(value.items()) == wanted
    if wanted is None:
        return value is None or np.isnan(value)
    return np.asarray(value, object).tolist() == np.asarray(wanted, object).tolist()


def test_odd_keys_are_stored():
    class Odd(Changing):
        def step(self, action):
            *step, _ = super().step(action)
            return *step, {7: self.steps, "a": 1, "_a": self.steps}

    collector = Collector(
        RandomPolicy(action_space=Odd.action_space), DummyVectorEnv([lambda: Odd()] * 2), VectorReplayBuffer(20, 2)
    )
    collector.collect(n_step=6)
    info = collector.buffer.buffers[1][:].info
    assert (info["7"].tolist(), info["_a"].tolist(), info.a.tolist()) == ([1, 2, 3], [1, 2, 3], [1, 1, 1])
