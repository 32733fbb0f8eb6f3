"""Training that is interrupted at any bytecode goes on; a checkpoint is the old one or the new one."""

import json

import gymnasium as gym
import numpy as np
import pytest
import torch

from interrupts import interrupt, points, spread
from rlfast.data import Collector, VectorReplayBuffer
from rlfast.env import NativeVectorEnv
from rlfast.experiment.checkpoint import load_checkpoint, load_policy, save_checkpoint
from rlfast.policy import DQNPolicy
from rlfast.trainer import OffpolicyTrainer
from rlfast.utils.net.common import Net

SPACE = gym.spaces.Discrete(2)


def trainer_of(**options):
    model = Net(4, 2, hidden_sizes=[8])
    policy = DQNPolicy(
        model=model, optim=torch.optim.Adam(model.parameters()), action_space=SPACE, target_update_freq=3
    )
    train, test = (NativeVectorEnv("CartPole-v1", 2, autoreset_mode=None) for _ in range(2))
    collector = Collector(policy, train, VectorReplayBuffer(400, 2), exploration_noise=True)
    settings = {
        "max_epoch": 10**6,
        "step_per_epoch": 8,
        "step_per_collect": 4,
        "update_per_step": 0.5,
        "batch_size": 8,
        "episode_per_test": 2,
        "show_progress": False,
        "verbose": False,
    }
    return OffpolicyTrainer(
        policy=policy, train_collector=collector, test_collector=Collector(policy, test), **settings | options
    )


def chained(buffer):
    """Checks that the rows of an episode follow each other, in CartPole's own dynamics."""
    rows, index = buffer.sample(0)
    cart = gym.make("CartPole-v1").unwrapped
    cart.reset()
    for obs, act, after in zip(rows.obs, rows.act, rows.obs_next, strict=True):
        cart.state = obs.astype(np.float64)
        cart.steps_beyond_terminated = None
        np.testing.assert_allclose(cart.step(int(act))[0], after, rtol=1e-5, atol=1e-6)
    for one, i in zip(rows.obs, index, strict=True):
        before = buffer.prev(i)
        if before != i:
            np.testing.assert_array_equal(buffer.get(np.array([before]), "obs_next")[0], one)


@pytest.mark.parametrize("prefetch", [False, True])
def test_training_goes_on(prefetch):
    trainer = trainer_of(prefetch=prefetch)
    next(trainer)

    def epoch():
        next(trainer)

    for point in spread(points(epoch), 10):
        place = interrupt(epoch, point)
        before = trainer.gradient_step, trainer.env_step
        stats = next(trainer)
        assert stats.epoch == trainer.epoch, place
        if (trainer.gradient_step, trainer.env_step) == before:  # the epoch had only to be tested
            next(trainer)
        assert trainer.env_step > before[1], place
        assert trainer.gradient_step > before[0], place
        assert trainer.policy._sampled_weight is None, place
        assert trainer._prefetched is None or not trainer._prefetched.is_ahead, place
    chained(trainer.train_collector.buffer)


@pytest.mark.parametrize("save_buffer", [False, True])
def test_a_checkpoint_is_old_or_new(save_buffer, tmp_path):
    trainer, folder = trainer_of(), tmp_path / "checkpoint"
    next(trainer)
    save_checkpoint(folder, trainer, save_buffer=save_buffer)

    def weights():
        return torch.cat([one.detach().reshape(-1) for one in trainer.policy.parameters()])

    def save():
        save_checkpoint(folder, trainer, save_buffer=save_buffer)

    found = set()
    for point in spread(points(save), 12):
        old = weights(), trainer.gradient_step
        next(trainer)
        new = weights(), trainer.gradient_step
        place = interrupt(save, point)
        counters = load_policy(folder, trainer.policy)
        found.add(counters["gradient_step"] == new[1])
        state, step = new if counters["gradient_step"] == new[1] else old
        assert counters["gradient_step"] == step, place
        assert torch.equal(weights(), state), place
        assert load_checkpoint(folder, trainer) is not None, place
        save()
        assert json.loads((folder / "checkpoint.json").read_text())["gradient_step"] == trainer.gradient_step, place
        assert [one.name for one in tmp_path.iterdir()] == ["checkpoint"], place
    assert found
