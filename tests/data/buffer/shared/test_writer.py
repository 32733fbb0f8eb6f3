"""The writer: what collectors need of a vector buffer."""

import gymnasium as gym
import numpy as np
import pytest

from data.buffer.shared.rows import row, rows
from rlfast.data import Batch, Collector, SharedReplayBuffer
from rlfast.env import DummyVectorEnv
from rlfast.policy import RandomPolicy


def made(**options):
    return SharedReplayBuffer(12, 3, row(0), seed=0, **options)


def test_rows_are_converted_without_loss():
    shared = made()
    writer = shared.writer([2, 0])
    batch = rows([1, 2], [5, 6])
    batch.act = batch.act.astype(np.int8)
    batch.obs.b = batch.obs.b.astype(np.float64)
    assert writer.add(batch)[0].tolist() == [8, 0]
    batch.rew = [3, 4]
    batch.terminated = [True, False]
    index, returns, lengths, start = writer.add(batch)
    assert (index.tolist(), returns.tolist(), lengths.tolist(), start.tolist()) == ([9, 1], [4, 0], [2, 0], [8, 0])
    assert shared[[9, 1]].act.dtype == np.int64
    assert shared[[9, 1]].rew.tolist() == [3.0, 4.0]
    before = shared.sample(0)[0]
    batch.act = batch.act + 0.5
    with pytest.raises(TypeError, match="act"):
        writer.add(batch)
    batch = rows([1, 2], [5, 6])
    batch.obs.a = batch.obs.a[:, :3]
    with pytest.raises(ValueError, match=r"obs\.a"):
        writer.add(batch)
    batch = rows([1, 2], [5, 6])
    batch.extra = np.zeros(2)
    with pytest.raises(ValueError, match="extra: not in the example"):
        writer.add(batch)
    batch = rows([1, 2], [5, 6])
    del batch.obs_next
    with pytest.raises(KeyError, match="obs_next"):
        writer.add(batch)
    assert (shared.sample(0)[0].rew == before.rew).all()


def test_buffer_ids_are_those_of_the_writer():
    shared = made()
    writer = shared.writer([2, 0])
    assert writer.add(rows([1], [0]), [1])[0].tolist() == [0]
    assert writer.add(rows([1], [0]), np.array([-2]))[0].tolist() == [8]
    assert (writer.buffer_num, writer.maxsize, writer.rings.tolist()) == (2, 8, [2, 0])
    for bad, error in (([2], IndexError), ([-3], IndexError), ([0.5], TypeError)):
        with pytest.raises(error):
            writer.add(rows([1], [0]), bad)
        with pytest.raises(error):
            writer.close_episodes(bad)
    for bad, error in (([3], IndexError), ([-1], IndexError), ("ab", TypeError), (0.5, TypeError)):
        with pytest.raises(error):
            shared.writer(bad)


def test_a_ring_has_one_writer_until_it_is_closed():
    shared = made()
    with shared.writer([0, 1]) as first:
        with pytest.raises(ValueError, match="ring 1 has a writer already"):
            shared.writer([2, 1])
        shared.writer(2).close()  # the failed attempt keeps nothing
    with pytest.raises(IndexError, match="not one of this writer"):
        first.add(rows([1, 1], [0, 1]))
    shared.writer()


def test_a_new_writer_truncates_the_episode_that_was_running():
    shared = made()
    with shared.writer([0]) as first:
        first.add(rows([1], [0]))
        assert not shared[0].truncated
    second = shared.writer([0])
    assert shared[0].truncated
    assert shared[0].done
    assert second.add(rows([2], [0], terminated=True))[2].tolist() == [1]


def test_infos_that_the_example_lacks_are_left_out():
    example = row(0)
    del example.info
    shared = SharedReplayBuffer(4, 1, example)
    batch = rows([3], [0])
    batch.info = Batch(name=np.array(["x"], object))
    batch.policy = Batch(logits=np.zeros((1, 2)))
    shared.writer().add(batch)
    assert shared[0].info.is_empty()
    assert shared[0].policy.is_empty()


@pytest.mark.parametrize("value", ["text", None, object()])
def test_objects_are_refused(value):
    example = row(0)
    example.info = {"name": value}
    with pytest.raises(ValueError, match=r"info.name.*no Python objects"):
        SharedReplayBuffer(4, 1, example)


def test_other_examples_are_refused():
    without = row(0)
    del without.obs_next
    with pytest.raises(KeyError, match="obs_next"):
        SharedReplayBuffer(4, 1, without)
    with pytest.raises(TypeError, match="one row"):
        SharedReplayBuffer(4, 1, [row(0)])
    recurrent = row(0)
    recurrent.policy = {"hidden_state": np.zeros(3)}
    with pytest.raises(ValueError, match="recurrent"):
        SharedReplayBuffer(4, 1, recurrent)


def test_a_collector_writes_what_it_would_to_a_vector_buffer():
    from rlfast.data import VectorReplayBuffer

    def collected(buffer):
        np.random.seed(0)
        envs = DummyVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(2)])
        envs.seed(0)
        policy = RandomPolicy(action_space=envs.action_space[0])
        collector = Collector(policy, envs, buffer)
        collector.reset()
        stats = collector.collect(n_step=100)
        collector.reset_env()
        collector.collect(n_episode=3)
        return stats

    env = gym.make("CartPole-v1")
    obs = env.reset()[0]
    example = {"obs": obs, "act": 0, "rew": 0.0, "terminated": False, "truncated": False, "obs_next": obs}
    shared, vector = SharedReplayBuffer(400, 2, example), VectorReplayBuffer(400, 2)
    mine, theirs = collected(shared.writer()), collected(vector)
    assert mine.n_collected_steps == theirs.n_collected_steps
    assert mine.returns.tolist() == theirs.returns.tolist()
    (here, _), (there, _) = shared.sample(0), vector.sample(0)
    for name in ("obs", "obs_next", "act", "rew", "terminated", "truncated", "done"):
        np.testing.assert_array_equal(here[name], there[name], err_msg=name)
