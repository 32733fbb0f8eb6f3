import gymnasium as gym
import numpy as np
import pytest

from rlfast.env import BaseVectorEnv, DummyEnvWorker, DummyVectorEnv
from scripted import Scripted


def make(*envs: gym.Env) -> DummyVectorEnv:
    return DummyVectorEnv([lambda env=env: env for env in envs])


def test_reset_and_step_give_one_row_per_environment():
    envs = make(Scripted(2), Scripted(3, reward=2.0), Scripted(2, truncate=True))
    obs, infos = envs.reset()
    assert obs.dtype == np.float32
    np.testing.assert_array_equal(obs, [[0, 0]] * 3)
    assert (type(infos), infos.dtype, infos.tolist()) == (np.ndarray, object, [{}, {}, {}])
    envs.step([0, 0, 0])
    obs, rew, terminated, truncated, infos = envs.step(np.zeros(3, int))
    np.testing.assert_array_equal(obs, [[0, 2]] * 3)
    np.testing.assert_array_equal(rew, [1.0, 2.0, 1.0])
    np.testing.assert_array_equal(terminated, [True, False, False])
    np.testing.assert_array_equal(truncated, [False, False, True])
    assert [info["env_id"] for info in infos] == [0, 1, 2]
    assert terminated.dtype == truncated.dtype == np.bool_


def test_seed_reports_what_it_used_and_resets():
    envs = make(Scripted(), Scripted())
    assert envs.seed(5) == [[5], [6]]
    assert [worker.env.reset_kwargs[-1]["seed"] for worker in envs.workers] == [5, 6]
    assert envs.seed([3, None]) == [[3], [None]]
    envs.step([0, 0])  # it was reset


def test_reset_arguments_reach_every_environment():
    envs = make(Scripted(), Scripted())
    envs.reset(options={"level": 2})
    assert [worker.env.reset_kwargs for worker in envs.workers] == [[{"seed": None, "options": {"level": 2}}]] * 2


def test_get_and_set_attr_below_wrappers():
    envs = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 3)
    assert [space.n for space in envs.action_space] == [2, 2, 2]
    assert [space.shape for space in envs.observation_space] == [(4,)] * 3
    assert [spec.id for spec in envs.spec] == ["CartPole-v1"] * 3
    assert len(envs.metadata) == len(envs) == 3
    envs.set_env_attr("gravity", 1.5, id=[0, 2])
    assert envs.get_env_attr("gravity") == [1.5, 9.8, 1.5]
    assert envs.get_env_attr("gravity", 1) == [9.8]


def test_observations_are_fresh_arrays():
    class Reusing(Scripted):
        def _obs(self):
            self.buffer = getattr(self, "buffer", np.zeros(2, np.float32))
            self.buffer[:] = self.episode, self.step_count
            return self.buffer

    envs = make(Reusing(9))
    first, _ = envs.reset()
    second, *_ = envs.step([0])
    np.testing.assert_array_equal(first, [[0, 0]])
    np.testing.assert_array_equal(second, [[0, 1]])


@pytest.mark.parametrize(
    ("rows", "dtype", "shape"),
    [
        ([np.zeros((2, 3), np.uint8)] * 2, np.uint8, (2, 2, 3)),
        ([np.int64(3), np.int64(4)], np.int64, (2,)),
        ([1, 2.5], np.float64, (2,)),
        ([np.zeros(2), np.zeros(4)], object, (2,)),
        ([{"a": 1}, {"a": 2}], object, (2,)),
        (["left", "right"], object, (2,)),
        ([[1.0, 2.0], [3.0, 4.0]], np.float64, (2, 2)),
    ],
)
def test_any_observation_is_stacked(rows, dtype, shape):
    class Showing(Scripted):
        def __init__(self, row):
            super().__init__(9)
            self.row = row

        def _obs(self):
            return self.row

    obs, _ = make(*(Showing(row) for row in rows)).reset()
    assert (obs.dtype, obs.shape) == (np.dtype(dtype), shape)
    for got, row in zip(obs, rows, strict=True):
        assert np.array_equal(got, row) if not isinstance(row, dict | str) else got == row


def test_tuple_observations_are_refused():
    class Tuples(Scripted):
        def _obs(self):
            return (np.zeros(1), np.zeros(1))

    class Old(Scripted):
        def reset(self, **_):
            return np.zeros(2)

    with pytest.raises(TypeError, match="Tuple observation space is not supported"):
        make(Tuples(), Tuples()).reset()
    with pytest.raises(TypeError, match=r"reset\(\) must give \(obs, info\)") as caught:
        make(Scripted(), Old()).reset()
    assert caught.value.__notes__ == ["raised by environment 1 in reset()"]


class Slow(DummyEnvWorker):
    """StepResults only when it is told to."""

    patience: dict[int, int] = {}

    @staticmethod
    def wait(workers, wait_num, timeout=None):
        ready = [w for w in workers if Slow.patience.get(id(w), 0) <= 0]
        for worker in workers:
            Slow.patience[id(worker)] = Slow.patience.get(id(worker), 0) - 1
        return ready[: wait_num or None]


def test_asynchronous_mode_answers_as_they_come():
    envs = BaseVectorEnv([lambda: Scripted(9, actions=30) for _ in range(3)], Slow, wait_num=1)
    assert envs.is_async
    envs.reset()
    Slow.patience = {id(envs.workers[0]): 5, id(envs.workers[1]): 0, id(envs.workers[2]): 5}
    *_, infos = envs.step([10, 11, 12])
    assert [info["env_id"] for info in infos] == [1]
    assert envs.ready_id == [1]
    with pytest.raises(RuntimeError, match=r"environments \[0\] are stepping"):
        envs.reset(0)
    with pytest.raises(RuntimeError, match="are stepping"):
        envs.step([0], id=[2])
    *_, infos = envs.step([21], id=[1])
    seen = [info["env_id"] for info in infos]
    while envs.waiting_id:
        *_, infos = envs.step(None)
        seen += [info["env_id"] for info in infos]
    assert sorted(seen) == [0, 1, 2]
    with pytest.raises(RuntimeError, match="no environment is stepping"):
        envs.step(None)


def test_render_and_close_reach_all_envs():
    class Stubborn(Scripted):
        def close(self):
            raise OSError("stuck")

    envs = [Scripted(), Stubborn(), Scripted()]
    vector = make(*envs)
    vector.reset()
    assert vector.render() == ["frame 0"] * 3
    with pytest.raises(OSError, match="stuck"):
        vector.close()
    assert envs[0].closed
    assert envs[2].closed
    with make(Scripted()) as vector:
        pass
    assert vector.is_closed
