"""Checks of ``rlfast.interop.tianshou`` for ``test_tianshou.py``, which runs them in an interpreter with Tianshou.

``python tianshou_driver.py`` runs every ``check_*`` and writes the errors by name as JSON to standard output.
"""

import pickle
import tempfile
from pathlib import Path

import gymnasium
import numpy as np
import tianshou
import torch
from driving import follow_page, raises, run_checks
from tianshou import data as host
from tianshou.data import Batch
from tianshou.env import DummyVectorEnv
from tianshou.utils.net.common import Net

from rlfast.interop import tianshou as ours

NEW = not tianshou.__version__.startswith("1.0")
NEWEST = tianshou.__version__.startswith("2.")
if NEWEST:
    from tianshou.algorithm.algorithm_base import Algorithm as Returns
else:
    from tianshou.policy.base import BasePolicy as Returns


def steps(count, envs=3, obs=lambda rng, n: rng.random((n, 4), dtype=np.float32), ends=0.15):
    """Vector steps in which any environments take part, whose episodes end in either way."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        ids = np.flatnonzero(rng.random(envs) < 0.8)
        n = len(ids)
        if n:
            end, cut = rng.random(n) < ends, rng.random(n) < 0.5
            yield (
                Batch(
                    obs=obs(rng, n),
                    act=rng.integers(0, 2, n),
                    rew=rng.random(n),
                    terminated=end & ~cut,
                    truncated=end & cut,
                    obs_next=obs(rng, n),
                    info=Batch(step=rng.integers(0, 9, n)),
                    policy=Batch(hidden=rng.random((n, 2))),
                ),
                ids,
            )


def same(one, other):
    """Equal batches of Tianshou's own class, dtypes and nested fields included."""
    assert type(one) is type(other) is Batch
    assert set(one.__dict__) == set(other.__dict__)
    for key, value in one.__dict__.items():
        if isinstance(value, Batch):
            same(value, other[key])
        else:
            np.testing.assert_array_equal(value, other[key], err_msg=key)
            assert np.asarray(value).dtype == np.asarray(other[key]).dtype, key


def same_but_for_ends(mine, yours):
    """Equal but for what ends of episodes lead to: under ``ignore_obs_next`` the host gives the row's own ``obs``."""
    ends = yours.done.astype(bool)
    np.testing.assert_array_equal(yours.obs_next[ends], yours.obs[ends])
    assert ends.any()
    assert all((mine.obs_next[k] != yours.obs_next[k]).any() for k in np.flatnonzero(ends))
    yours.obs_next[ends] = mine.obs_next[ends]
    same(mine, yours)


def filled(*buffers, **kwargs):
    for batch, ids in steps(60, **kwargs):
        answers = [buffer.add(batch, buffer_ids=ids) for buffer in buffers]
        for answer in answers[1:]:
            for mine, yours in zip(answers[0], answer, strict=True):
                np.testing.assert_array_equal(mine, yours)
    return buffers


def check_every_class_is_tianshous():
    single = [ours.ReplayBuffer(4), ours.PrioritizedReplayBuffer(4, alpha=0.6, beta=0.4)]
    single.append(ours.HERReplayBuffer(4, compute_reward_fn=lambda a, b: a[:, 0], horizon=3))
    several = [
        ours.ReplayBufferManager([ours.ReplayBuffer(4), ours.ReplayBuffer(3)]),
        ours.PrioritizedReplayBufferManager([ours.PrioritizedReplayBuffer(4, alpha=0.6, beta=0.4)]),
        ours.HERReplayBufferManager([ours.HERReplayBuffer(4, compute_reward_fn=lambda a, b: a[:, 0], horizon=3)]),
        ours.VectorReplayBuffer(9, 3),
        ours.PrioritizedVectorReplayBuffer(9, 3, alpha=0.6, beta=0.4),
        ours.HERVectorReplayBuffer(9, 3, compute_reward_fn=lambda a, b: a[:, 0], horizon=3),
        ours.CachedReplayBuffer(ours.ReplayBuffer(9), cached_buffer_num=2, max_episode_length=4),
    ]
    assert {type(buffer).__name__ for buffer in single + several} == set(ours.__all__)
    for buffer in single + several:
        assert isinstance(buffer, getattr(host, type(buffer).__name__))
        assert buffer.options["stack_num"] == 1
        assert hasattr(buffer, "update_weight") == ("Prioritized" in type(buffer).__name__)
    for manager in several:
        assert isinstance(manager, host.ReplayBufferManager)
        assert all(type(part).__module__ == ours.__name__ for part in manager.buffers)
        assert all(isinstance(part, host.ReplayBuffer) for part in manager.buffers)
    assert isinstance(several[5].buffers[0], host.HERReplayBuffer)
    assert isinstance(several[4].buffers[0], host.PrioritizedReplayBuffer)


def check_rows_and_neighbours_are_the_hosts():
    for options in ({}, {"ignore_obs_next": True}, {"stack_num": 3, "ignore_obs_next": True}):
        mine, yours = filled(ours.VectorReplayBuffer(45, 3, **options), host.VectorReplayBuffer(45, 3, **options))
        rows = yours.sample_indices(0)
        np.testing.assert_array_equal(mine.sample_indices(0), rows)
        compare = same_but_for_ends if "ignore_obs_next" in options else same
        compare(mine[rows], yours[rows])
        compare(mine.buffers[1][:], yours.buffers[1][:])
        for name in ("prev", "next"):
            np.testing.assert_array_equal(getattr(mine, name)(rows), getattr(yours, name)(rows))
        np.testing.assert_array_equal(mine.unfinished_index(), yours.unfinished_index())
        np.testing.assert_array_equal(mine.last_index, yours.last_index)
        for name in ("rew", "done", "terminated", "act"):
            np.testing.assert_array_equal(getattr(mine, name)[rows], getattr(yours, name)[rows])
        assert isinstance(mine.info, Batch)
        np.testing.assert_array_equal(mine.info.step[rows], yours.info.step[rows])
        same(mine.get(rows, "info"), yours.get(rows, "info"))


def check_frames_are_the_hosts():
    options = {"stack_num": 4, "ignore_obs_next": True, "save_only_last_obs": True}
    frames = {"obs": lambda rng, n: rng.integers(0, 256, (n, 4, 6, 6), dtype=np.uint8)}
    mine, yours = filled(ours.VectorReplayBuffer(45, 3, **options), host.VectorReplayBuffer(45, 3, **options), **frames)
    rows = yours.sample_indices(0)
    same_but_for_ends(mine[rows], yours[rows])


def check_dict_observations_and_objects():
    def obs(rng, n):
        names = np.array([["a", "b"][i] for i in rng.integers(0, 2, n)], object)
        return Batch(pos=rng.random((n, 2)), name=names, inner=Batch(flag=rng.random(n) < 0.5))

    mine, yours = filled(ours.VectorReplayBuffer(45, 3), host.VectorReplayBuffer(45, 3), obs=obs)
    rows = yours.sample_indices(0)
    same(mine[rows], yours[rows])
    batch, drawn = mine.sample(8)
    same(batch, yours[drawn])


def check_cached():
    mine = ours.CachedReplayBuffer(ours.ReplayBuffer(40), cached_buffer_num=3, max_episode_length=30)
    yours = host.CachedReplayBuffer(host.ReplayBuffer(40), cached_buffer_num=3, max_episode_length=30)
    filled(mine, yours, ends=0.3)
    rows = yours.sample_indices(0)
    assert len(mine) == len(yours) == len(rows)
    same(mine[rows], yours[rows])


def check_prioritized():
    options = {"alpha": 0.6, "beta": 0.4}
    mine, yours = filled(
        ours.PrioritizedVectorReplayBuffer(45, 3, **options), host.PrioritizedVectorReplayBuffer(45, 3, **options)
    )
    rows = yours.sample_indices(0)
    errors = torch.from_numpy(np.random.default_rng(0).normal(size=len(rows)))
    for buffer in (mine, yours):
        buffer.update_weight(rows, errors)
    np.testing.assert_allclose(mine.weight[rows], yours.weight[rows])
    np.testing.assert_allclose(mine[rows].weight, yours[rows].weight)
    batch, drawn = mine.sample(64)
    assert type(batch) is Batch
    assert batch.weight.shape == (64,)
    mine.set_beta(1.0)
    np.testing.assert_allclose(mine.get_weight(drawn) * mine.weight[drawn], mine.weight[rows].min())


def check_hindsight():
    def obs(step, n, end):
        return Batch(observation=np.full((n, 1), step), achieved_goal=np.full((n, 1), step), desired_goal=end)

    def reward(achieved, desired):
        return -(achieved != desired).any(-1).astype(float)

    buffer = ours.HERVectorReplayBuffer(40, 2, compute_reward_fn=reward, horizon=20, future_k=8)
    goal = np.full((2, 1), 99)
    for step in range(20):
        flags = np.zeros(2, bool)
        batch = Batch(obs=obs(step, 2, goal), act=np.zeros(2), rew=-np.ones(2), terminated=flags)
        batch.truncated, batch.obs_next = flags | (step == 19), obs(step + 1, 2, goal)
        buffer.add(batch, buffer_ids=[0, 1])
    sampled, _ = buffer.sample(256)
    goals, achieved = sampled.obs.desired_goal[:, 0], sampled.obs_next.achieved_goal[:, 0]
    relabelled = goals != 99
    assert 0.75 < relabelled.mean() < 0.97
    assert (goals[relabelled] >= achieved[relabelled]).all()
    np.testing.assert_array_equal(sampled.rew, np.where(goals == achieved, 0.0, -1.0))
    assert (buffer.obs.desired_goal == 99).all()
    buffer._restore_cache()


def check_returns():
    mine, yours = filled(ours.VectorReplayBuffer(45, 3), host.VectorReplayBuffer(45, 3))
    _, rows = yours.sample(0)
    target = torch.rand(len(rows), 1)
    found = [
        Returns.compute_nstep_return(buffer[rows], buffer, rows, lambda *_: target, 0.9, 3).returns
        for buffer in (mine, yours)
    ]
    np.testing.assert_array_equal(*found)
    values = np.random.default_rng(1).random(len(rows))
    found = [
        Returns.compute_episodic_return(buffer[rows], buffer, rows, values, values[::-1].copy(), 0.9, 0.95)
        for buffer in (mine, yours)
    ]
    np.testing.assert_array_equal(found[0], found[1])


def check_pickle_files_and_update():
    mine, yours = filled(ours.VectorReplayBuffer(45, 3), host.VectorReplayBuffer(45, 3))
    rows = yours.sample_indices(0)
    again = pickle.loads(pickle.dumps(mine))
    assert type(again) is ours.VectorReplayBuffer
    assert type(again.buffers[0]) is ours.ReplayBuffer
    same(again[rows], yours[rows])
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "buffer.hdf5"))
        mine.save_hdf5(path)
        again = ours.VectorReplayBuffer.load_hdf5(path)
        assert type(again.buffers[0]) is ours.ReplayBuffer
        same(again[rows], yours[rows])
        mine.save(path)
        same(ours.VectorReplayBuffer.load(path)[rows], yours[rows])
    copies = [ours.ReplayBuffer(100), ours.ReplayBuffer(100), host.ReplayBuffer(100)]
    for copy, source in zip(copies, (yours, mine, yours), strict=True):
        np.testing.assert_array_equal(copy.update(source), np.arange(45))
    same(copies[0][:], copies[1][:])
    one, other = (copy[:] for copy in copies[::2])
    for name in ("truncated", "done"):  # ours truncate the running episodes of all environments but the last
        assert one.pop(name).sum() > other.pop(name).sum()
    same(one, other)


def check_columns_through_meta():
    mine, yours = filled(ours.VectorReplayBuffer(45, 3), host.VectorReplayBuffer(45, 3))
    rows = yours.sample_indices(0)
    extra = np.random.default_rng(0).random(45)
    for buffer in (mine, yours):  # as calibrated CQL does
        buffer._meta = Batch(**buffer._meta.__dict__, calibration_returns=extra)
    same(mine[rows], yours[rows])
    assert isinstance(mine._meta, Batch)
    same(mine._meta[rows[:3]], yours._meta[rows[:3]])
    for buffer in (mine, yours):  # as multi-agent policies do
        kept, buffer._meta.rew = buffer.rew, Batch()
        assert isinstance(buffer.rew, Batch)
        buffer._meta.rew = kept * 2
        np.testing.assert_array_equal(buffer.rew, kept * 2)
        buffer._meta.rew = kept
    np.testing.assert_array_equal(mine.rew[rows], yours.rew[rows])


def check_nulls():
    if not NEW:
        return
    (buffer,) = filled(ours.VectorReplayBuffer(45, 3))
    assert not buffer.hasnull()
    step = next(steps(1, envs=1))[0]
    step.obs_next[0, 2] = np.nan
    buffer.buffers[1].add(step, buffer_ids=[0])
    assert buffer.hasnull()
    assert buffer.hasnull()
    assert buffer.isnull().obs_next.sum() == 1
    buffer.reset()
    filled(buffer)
    assert not buffer.hasnull()
    index = buffer.sample_indices(0)[:5]
    buffer.set_array_at_key(np.arange(5.0), "extra", index, default_value=0.0)
    assert not buffer.hasnull()
    np.testing.assert_array_equal(buffer.extra[index], np.arange(5))
    buffer.set_array_at_key(np.array([7.0]), "extra", index[:1])
    assert buffer[index].extra.tolist() == [7, 1, 2, 3, 4]
    buffer.set_array_at_key(np.arange(2.0), "late", index[:2])
    assert buffer.hasnull()
    raises(TypeError, "", lambda: buffer.set_array_at_key(np.arange(2), "whole", index[:2]))  # integers cannot be NaN


def dqn(buffer):
    """Trains for two short epochs with Tianshou's own collectors and trainer; the learner's steps and env steps."""
    torch.manual_seed(0)
    np.random.seed(0)
    train_envs, test_envs = (DummyVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 3) for _ in range(2))
    space = gymnasium.spaces.Discrete(2)
    net = Net(state_shape=4, action_shape=2, hidden_sizes=[32])
    if NEWEST:
        from tianshou.algorithm.modelfree.dqn import DQN, DiscreteQLearningPolicy
        from tianshou.algorithm.optim import AdamOptimizerFactory
        from tianshou.trainer import OffPolicyTrainerParams

        policy = DiscreteQLearningPolicy(model=net, action_space=space, eps_training=0.1)
        learner = DQN(
            policy=policy,
            optim=AdamOptimizerFactory(lr=1e-3),
            gamma=0.9,
            n_step_return_horizon=3,
            target_update_freq=10,
        )
    else:
        from tianshou.policy import DQNPolicy

        optim = torch.optim.Adam(net.parameters(), lr=1e-3)
        learner = DQNPolicy(
            model=net, optim=optim, action_space=space, discount_factor=0.9, estimation_step=3, target_update_freq=10
        )
        learner.set_eps(0.1)
    train = host.Collector(learner, train_envs, buffer, exploration_noise=True)
    test = host.Collector(learner, test_envs)
    for collector in (train, test):
        if NEW:
            collector.reset()
    train.collect(n_step=90)
    if NEWEST:
        params = OffPolicyTrainerParams(
            training_collector=train,
            test_collector=test,
            max_epochs=2,
            epoch_num_steps=120,
            collection_step_num_env_steps=12,
            test_step_num_episodes=3,
            batch_size=16,
            update_step_num_gradient_steps_per_sample=0.25,
            verbose=False,
            show_progress=False,
        )
        learner.run_training(params)
    else:
        from tianshou.trainer import OffpolicyTrainer

        options = {"max_epoch": 2, "step_per_epoch": 120, "step_per_collect": 12, "episode_per_test": 3}
        OffpolicyTrainer(
            policy=learner,
            train_collector=train,
            test_collector=test,
            batch_size=16,
            update_per_step=0.25,
            verbose=False,
            show_progress=False,
            **options,
        ).run()
    assert len(buffer) >= 300
    return net


def check_collector_and_trainer():
    before = Net(state_shape=4, action_shape=2, hidden_sizes=[32]).state_dict()
    for buffer in (
        ours.VectorReplayBuffer(600, 3),
        ours.PrioritizedVectorReplayBuffer(600, 3, alpha=0.6, beta=0.4),
        ours.CachedReplayBuffer(ours.ReplayBuffer(600), cached_buffer_num=3, max_episode_length=500),
    ):
        net = dqn(buffer)
        assert all(torch.isfinite(value).all() for value in net.state_dict().values())
        assert any(not torch.equal(value, before[name]) for name, value in net.state_dict().items())
        if hasattr(buffer, "update_weight"):
            assert len(np.unique(buffer.weight[buffer.sample_indices(0)])) > 10


def check_random_seed():
    options = {"random_seed": 7} if NEW else {"seed": 7}
    one, two = filled(ours.VectorReplayBuffer(45, 3, **options), ours.VectorReplayBuffer(45, 3, seed=7))
    np.testing.assert_array_equal(one.sample(32)[1], two.sample(32)[1])


def check_migration_page():
    follow_page("tianshou", "Tianshou 2.0" if NEWEST else "Tianshou 1.0 and 1.2")


if __name__ == "__main__":
    run_checks(globals(), tianshou.__version__)
