import numpy as np
import pytest

from rlfast.env import BaseVectorEnv, DummyVectorEnv, SubprocVectorEnv, VectorEnvWrapper
from rlfast.env.vector.worker_view import WorkerView
from rlfast.env.worker import DummyEnvWorker, EnvWorker
from scripted import Scripted


def test_local_envs_have_workers():
    envs = VectorEnvWrapper(DummyVectorEnv([Scripted] * 2))
    assert envs.worker_class is DummyEnvWorker
    assert [type(worker.env) for worker in envs.workers] == [Scripted] * 2


def test_processes_are_shown_as_workers():
    with SubprocVectorEnv([lambda: Scripted(9)] * 3, num_workers=2) as envs:
        assert envs.worker_class is WorkerView
        assert len(envs.workers) == 3
        worker = envs.workers[1]
        assert isinstance(worker, EnvWorker)
        assert worker.action_space == envs.action_space[1]
        worker.set_env_attr("length", 5)
        assert [one.get_env_attr("length") for one in envs.workers] == [9, 5, 9]
        envs.reset()
        obs, info = worker.reset(seed=3)
        assert (obs.tolist(), info) == ([1, 0], {})
        assert envs.get_env_attr("reset_kwargs", 1)[0][-1]["seed"] == 3
        worker.send(2)
        assert envs.waiting_id == [1]
        assert len(envs.waiting_conn) == 1
        with pytest.raises(RuntimeError, match=r"environments \[1\] are stepping"):
            envs.workers[0].send(2)
        obs, reward, *rest = worker.recv()
        assert (obs.tolist(), reward, rest) == ([1, 1], 1.0, [False, False, {}])
        assert worker.step(2)[0].tolist() == [1, 2]
        assert worker.seed(4) == [4]
        assert worker.render() == "frame 0"
        with pytest.raises(NotImplementedError, match="close the vector environment"):
            worker.close()
        assert not worker.is_closed
    assert worker.is_closed


class Plain(EnvWorker):
    """A worker written for Tianshou: ``send`` stores its result."""

    def __init__(self, env_fn):
        self.env = env_fn()
        super().__init__(env_fn)

    def get_env_attr(self, key):
        return getattr(self.env, key)

    def set_env_attr(self, key, value):
        setattr(self.env, key, value)

    def reset(self, **kwargs):
        return self.env.reset(**kwargs)

    def send(self, action, **kwargs):
        self.result = self.env.reset(**kwargs) if action is None else self.env.step(action)

    def render(self, **kwargs):
        return self.env.render(**kwargs)

    def close_env(self):
        self.env.close()


def test_a_worker_needs_no_more_than_tianshou_asks():
    envs = BaseVectorEnv([lambda: Scripted(2)] * 2, Plain)
    assert envs.worker_class is Plain
    assert envs.reset()[0].tolist() == [[0, 0]] * 2
    assert envs.step(np.zeros(2, int))[0].tolist() == [[0, 1]] * 2
    envs.close()
    assert all(worker.env.closed for worker in envs.workers)
