"""A policy that learns nothing and records its calls, and collectors with scripted environments."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from rlfast.data import Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.policy import TrainingStats
from rlfast.utils.logger import LazyLogger
from scripted import Scripted, ScriptedPolicy


@dataclass(kw_only=True)
class Losses(TrainingStats):
    loss: float
    alpha: float | None = None


class Learner(ScriptedPolicy):
    """A policy whose loss is the number of its updates."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.training, self.modes = True, []
        self.updates, self.update_kwargs = [], []

    def train(self, mode=True):
        self.training = mode
        self.modes.append(mode)
        return self

    def eval(self):
        return self.train(False)

    def update(self, sample_size, buffer, **kwargs):
        batch, _ = buffer.sample(sample_size)
        self.updates.append((sample_size, len(batch), self.training))
        self.update_kwargs.append(kwargs)
        return Losses(loss=float(len(self.updates)), train_time=0.001)

    def process_buffer(self, buffer):
        return buffer


class Diary(LazyLogger):
    def __init__(self):
        super().__init__()
        self.entries = []

    def __getattribute__(self, name):
        if name.startswith("log_"):
            return lambda data, step: self.entries.append((name, step, data))
        return super().__getattribute__(name)

    def of(self, name):
        return [(step, data) for entry, step, data in self.entries if entry == name]


@pytest.fixture
def setting():
    """All that a trainer needs: two training environments of 5 steps, one test environment whose return can be set."""

    def make(length=5, test_reward=1.0, **policy):
        learner = Learner(**policy)
        test_env = Scripted(2, reward=lambda step: test.reward / 2)
        test = SimpleNamespace(reward=test_reward)
        train_envs = DummyVectorEnv([lambda: Scripted(length) for _ in range(2)])
        return SimpleNamespace(
            policy=learner,
            test=test,
            logger=Diary(),
            train_collector=Collector(learner, train_envs, VectorReplayBuffer(1000, 2, seed=0)),
            test_collector=Collector(learner, DummyVectorEnv([lambda: test_env])),
        )

    return make


@pytest.fixture
def shared_arguments(setting):
    """The arguments that all trainers use, with some of them replaced."""

    def make(**changes):
        own = {key: changes.pop(key) for key in ("length", "test_reward") if key in changes}
        parts = setting(**own)
        given = {
            "policy": parts.policy,
            "max_epoch": 3,
            "batch_size": 4,
            "train_collector": parts.train_collector,
            "test_collector": parts.test_collector,
            "step_per_epoch": 20,
            "step_per_collect": 4,
            "episode_per_test": 2,
            "logger": parts.logger,
            "verbose": False,
            "show_progress": False,
        } | changes
        return parts, given

    return make


@pytest.fixture
def arguments(shared_arguments):
    """The arguments of an off-policy trainer, with some of them replaced."""
    return lambda **changes: shared_arguments(**{"update_per_step": 0.5} | changes)
