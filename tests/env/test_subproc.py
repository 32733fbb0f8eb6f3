import numpy as np
import pytest

from faulty import Faulty, Slow
from rlfast.env import BaseVectorEnv, ShmemVectorEnv, SubprocEnvWorker, SubprocVectorEnv, WorkerDied
from scripted import Scripted


@pytest.fixture(params=[SubprocVectorEnv, ShmemVectorEnv])
def make(request):
    made = []

    def face(*arguments, **options):
        made.append(request.param(*arguments, **options))
        return made[-1]

    yield face
    for envs in made:
        envs.close()


def test_tianshous_arguments_are_taken(make):
    envs = make([lambda: Scripted(9)] * 4, 2, 0.5)
    assert envs.is_async
    assert envs.placement == "process"
    envs.reset()
    obs, _, _, _, infos = envs.step(np.zeros(4, int))
    ready = [info["env_id"] for info in infos]
    assert len(ready) >= 2
    assert obs.shape == (len(ready), 2)
    envs.close()
    envs = SubprocVectorEnv([lambda: Scripted(9)] * 2, None, None, True, "spawn")
    assert envs.reset()[0].tolist() == [[0, 0]] * 2
    envs.close()


@pytest.mark.pitfall("E5")
def test_lost_envs_reset_together(make):
    envs = make([Scripted, Scripted, lambda: Faulty("kill"), Scripted], num_workers=2)
    envs.reset()
    envs.step([0] * 4)
    envs.send([0] * 4)
    with pytest.raises(EOFError, match="environment 2 failed: its worker was killed by SIGKILL") as caught:
        envs.recv()
    assert type(caught.value) is WorkerDied
    assert envs.waiting_id == [0, 1]
    assert envs.recv().env_id.tolist() == [0, 1]
    with pytest.raises(RuntimeError, match=r"environments \[2, 3\] are in no episode"):
        envs.step([0] * 4)
    envs.reset([2, 3])
    assert envs.step([0] * 4)[0][:, 1].tolist() == [3, 3, 1, 1]
    assert envs.restarts == 2


def test_one_environment_in_a_process_of_its_own():
    worker = SubprocEnvWorker(lambda: Scripted(2, info={"a": 1}))
    assert worker.action_space.n == 4
    with pytest.raises(RuntimeError, match="without an answer"):
        worker.recv()
    obs, info = worker.reset(seed=3, options={"x": 1})
    assert obs.tolist() == [0, 0]
    assert info == {"a": 1}
    assert worker.get_env_attr("reset_kwargs") == [{"seed": 3, "options": {"x": 1}}]
    worker.send(1)
    with pytest.raises(RuntimeError, match="twice in a row"):
        worker.send(1)
    obs, rew, terminated, truncated, info = worker.recv()
    assert (obs.tolist(), rew, terminated, truncated, info) == ([0, 1], 1.0, False, False, {"a": 1})
    worker.set_env_attr("reward", 5.0)
    assert worker.step(1)[1:4] == (5.0, True, False)
    assert worker.render() == "frame 2"
    assert worker.seed(4) == [4]
    worker.close()
    worker.close()


def test_vector_env_of_custom_workers():
    fns = [lambda: Slow(0.0, length=9), lambda: Slow(0.3, length=9)]
    envs = BaseVectorEnv(fns, SubprocEnvWorker, wait_num=1)
    envs.reset()
    *_, infos = envs.step([0, 0])
    assert [info["env_id"] for info in infos] == [0]
    *_, infos = envs.step(None)
    assert [info["env_id"] for info in infos] == [1]
    envs.step([0], id=[0])
    envs.close()


@pytest.mark.pitfall("E6")
def test_closing_does_not_wait_for_what_workers_do(make):
    envs = make([Scripted, lambda: Slow(1000)], wait_num=1)
    envs.reset()
    envs.step([0, 0])
    envs.close()
