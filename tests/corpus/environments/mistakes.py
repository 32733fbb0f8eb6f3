"""Calls that a script makes by mistake, and catches."""

import json
import tempfile
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
from tianshou.env import ContinuousToDiscrete, DummyVectorEnv, MultiDiscreteToDiscrete, SubprocVectorEnv


class Counter(gym.Env):
    action_space = gym.spaces.Discrete(2)
    observation_space = gym.spaces.Box(0, 9, (1,))

    def __init__(self, answer=True, gate=None):
        self.answer, self.gate = answer, gate

    def reset(self, seed=None, options=None):
        return (np.zeros(1, np.float32), {}) if self.answer else np.zeros(1, np.float32)

    def step(self, action):
        while self.gate and not self.gate.exists():
            time.sleep(0.01)
        return np.ones(1, np.float32), 1.0, False, False, {}


class Box(Counter):
    action_space = gym.spaces.Box(-1, 1, (2,))


def refused(function):
    try:
        function()
    except AssertionError:
        return True
    return False


envs = DummyVectorEnv([Counter, Counter])
envs.reset()
seen = {
    "too few actions": refused(lambda: envs.step([1])),
    "too many actions": refused(lambda: envs.step([1, 1], [0])),
    "no info": refused(DummyVectorEnv([lambda: Counter(answer=False)]).reset),
    "wait for three": refused(lambda: DummyVectorEnv([Counter, Counter], wait_num=3)),
    "wait for less": refused(lambda: DummyVectorEnv([Counter, Counter], wait_num=-1)),
    "no time": refused(lambda: DummyVectorEnv([Counter, Counter], timeout=0)),
}
envs.close()
seen["closed"] = [refused(lambda: envs.step([1, 1])), refused(envs.reset), refused(envs.render), refused(envs.seed)]
with tempfile.TemporaryDirectory() as folder:
    gate = Path(folder) / "open"
    envs = SubprocVectorEnv([Counter, lambda: Counter(gate=gate)], wait_num=1)
    envs.reset()
    envs.step([1, 1])
    seen["busy"] = [
        refused(lambda: envs.step([1], [1])),
        refused(lambda: envs.reset([1])),
        refused(lambda: envs.get_env_attr("answer", [1])),
    ]
    gate.touch()
    envs.step(None)
    envs.close()
seen["wrappers"] = [
    refused(lambda: ContinuousToDiscrete(Counter(), 3)),
    refused(lambda: ContinuousToDiscrete(Box(), [3])),
    refused(lambda: MultiDiscreteToDiscrete(Counter())),
]
print(json.dumps(seen))
