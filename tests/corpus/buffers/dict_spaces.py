"""Observations and actions of dict and tuple spaces."""

import json

import gymnasium as gym
import numpy as np
from tianshou.data import Batch, ReplayBuffer, VectorReplayBuffer

space = gym.spaces.Dict(cam=gym.spaces.Box(0, 255, (2, 2), np.uint8), arm=gym.spaces.Dict(pos=gym.spaces.Box(-1, 1, (3,)), on=gym.spaces.Discrete(2)))
space.seed(0)
obs = [space.sample() for _ in range(6)]
buffer = ReplayBuffer(5, stack_num=2)
for t in range(5):
    buffer.add(Batch(obs=obs[t], act={"move": np.ones(2) * t, "grip": t % 2}, rew=0.1 * t, terminated=t == 2, truncated=False, obs_next=obs[t + 1], info={}))
batch, index = buffer.sample(0)
vector = VectorReplayBuffer(4, 2)
rows = Batch(obs=Batch([obs[0], obs[1]]), act=np.zeros(2), rew=np.zeros(2), terminated=np.zeros(2, bool), truncated=np.zeros(2, bool), obs_next=Batch([obs[1], obs[2]]))
vector.add(rows)
print(
    json.dumps(
        {
            "shapes": [list(batch.obs.cam.shape), list(batch.obs.arm.pos.shape), list(batch.obs.arm.on.shape), list(batch.act.move.shape)],
            "dtypes": [str(batch.obs.cam.dtype), str(batch.obs.arm.pos.dtype), str(batch.act.grip.dtype)],
            "grip": batch.act.grip.tolist(),
            "same": [bool((buffer.obs.cam[t] == obs[t]["cam"]).all()) for t in range(5)],
            "on": batch.obs.arm.on.tolist() == [[int(obs[max(s, t - 1)]["arm"]["on"]), int(obs[t]["arm"]["on"])] for s, t in [(0, 0), (0, 1), (0, 2), (3, 3), (3, 4)]],
            "vector": [list(vector.obs.cam.shape), vector.obs.arm.on[[0, 2]].tolist() == [int(o["arm"]["on"]) for o in obs[:2]]],
        }
    )
)
