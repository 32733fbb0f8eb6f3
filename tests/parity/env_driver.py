"""Runs vector environments step by step with either library: ``python env_driver.py tianshou``.

Prints JSON. Environments say their number and their step, so that it shows whose answer is whose.
"""

import json
import sys
import tempfile
import time
import warnings
from importlib import import_module
from pathlib import Path

import gymnasium as gym
import numpy as np

warnings.simplefilter("ignore")
LIBRARY = sys.argv[1]
env = import_module(f"{LIBRARY}.env")


class Counting(gym.Env):
    """Shows its number, the episode and the step; odd ones end by truncation."""

    metadata = {"render_modes": ["ansi"], "name": "counting"}
    reward_range = (-1.0, 9.0)

    def __init__(self, number, shape="box", gate=None):
        self.number, self.shape, self.gate, self.level = number, shape, gate, 0
        box = gym.spaces.Box(-np.inf, np.inf, (3,), np.float64)
        self.observation_space = gym.spaces.Dict({"at": box, "n": gym.spaces.Discrete(99)}) if shape == "dict" else box
        self.action_space = gym.spaces.Discrete(5)
        self.episode, self.seeds = -1, []

    def _obs(self):
        at = np.array([self.number, self.episode, self.count], np.float64)
        if self.shape == "ragged":
            return np.zeros(self.number + 1)
        return {"at": at, "n": self.number} if self.shape == "dict" else at

    def reset(self, seed=None, options=None):
        self.seeds.append(seed)
        self.episode += 1
        self.count = 0
        return self._obs(), {"reset": self.episode}

    def step(self, action):
        while self.gate is not None and not self.gate.exists():
            time.sleep(0.001)
        self.count += 1
        over = self.count >= 2 + self.number
        return (
            self._obs(),
            float(action),
            over and self.number % 2 == 0,
            over and self.number % 2 == 1,
            {"n": self.count},
        )

    def render(self):
        return f"{self.number} at {self.count}"


def plain(value):
    if isinstance(value, np.ndarray):
        return [str(value.dtype), list(value.shape), plain(value.tolist() if value.dtype != object else list(value))]
    if isinstance(value, dict):
        return {key: plain(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


def reset(envs, *args, **kwargs):
    """What a reset gives, its infos as the list that they are in 1.0: later they are an array, as after a step."""
    obs, infos = envs.reset(*args, **kwargs)
    assert isinstance(infos, list if LIBRARY == "tianshou" else np.ndarray)
    return plain((obs, list(infos)))


def kind(call):
    """The kind of error, or what was given."""
    try:
        return plain(call())
    except Exception as error:
        return type(error).__mro__[-4].__name__ if len(type(error).__mro__) > 4 else type(error).__name__


def synchronous(shape):
    envs = env.DummyVectorEnv([lambda i=i: Counting(i, shape) for i in range(4)])
    said = [len(envs), envs.env_num, envs.is_async, envs.wait_num, envs.is_closed, reset(envs)]
    said += [plain(envs.step([1, 2, 3, 4])), plain(envs.step(np.array([4, 3]), id=[3, 1]))]
    said += [reset(envs, id=[2]), reset(envs, 1), plain(envs.step([0], id=np.array([2])))]
    said += [reset(envs, [3, 0]), plain(envs.render())]
    said += [envs.get_env_attr("number"), envs.get_env_attr("count", [2, 0]), envs.get_env_attr("count", 1)]
    envs.set_env_attr("level", 7, id=[1, 3])
    envs.set_env_attr("gate", None)
    said += [envs.get_env_attr("level"), [str(s) for s in envs.action_space], len(envs.observation_space)]
    said += [[m["name"] for m in envs.metadata], plain(envs.reward_range), envs.spec]
    said += [envs.seed(5), envs.seed([4, 3, 2, 1]), len(envs.seed(None))]
    envs.reset(seed=[9, 9, 9, 9] if LIBRARY == "rlfast" else 9)  # Tianshou gives all the same seed
    said += [[seeds[-1] for seeds in envs.get_env_attr("seeds")], len(envs.workers)]
    envs.close()
    return [*said, envs.is_closed]


def asynchronous():
    """The order in which answers come: a step of an environment ends once there is a file, its gate."""
    folder = tempfile.TemporaryDirectory()
    order = [Path(folder.name, str(i)) for i in (1, 3, 0, 2)]
    fns = [lambda i=i: Counting(i, gate=Path(folder.name, str(i))) for i in range(4)]
    envs = env.SubprocVectorEnv(fns, wait_num=1, **({"num_workers": 4} if LIBRARY == "rlfast" else {}))
    said = [envs.is_async, envs.wait_num, reset(envs)]
    order.pop(0).touch()
    *answer, infos = envs.step([1, 2, 3, 4])
    while True:
        said.append([[info["env_id"] for info in infos], plain(answer), sorted(envs.waiting_id), sorted(envs.ready_id)])
        if not envs.waiting_id:
            break
        order.pop(0).touch()
        *answer, infos = envs.step(None)
    said.append(reset(envs, [1, 2]))
    envs.close()
    folder.cleanup()
    return said


def wrapped():
    envs = env.VectorEnvNormObs(env.DummyVectorEnv([lambda i=i: Counting(i) for i in range(3)]))
    first = envs.reset()[0]
    second = envs.step([1, 2, 3])[0]
    rms = envs.get_obs_rms()
    held = env.VectorEnvNormObs(env.DummyVectorEnv([lambda i=i: Counting(i) for i in range(3)]), update_obs_rms=False)
    held.set_obs_rms(rms)
    numbers = [first, second, rms.mean, rms.var, held.reset()[0], rms.count]
    return [np.round(np.asarray(one, np.float64), 5).tolist() for one in numbers]


def misuse():
    def tuples():
        class Pair(Counting):
            def _obs(self):
                return (np.zeros(1), np.zeros(1))

        return env.DummyVectorEnv([lambda: Pair(0)]).reset()

    envs = env.DummyVectorEnv([lambda: Counting(0)] * 2)
    envs.close()
    return [kind(tuples), kind(lambda: env.DummyVectorEnv([lambda: Counting(0)] * 2).no_such_thing)]


if __name__ == "__main__":
    said = {f"synchronous, {shape}": synchronous(shape) for shape in ("box", "dict", "ragged")}
    json.dump(said | {"asynchronous": asynchronous(), "wrapped": wrapped(), "misuse": misuse()}, sys.stdout)
