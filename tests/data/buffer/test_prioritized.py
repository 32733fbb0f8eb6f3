import numpy as np
import pytest

from data.buffer.rows import fill, row, rows
from oracle.chi_square import is_plausible
from rlfast.data import Batch, PrioritizedReplayBuffer, PrioritizedVectorReplayBuffer, ReplayBuffer, VectorReplayBuffer
from rlfast.data.buffer import Prioritized

EPS = np.finfo(np.float32).eps


def make(size=5, alpha=0.5, beta=0.5, **options):
    return PrioritizedReplayBuffer(size, alpha, beta, seed=0, **options)


def test_weights_are_what_the_paper_says():
    """In Tianshou, the leaves p^alpha were divided by the raw smallest priority."""
    buffer = fill(make(beta=0.5), "...")
    priorities = np.array([1.0, 4.0, 16.0])
    buffer.update_weight(np.arange(3), priorities - EPS)
    probability = priorities**0.5 / (priorities**0.5).sum()
    expected = (probability / probability.min()) ** -0.5
    assert np.allclose(buffer.get_weight(np.arange(3)), expected)
    assert buffer.get_weight(2) == pytest.approx(expected[2])
    assert np.allclose(buffer[[1, 2]].weight, expected[1:] / expected[1])
    buffer._weight_norm = False
    assert np.allclose(buffer[[1, 2]].weight, expected[1:])
    buffer.update_weight(np.array([0]), np.array([4.0 - EPS]))  # the smallest is forgotten when it is gone
    assert np.allclose(buffer.get_weight(np.arange(3)), [1, 1, 2**-0.5])


def test_new_rows_have_the_largest_priority_so_far():
    buffer = fill(make(), "..")
    buffer.update_weight(np.array([0]), np.array([-9.0]))
    fill(buffer, ".", start=2)
    assert np.allclose(buffer.weight[np.arange(3)], np.array([9.0, 1.0, 9.0]) ** 0.5)
    buffer.init_weight(np.array([1]))
    assert np.allclose(buffer.weight[1], 3.0)
    buffer.update_weight(np.array([0, 1]), 4.0)  # one for all
    assert np.allclose(buffer.weight[np.arange(3)], [2.0, 2.0, 3.0])


def test_set_beta_counts_in_a_vector_buffer():
    """In Tianshou, set_beta had no effect there, and weight_norm=False was lost."""
    buffer = PrioritizedVectorReplayBuffer(6, 2, alpha=1.0, beta=0.5, weight_norm=False, seed=0)
    buffer.add(rows(0, 2))
    buffer.update_weight(np.array([0, 3]), np.array([1.0, 4.0]))
    assert buffer._weight_norm is False
    assert buffer.options["weight_norm"] is False
    assert np.allclose(buffer[[0, 3]].weight, [1, 0.5], atol=1e-5)
    buffer.set_beta(1.0)
    assert np.allclose(buffer[[0, 3]].weight, [1, 0.25], atol=1e-5)
    assert buffer.buffers[0]._beta == 1.0
    with pytest.raises(ValueError, match="beta"):
        buffer.set_beta(-1.0)


def test_reset_empties_the_tree():
    """In Tianshou, stale rows were drawn after a reset."""
    buffer = fill(make(10), "." * 10)
    buffer.update_weight(np.arange(10), np.full(10, 5.0))
    buffer.reset()
    assert buffer.weight.reduce() == 0
    with pytest.raises(ValueError, match="empty"):
        buffer.sample(3)
    fill(buffer, "..")
    assert set(buffer.sample_indices(200).tolist()) == {0, 1}


def test_only_rows_with_a_whole_stack_are_drawn_when_asked():
    """In Tianshou, prioritized sampling ignored sample_avail."""
    buffer = fill(make(8, stack_num=3, sample_avail=True), "...T....")
    assert set(buffer.sample_indices(300).tolist()) == {2, 3, 6, 7}
    assert buffer.sample_indices(0).tolist() == [2, 3, 6, 7]


def test_moved_rows_are_drawn():
    buffer = make()
    buffer.update(fill(ReplayBuffer(3), "..."))
    assert buffer.weight.reduce() == 3
    assert set(buffer.sample_indices(100).tolist()) == {0, 1, 2}


def test_a_uniform_buffer_has_no_priorities():
    for buffer in (ReplayBuffer(3), VectorReplayBuffer(4, 2)):
        for name in ("update_weight", "weight", "set_beta", "get_weight", "init_weight"):
            assert not hasattr(buffer, name)


def test_priorities_by_composition():
    buffer = VectorReplayBuffer(6, 2, sampler=Prioritized(0.6, 0.4), seed=0)
    buffer.add(rows(0, 2))
    batch, indices = buffer.sample(4)
    buffer.update_weight(indices, np.arange(4.0))
    assert batch.weight.tolist() == [1.0] * 4
    assert buffer.options["sampler"] == Prioritized(0.6, 0.4)


def test_a_child_draws_from_its_own_rows_by_priority():
    buffer = PrioritizedVectorReplayBuffer(8, 2, alpha=1.0, beta=0.4, seed=0)
    for i in range(3):
        buffer.add(rows(i, 2))
    child = buffer.buffers[1]
    child.update_weight(np.arange(3), np.array([0.0, 1.0, 0.0]))
    batch, indices = child.sample(20)
    assert (indices == 1).mean() > 0.9
    assert set(batch.obs.tolist()) <= {100.0, 101.0, 102.0}
    assert np.allclose(buffer.weight[np.array([5])], 1.0)
    child.add(row(5))
    assert len(buffer) == 7


def test_a_storage_that_is_installed_leaves_priorities_as_they_were():
    buffer = fill(make(), "....")
    buffer.update_weight(np.arange(4), np.array([1.0, 4.0, 9.0, 16.0]))
    leaves = buffer.weight[np.arange(5)]
    storage = buffer[np.array([3, 2, 1, 0, 0])]
    buffer.set_batch(Batch({key: value for key, value in storage.items() if key != "weight"}))
    assert buffer[:].obs.tolist() == [3, 2, 1, 0]
    assert np.array_equal(buffer.weight[np.arange(5)], leaves)


def test_one_of_many_buffers_is_drawn_from_by_its_own_priorities():
    buffer = PrioritizedVectorReplayBuffer(90, 3, alpha=1.0, beta=0.4, seed=7)
    for i in range(45):  # each ring of 30 rows has gone around
        buffer.add(rows(i, 3))
    priorities = np.arange(1.0, 31)
    buffer.update_weight(np.arange(90), np.concatenate([np.full(30, 1e18), priorities, np.full(30, 1e18)]))
    drawn = buffer.buffers[1].sample_indices(100_000)
    assert is_plausible(np.bincount(drawn, minlength=30), priorities)
    buffer.update_weight(np.arange(30, 60), np.where(np.arange(30) == 17, 1e9, 0.0))
    assert set(buffer.buffers[1].sample_indices(1000).tolist()) == {17}
