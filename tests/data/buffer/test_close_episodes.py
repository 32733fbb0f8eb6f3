import numpy as np
import pytest

from rlfast.data import Batch, CachedReplayBuffer, ReplayBuffer, VectorReplayBuffer


def rows(count, step, agents=()):
    flags = np.zeros(count, bool)
    return Batch(obs=np.full(count, step), act=np.zeros(count), rew=np.ones((count, *agents)), terminated=flags,
                 truncated=flags, obs_next=np.full(count, step + 1))  # fmt: skip


def test_close_episodes_truncates_newest_row():
    buffer = VectorReplayBuffer(20, 2, seed=0)
    buffer.close_episodes()  # nothing runs: nothing happens
    for step in range(3):
        buffer.add(rows(2, step))
    buffer.close_episodes([1])
    buffer.close_episodes([1])
    assert buffer.truncated[10:13].tolist() == [False, False, True]
    assert buffer.obs_next[12] == 3
    assert buffer.unfinished_index().tolist() == [2]
    _, _, _, start = buffer.add(rows(2, 7))
    assert start.tolist() == [0, 13]
    assert buffer.next([2, 12]).tolist() == [3, 12]
    reward_sum, discount, last = buffer.nstep(np.array([11]), 3, 0.5)
    assert (reward_sum[0], discount[0], last[0]) == (1.5, 0.25, 12)  # bootstraps, and does not reach across
    buffer.buffers[0].close_episodes()
    assert buffer.truncated[:4].tolist() == [False, False, False, True]


@pytest.mark.parametrize("agents", [(), (2,)])
def test_close_episodes_resets_kept_statistics(agents):
    buffer = VectorReplayBuffer(20, 2, seed=0)
    buffer.add(rows(2, 0, agents))
    buffer.reset(keep_statistics=True)
    buffer.close_episodes([0])
    last = rows(2, 1, agents)
    last.terminated = np.ones(2, bool)
    _, episode_return, length, _ = buffer.add(last)
    assert length.tolist() == [1, 2]
    np.testing.assert_array_equal(episode_return, np.multiply.outer([1.0, 2.0], np.ones(agents)))


def test_a_cached_episode_moves_to_the_main_buffer():
    buffer = CachedReplayBuffer(ReplayBuffer(10, seed=0), 2, 5, seed=0)
    for step in range(2):
        buffer.add(rows(2, step))
    buffer.close_episodes([1])
    assert [len(part) for part in buffer.buffers] == [2, 2, 0]
    assert buffer.main_buffer[:].truncated.tolist() == [False, True]
    buffer.close_episodes()
    assert [len(part) for part in buffer.buffers] == [4, 0, 0]


def test_unknown_buffers():
    with pytest.raises(IndexError, match="there are 2"):
        VectorReplayBuffer(20, 2, seed=0).close_episodes([2])
    with pytest.raises(IndexError, match="one ring"):
        ReplayBuffer(20, seed=0).close_episodes([1])
