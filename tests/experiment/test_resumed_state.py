"""The state of a resumed run: each test fails if one part of the state is missing in checkpoints."""

import pickle

import gymnasium as gym
import numpy as np
import pytest
import torch

from rlfast.data import Batch, Collector, HERReplayBuffer, ReplayBuffer, VectorReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.experiment.checkpoint import load_checkpoint, save_checkpoint
from rlfast.policy import DQNPolicy
from rlfast.trainer import OfflineTrainer, OffpolicyTrainer
from rlfast.utils.net.common import Net
from rlfast.utils.optim import adam


def learner():
    torch.manual_seed(0)
    policy = DQNPolicy(model=Net((4,), 2, [8]), optim=adam(1e-3), action_space=gym.spaces.Discrete(2))
    policy.seed(0)
    return policy


def environments():
    envs = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 2)
    envs.seed(0)
    return envs


def trainer(**options):
    policy = learner()
    buffer = VectorReplayBuffer(200, 2, seed=0)
    given = {
        "policy": policy,
        "max_epoch": 3,
        "batch_size": 8,
        "train_collector": Collector(policy, environments(), buffer, exploration_noise=True),
        "test_collector": Collector(policy, environments()),
        "step_per_epoch": 60,
        "step_per_collect": 20,
        "episode_per_test": 2,
        "update_per_step": 0.1,
        "test_in_train": False,
        "verbose": False,
        "show_progress": False,
    }
    return OffpolicyTrainer(**given | options)


def test_a_run_that_reached_its_goal_stays_over(tmp_path):
    first = trainer(stop_fn=lambda _: True)
    first.run()
    assert (first.epoch, first.stop_fn_flag) == (1, True)
    save_checkpoint(tmp_path / "checkpoint", first)
    resumed = trainer(stop_fn=lambda _: True)
    load_checkpoint(tmp_path / "checkpoint", resumed)
    assert resumed.stop_fn_flag
    assert resumed.is_over


def test_the_last_training_return_is_shown_on(tmp_path):
    first = trainer(max_epoch=1)
    first.run()
    assert first.last_rew > 0
    save_checkpoint(tmp_path / "checkpoint", first)
    resumed = trainer(max_epoch=1)
    load_checkpoint(tmp_path / "checkpoint", resumed)
    assert (resumed.last_rew, resumed.last_len) == (first.last_rew, first.last_len)


def test_the_epoch_that_it_started_at(tmp_path):
    first = trainer(max_epoch=3)
    first.run()
    first.start_epoch = 2  # as after `resume_from_log`
    save_checkpoint(tmp_path / "checkpoint", first)
    resumed = trainer(max_epoch=3)
    load_checkpoint(tmp_path / "checkpoint", resumed)
    assert resumed.start_epoch == 2


def test_random_steps_are_taken_once(tmp_path):
    """At the beginning of a run, and not again where its log says that it has begun."""
    first = trainer(max_epoch=1, start_timesteps=30, test_collector=None)
    first.run()
    save_checkpoint(tmp_path / "checkpoint", first)
    resumed = trainer(max_epoch=2, start_timesteps=30, test_collector=None)
    load_checkpoint(tmp_path / "checkpoint", resumed)
    resumed.run()
    assert resumed.env_step == first.env_step + 60

    again = trainer(max_epoch=2, start_timesteps=30, test_collector=None, resume_from_log=True)
    again.logger.restore_data = lambda: (1, 90, 9)
    again.run()
    assert again.env_step == 90 + 60


def test_nothing_is_saved_where_training_has_reached_the_goal():
    """The test that says so is the last thing that happens: a checkpoint would be of before it."""
    saved = []
    reached = trainer(
        stop_fn=lambda mean_return: mean_return > 5,
        test_in_train=True,
        save_checkpoint_fn=lambda *where: saved.append(where) or "",
    )
    reached.run()
    assert reached.stop_fn_flag
    assert reached.epoch == 1
    assert saved == []


class Trap:
    """Unpickling it is seen."""

    sprung = False

    def __reduce__(self):
        return (spring, ())


def spring():
    Trap.sprung = True
    return Trap()


def offline(buffer):
    return OfflineTrainer(
        policy=learner(), max_epoch=1, batch_size=4, buffer=buffer, step_per_epoch=2, show_progress=False
    )


def one_row(**more):
    buffer, zeros = ReplayBuffer(4, seed=0), np.zeros(4, np.float32)
    row = {"obs": zeros, "act": 0, "rew": 1.0, "terminated": False, "truncated": False, "obs_next": zeros}
    buffer.add(Batch(**row, **more))
    return buffer


def test_pickles_in_a_buffer_run_only_when_asked(tmp_path):
    buffer = one_row(info={"trap": Trap()})
    save_checkpoint(tmp_path / "checkpoint", offline(buffer), allow_pickle=True)
    Trap.sprung = False
    with pytest.raises(ValueError, match="pass allow_pickle=True if you trust its source"):
        load_checkpoint(tmp_path / "checkpoint", offline(one_row()))
    assert not Trap.sprung
    load_checkpoint(tmp_path / "checkpoint", offline(one_row()), allow_pickle=True)
    assert Trap.sprung
    Trap.sprung = False
    pickle.loads(pickle.dumps(Trap()))
    assert Trap.sprung  # the trap works


def distance(achieved, desired):
    return -np.abs(achieved - desired).sum(-1)


def goals(seed=0):
    buffer = HERReplayBuffer(20, distance, horizon=10, future_k=4, seed=seed)
    for i in range(10):
        obs, obs_next = (
            {"observation": np.ones(2), "achieved_goal": np.full(2, j), "desired_goal": np.zeros(2)}
            for j in (float(i), i + 1.0)
        )
        buffer.append(obs=obs, act=0, rew=0.5, terminated=i == 9, truncated=False, obs_next=obs_next)
    return buffer


def test_hindsight_goes_on_with_the_same_rewards(tmp_path):
    save_checkpoint(tmp_path / "checkpoint", offline(goals()))
    resumed = offline(goals(seed=5))
    load_checkpoint(tmp_path / "checkpoint", resumed)
    batch, _ = resumed.buffer.sample(200)
    relabelled = batch.obs.desired_goal.sum(-1) > 0
    assert 0 < relabelled.sum() < 200
    np.testing.assert_array_equal(
        batch.rew[relabelled], distance(batch.obs_next.achieved_goal, batch.obs_next.desired_goal)[relabelled]
    )
    assert batch.rew[relabelled].min() < 0
    assert goals().sample(200)[0].rew.tolist() == batch.rew.tolist()
