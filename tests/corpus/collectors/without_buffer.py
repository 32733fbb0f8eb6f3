"""The shortest use: one environment, no buffer, random actions."""

import json
import warnings

import gymnasium as gym
from tianshou.data import Collector
from tianshou.policy import RandomPolicy

warnings.simplefilter("ignore")
env = gym.make("CartPole-v1")
collector = Collector(RandomPolicy(action_space=env.action_space), env)
collector.reset()
stats = collector.collect(n_episode=3, random=True)
again = collector.collect(n_step=7, random=True)
print(
    json.dumps(
        {
            "episodes": stats.n_collected_episodes,
            "alike": bool((stats.returns == stats.lens).all()),
            "steps": again.n_collected_steps,
            "rows": len(collector.buffer),
            "number": collector.env_num,
            "positive": stats.collect_time > 0 and stats.collect_speed > 0,
        }
    )
)
