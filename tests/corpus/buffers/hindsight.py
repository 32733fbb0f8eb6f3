"""A hindsight buffer: goals of the future, rewards by the user's function."""

import json

import numpy as np
from tianshou.data import Batch, HERReplayBuffer, HERVectorReplayBuffer


def reward(achieved, desired):
    return (np.abs(achieved - desired).sum(axis=-1) < 0.5).astype(float)


out = {}
for kind in ("one", "many"):
    if kind == "one":
        buffer = HERReplayBuffer(50, compute_reward_fn=reward, horizon=10, future_k=4)
    else:
        buffer = HERVectorReplayBuffer(50, 1, compute_reward_fn=reward, horizon=10, future_k=4)
    for t in range(30):
        obs = {"observation": np.array([t]), "achieved_goal": np.array([float(t)]), "desired_goal": np.array([99.0])}
        after = {"observation": np.array([t + 1]), "achieved_goal": np.array([float(t + 1)]), "desired_goal": np.array([99.0])}
        row = Batch(obs=obs, act=t, rew=0.0, terminated=t % 10 == 9, truncated=False, obs_next=after, info={})
        if kind == "many":
            row = Batch([row])
        buffer.add(row)
    rows, indices = buffer.sample(200)
    goal = np.asarray(rows.obs.desired_goal).ravel()
    own = goal != 99.0
    same = rows.obs.desired_goal.ravel() == rows.obs_next.desired_goal.ravel()
    later = goal[own] > rows.obs.achieved_goal.ravel()[own]
    within = (goal[own] - 1) // 10 == rows.obs.observation.ravel()[own] // 10
    out[kind] = [bool(own.any()), bool(later.all()), bool(within.all()), bool(same.all()), sorted({float(r) for r in rows.rew[own]})]
print(json.dumps(out))
