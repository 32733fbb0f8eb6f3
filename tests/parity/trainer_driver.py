"""Trains in scripted environments with either library: ``python trainer_driver.py tianshou``.

Prints JSON: every call of a hook and of the policy, and the totals, for each kind of trainer.
"""

import json
import sys
from dataclasses import dataclass
from importlib import import_module

import gymnasium as gym
import numpy as np

LIBRARY = sys.argv[1]
data, env, policy, trainer, utils = (
    import_module(f"{LIBRARY}.{name}") for name in ("data", "env", "policy", "trainer", "utils")
)

PROGRAMS = {
    "off-policy": ("OffpolicyTrainer", {"step_per_epoch": 20, "step_per_collect": 4, "update_per_step": 0.5}),
    "off-policy by episodes": ("OffpolicyTrainer", {"step_per_epoch": 20, "episode_per_collect": 2}),
    "off-policy, over the epoch's end": ("OffpolicyTrainer", {"step_per_epoch": 10, "step_per_collect": 8}),
    "off-policy, stopped": (
        "OffpolicyTrainer",
        {"step_per_epoch": 10, "step_per_collect": 10, "stop_fn": lambda mean: mean >= 12},
    ),
    "off-policy, stopped within training": (
        "OffpolicyTrainer",
        {"step_per_epoch": 20, "step_per_collect": 4, "stop_fn": lambda mean: mean >= 6, "test_in_train": True},
    ),
    "on-policy": ("OnpolicyTrainer", {"step_per_epoch": 20, "step_per_collect": 10, "repeat_per_collect": 2}),
    "offline": ("OfflineTrainer", {"step_per_epoch": 6}),
}


class Counting(gym.Env):
    """Episodes of two or three steps, whose reward is the number of the episode."""

    def __init__(self, number):
        self.number, self.episode = number, 0
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = gym.spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.count = 0
        return np.array([self.episode, 0.0]), {}

    def step(self, action):
        self.count += 1
        self.episode += self.count == 1  # not at resets: rlfast makes fewer
        return np.array([self.episode, self.count]), float(self.episode), self.count >= 2 + self.number, False, {}


@dataclass(kw_only=True)
class Losses(policy.TrainingStats):
    loss: float


class Noting(policy.BasePolicy):
    def __init__(self, diary):
        super().__init__(action_space=gym.spaces.Discrete(2))
        self.diary = diary

    def forward(self, batch, state=None, **_):
        return data.Batch(act=np.zeros(len(batch.obs), int))

    def learn(self, batch, **kwargs):
        self.diary.append(["learn", len(batch), self.training, sorted(kwargs)])
        return Losses(loss=1.0)


def filled():
    buffer = data.ReplayBuffer(20)
    for i in range(9):
        buffer.add(data.Batch(obs=np.zeros(2), act=0, rew=1.0, terminated=i % 3 == 2, truncated=False,
                              obs_next=np.ones(2), info={}))  # fmt: skip
    return buffer


def run(kind, arguments):
    diary = []

    def note(name, answer=None):
        return lambda *what: diary.append([name, *map(repr, what)]) or answer

    learner = Noting(diary)
    train, test = (env.DummyVectorEnv([lambda i=i: Counting(i) for i in range(2)]) for _ in range(2))
    train.reset()
    parts = {"train_collector": data.Collector(learner, train, data.VectorReplayBuffer(100, 2))}
    if kind == "OfflineTrainer":
        parts = {"buffer": filled()}
    if "stop_fn" in arguments:
        stop = arguments["stop_fn"]
        arguments = {**arguments, "stop_fn": lambda mean: diary.append(["stop", mean]) or stop(mean)}

    class Diary(utils.LazyLogger):
        def save_data(self, *where):
            diary.append(["save", *where[:2]])  # gradient steps are counted otherwise

        def log_train_data(self, what, step):
            diary.append(["train data", step, what["n_collected_episodes"]])

        def log_test_data(self, what, step):
            diary.append(["test data", step])

        def log_info_data(self, what, step):
            diary.append(["info data", step])

    made = getattr(trainer, kind)(
        policy=learner,
        max_epoch=3,
        batch_size=4,
        test_collector=data.Collector(learner, test),
        episode_per_test=2,
        train_fn=note("train_fn"),
        test_fn=note("test_fn"),
        save_best_fn=lambda _: diary.append(["best"]),
        logger=Diary(),
        verbose=False,
        show_progress=False,
        **{"test_in_train": False, **parts, **arguments},
    )
    epochs = [stats.epoch for stats in made]
    info = made_info(made)
    return {"diary": diary, "epochs": epochs, "info": info}


def made_info(made):
    collectors = (made.train_collector, made.test_collector)
    counts = [[c.collect_step, c.collect_episode] for c in collectors if c is not None]
    return {"best": made.best_reward, "env_step": made.env_step, "counts": counts}


if __name__ == "__main__":
    json.dump({name: run(*program) for name, program in PROGRAMS.items()}, sys.stdout)
