"""One seed gives one result, with every backend of environments and any number of workers.

The hashes are printed, so that a change of behaviour is seen in review.
"""

import hashlib
import sys
import warnings
from functools import partial

import gymnasium as gym
import pytest
import torch

from rlfast.data import AsyncCollector, Collector, PrioritizedVectorReplayBuffer
from rlfast.env import DummyVectorEnv, NativeVectorEnv, SubprocVectorEnv
from rlfast.policy import DQNPolicy
from rlfast.trainer import OffpolicyTrainer
from rlfast.utils.net.common import Net
from rlfast.utils.optim import adam

ENVS = 4
WAYS = {
    "in-process": DummyVectorEnv,
    "1 worker": partial(SubprocVectorEnv, num_workers=1),
    "2 workers": partial(SubprocVectorEnv, num_workers=2),
    "4 workers": partial(SubprocVectorEnv, num_workers=4),
    "native": lambda fns: NativeVectorEnv("CartPole-v1", len(fns), autoreset_mode=None),
    "in-process, asynchronous": partial(DummyVectorEnv, wait_num=1),
    "asynchronous, all at a time": partial(SubprocVectorEnv, num_workers=2, wait_num=ENVS, timeout=60),
}


def parameters(way, seed=0):
    """The hash of what a short run with prioritized replay has learned."""
    torch.manual_seed(seed)
    policy = DQNPolicy(
        model=Net(4, 2, [16]), optim=adam(1e-2), action_space=gym.spaces.Discrete(2), target_update_freq=7
    )
    policy.seed(seed)
    policy.set_eps(0.3)
    envs = WAYS[way]([lambda: gym.make("CartPole-v1")] * ENVS)
    envs.seed(seed)
    buffer = PrioritizedVectorReplayBuffer(200, ENVS, alpha=0.6, beta=0.4, seed=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "asynchronous environments may put more")
        collector = (AsyncCollector if envs.is_async else Collector)(policy, envs, buffer, exploration_noise=True)
    with collector:
        trainer = OffpolicyTrainer(
            policy=policy,
            max_epoch=1,
            batch_size=16,
            train_collector=collector,
            step_per_epoch=200,
            step_per_collect=20,
            update_per_step=0.2,
            show_progress=False,
        )
        trainer.run()
    assert (trainer.env_step, trainer.gradient_step) == (200, 40)
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in policy.parameters())).hexdigest()[:16]


@pytest.fixture(scope="module")
def expected():
    return parameters("in-process")


@pytest.mark.pitfall("E9")
@pytest.mark.parametrize("way", WAYS)
def test_the_parameters_are_the_same(way, expected):
    found = parameters(way)
    sys.stdout.write(f"parameters, {way}: {found}\n")
    assert found == expected


def test_another_seed_gives_others(expected):
    assert parameters("in-process", seed=1) != expected


def test_so_it_is_with_more_threads_of_torch(expected):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert parameters("in-process") == expected
    finally:
        torch.set_num_threads(before)
