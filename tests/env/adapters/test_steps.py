"""Subclasses written for Tianshou, which change ``step`` and ``reset`` alone."""

import numpy as np

from rlfast.env import DummyVectorEnv, VectorEnvWrapper, as_vector_env
from scripted import Scripted


class Doubling(DummyVectorEnv):
    """A vector environment that doubles rewards and counts steps."""

    steps = 0

    def step(self, action, id=None):
        self.steps += 1
        obs, rew, *rest = super().step(action, id)
        return (obs, rew * 2, *rest)


class Shifting(VectorEnvWrapper):
    def reset(self, id=None, **kwargs):
        obs, info = self.venv.reset(id, **kwargs)
        return obs + 100, info

    def step(self, action, id=None):
        obs, *rest = self.venv.step(action, id)
        return (obs + 100, *rest)


class Patient(VectorEnvWrapper):
    """A wrapper that overrides ``recv``, which both protocols call, and adds 1 to rewards."""

    def recv(self, min_ready=None, timeout=None):
        rows = super().recv(min_ready, timeout)
        rows.rew = rows.rew + 1
        return rows


def test_send_recv_call_overrides():
    own = Doubling([lambda: Scripted(9, info={"at": 1}, dict_obs=True)] * 3)
    envs = as_vector_env(own)
    assert envs is not own
    obs, info = envs.reset_rows(seed=[1, 2, 3])
    assert obs["pos"].tolist() == [[0, 0]] * 3
    assert info.dicts() == [{"at": 1}] * 3
    envs.send([0, 1], [2, 0])
    rows = envs.recv()
    assert rows.env_id.tolist() == [2, 0]
    assert rows.rew.tolist() == [2, 2]
    assert rows.obs["pos"].tolist() == [[0, 1], [0, 1]]
    assert rows.info.dicts() == [{"at": 1}] * 2
    assert own.steps == 1
    assert envs.get_env_attr("actions") == [[1], [], [0]]
    envs.set_env_attr("length", 2, [1])
    assert own.get_env_attr("length") == [9, 2, 9]
    assert len(envs.action_space) == 3  # Tianshou's protocol
    envs.close()
    assert own.is_closed


def test_wrappers_too():
    envs = as_vector_env(Shifting(DummyVectorEnv([lambda: Scripted(2)] * 2)))
    assert envs.reset_rows()[0].tolist() == [[100, 100]] * 2
    envs.send([0, 0])
    assert envs.recv().obs.tolist() == [[100, 101]] * 2
    envs.send([0, 0])
    assert envs.recv().terminated.tolist() == [True, True]
    assert envs.reset_rows([1])[0].tolist() == [[101, 100]]


def test_who_overrides_the_primitives_stays_as_it_is():
    envs = Patient(DummyVectorEnv([lambda: Scripted(2)] * 2))
    assert as_vector_env(envs) is envs
    envs.reset()
    assert envs.step([0, 0])[1].tolist() == [2, 2]


def test_asynchronous_ones_answer_what_is_there():
    class Half(Doubling):
        def step(self, action, id=None):
            obs, rew, *rest = super().step(action, id)
            return (obs, rew + 0.5, *rest)

    envs = as_vector_env(Half([lambda: Scripted(9)] * 2, wait_num=1))
    envs.reset_rows()
    envs.send(np.zeros(2, int))
    assert envs.recv().rew.tolist() == [2.5, 2.5]
