import multiprocessing
import os
import sys
import time

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from env.beside import run_beside
from env.odd import Showing, box
from rlfast.env import RayEnvWorker, RayVectorEnv
from scripted import Scripted

ray = pytest.importorskip("ray")
pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]


def start(attempts=4):
    """Starts Ray, which gives its node 30 s, a constant. A loaded machine needs more the first time."""
    found_here = {"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}}  # actors import this module
    for left in reversed(range(attempts)):
        try:
            ray.init(
                address="local",  # not that of somebody else on this machine
                num_cpus=1,
                include_dashboard=False,
                object_store_memory=80 << 20,
                configure_logging=False,
                runtime_env=found_here,
            )
            break
        except Exception as error:  # Ray raises this very class
            ray.shutdown()
            if left == 0 or "timed out during startup" not in str(error):
                raise


@pytest.fixture(scope="module", autouse=True)
def running():
    start()
    yield
    ray.shutdown()


def cart_pole():
    return gym.make("CartPole-v1", max_episode_steps=9)


def broken():
    class Broken(gym.Wrapper):
        def step(self, action):
            raise ZeroDivisionError("no such thing")

    return Broken(cart_pole())


def numbered(number, gate=None):
    """StepResults steps with its number, once there is a file ``gate``."""

    class Numbered(gym.ObservationWrapper):
        def observation(self, observation):
            return np.full_like(observation, number)

        def step(self, action):
            while gate is not None and not gate.exists():
                time.sleep(0.01)
            return super().step(action)

    return Numbered(cart_pole())


@pytest.mark.parametrize("mode", AutoresetMode)
def test_actors_say_what_gymnasium_says(mode):
    ours = RayVectorEnv([cart_pole] * 2, autoreset_mode=mode)
    ours.action_space.seed(1)
    assert run_beside(ours, SyncVectorEnv([cart_pole] * 2, autoreset_mode=mode), 30) > 2
    ours.close()


def test_tianshous_protocol_and_attributes():
    envs = RayVectorEnv([cart_pole] * 2)
    obs, _ = envs.reset(seed=3)
    np.testing.assert_array_equal(obs[1], cart_pole().reset(seed=4)[0])
    *_, infos = envs.step([1], id=[1])
    assert infos[0]["env_id"] == 1
    envs.set_env_attr("gravity", 5.0, [1])
    assert envs.get_env_attr("gravity") == [9.8, 5.0]
    assert [space.n for space in envs.action_space] == [2, 2]
    assert envs.seed(7) == [[7], [8]]
    envs.close()
    assert envs.is_closed


def test_asynchronous_answers_carry_their_number(tmp_path):
    gate = tmp_path / "gate"
    envs = RayVectorEnv([lambda i=i: numbered(i, gate if i == 2 else None) for i in range(3)], wait_num=1)
    envs.reset()
    envs.send(np.zeros(3, int))
    steps = np.zeros(3, int)
    while steps.min() < 3:
        rows = envs.recv()
        np.testing.assert_array_equal(rows.obs[:, 0], rows.env_id)
        steps[rows.env_id] += 1
        if (done := rows.env_id[rows.done]).size:
            envs.reset_rows(done)
        envs.send(np.zeros(len(rows.env_id), int), rows.env_id)
        assert gate.exists() or steps[2] == 0  # the others go on while it waits
        if steps.sum() > 10:
            gate.touch()
    envs.close()


def test_actors_know_what_is_registered(monkeypatch):
    spec = EnvSpec("CartPole-v1", entry_point=Scripted, disable_env_checker=True, max_episode_steps=4)
    monkeypatch.setitem(gym.registry, "CartPole-v1", spec)
    worker = RayEnvWorker(lambda: gym.make("CartPole-v1"))
    assert worker.get_env_attr("spec").max_episode_steps == 4
    assert worker.get_env_attr("length") == 3
    worker.close()


def test_what_an_environment_raises_arrives():
    envs = RayVectorEnv([cart_pole, broken])
    envs.reset()
    with pytest.raises(ZeroDivisionError, match="no such thing"):
        envs.step([0, 0])
    envs.close()


def test_a_worker_takes_one_request_at_a_time():
    worker = RayEnvWorker(cart_pole)
    worker.send(None, seed=1)
    with pytest.raises(RuntimeError, match="twice in a row"):
        worker.send(0)
    obs, _ = worker.recv()
    assert obs.shape == (4,)
    with pytest.raises(RuntimeError, match="without an answer"):
        worker.recv()
    worker.close()
    worker.close()


def shows(value, space="none", action_space="none"):
    return lambda: Showing(space, value, action_space)


def test_ray_actors_take_any_spaces():
    values = ["a", [1, 2], {"b": 3}]
    envs = RayVectorEnv([shows(value) for value in values])
    obs, infos = envs.reset()
    assert (obs.dtype, obs.tolist(), infos.dtype) == (object, values, object)
    envs.step(["left", 0.5, (1, 2)])
    assert envs.get_env_attr("actions") == [["left"], [0.5], [(1, 2)]]
    assert envs.observation_space == envs.action_space == [None] * 3
    assert envs.seed(3) == [[3], [4], [5]]
    envs.close()


def test_actors_with_different_spaces():
    fns = [shows(np.full(2, k, np.float32), box(k + 1), gym.spaces.Discrete(k + 2)) for k in range(2)]
    envs = RayVectorEnv(fns)
    assert envs.reset()[0].tolist() == [[0, 0], [1, 1]]
    assert [space.n for space in envs.action_space] == [2, 3]
    envs.step([7, -1])
    assert envs.step([0, 1])[1].tolist() == [1, 1]
    envs.close()
    with pytest.raises(RuntimeError, match="action space different"):
        RayVectorEnv(fns, autoreset_mode="next-step", observation_mode="different")


def test_methods_are_called_in_the_actors():
    envs = RayVectorEnv([lambda: gym.make("CartPole-v1", max_episode_steps=9)] * 2, autoreset_mode="next-step")
    envs.reset(seed=1)
    envs.set_attr("_max_episode_steps", 1)  # of a wrapper
    assert envs.get_attr("_max_episode_steps") == (1, 1)
    assert envs.step([0, 0])[3].tolist() == [True, True]
    with pytest.raises(AttributeError, match="nope"):
        envs.call("nope")
    envs.close()


def test_actors_in_two_halves(tmp_path):
    gate = tmp_path / "gate"
    envs = RayVectorEnv([lambda i=i: numbered(i, gate) for i in range(2)], autoreset_mode="next-step")
    envs.reset_async(seed=1)
    assert envs.reset_wait(timeout=600)[0].shape == (2, 4)
    envs.step_async([0, 0])
    with pytest.raises(multiprocessing.TimeoutError):
        envs.step_wait(timeout=0.05)
    gate.touch()
    envs.reset()
    envs.step_async([0, 0])
    assert envs.step_wait(timeout=600)[1].tolist() == [1, 1]
    envs.close()
