"""C: prioritized replay: priorities and importance weights."""

import numpy as np
import pytest
import torch

from oracle.chi_square import is_plausible
from pitfalls.rows import fill, transition, vector_step
from rlfast.data import PrioritizedReplayBuffer, PrioritizedVectorReplayBuffer, ReplayBuffer, VectorReplayBuffer
from rlfast.policy import BasePolicy


def prioritized(priorities, *, alpha=1.0, beta=1.0, weight_norm=True):
    """A full buffer whose rows have these priorities."""
    buffer = PrioritizedReplayBuffer(len(priorities), alpha, beta, weight_norm=weight_norm)
    fill(buffer, "." * len(priorities))
    buffer.update_weight(np.arange(len(priorities)), np.asarray(priorities, float))
    return buffer


# -- C5, C6, C7: updates ---------------------------------------------------------------------------------------------


@pytest.mark.pitfall("C5")
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_bad_priority_is_refused_with_its_place_and_changes_nothing(bad):
    buffer = prioritized([1.0, 2.0, 3.0, 4.0])
    before = np.array(buffer.weight[np.arange(4)])
    with pytest.raises(ValueError, match="2"):
        buffer.update_weight(np.array([3, 1, 0]), np.array([9.0, 9.0, bad]))
    with pytest.raises(ValueError, match="priorit"):
        buffer.update_weight(np.arange(3), np.ones(2))
    assert np.array(buffer.weight[np.arange(4)]).tolist() == before.tolist()
    assert set(buffer.sample_indices(200).tolist()) == {0, 1, 2, 3}


@pytest.mark.pitfall("C5")
@pytest.mark.parametrize(("alpha", "bad"), [(2.0, [1e200, 1.0]), (1.0, [1.7e308, 1.7e308])])
def test_priorities_too_large_to_be_added_up_are_refused(alpha, bad):
    buffer = prioritized([1.0] * 4, alpha=alpha)
    with pytest.raises(ValueError, match=r"\d"):
        buffer.update_weight(np.array([0, 1]), np.array(bad))
    np.testing.assert_allclose(np.array(buffer.weight[np.arange(4)]), 1.0, rtol=1e-6)
    assert set(buffer.sample_indices(200).tolist()) == {0, 1, 2, 3}


@pytest.mark.pitfall("C6")
@pytest.mark.parametrize("vector", [False, True])
def test_an_update_for_an_overwritten_slot_is_refused(vector):
    make = (
        (lambda: PrioritizedVectorReplayBuffer(4, 1, alpha=1.0, beta=1.0))
        if vector
        else (lambda: prioritized([1.0] * 4))
    )
    buffer = make()
    if vector:
        for number in range(4):
            buffer.add(vector_step([number], "."), buffer_ids=[0])
    _, index = buffer.sample(400)
    assert set(index.tolist()) == {0, 1, 2, 3}
    newcomer = transition(9)
    _ = buffer.add(vector_step([9], "."), buffer_ids=[0]) if vector else buffer.add(newcomer)
    initial = float(buffer.weight[0])
    buffer.update_weight(index, np.full(400, 100.0))
    assert float(buffer.weight[0]) == initial
    np.testing.assert_allclose(np.array(buffer.weight[np.arange(1, 4)]), 100.0, rtol=1e-6)
    assert buffer.stale_updates == (index == 0).sum()


@pytest.mark.pitfall("C6")
def test_an_update_after_a_whole_turn_of_the_ring_is_refused():
    buffer = prioritized([1.0] * 4)
    _, index = buffer.sample(50)
    fill(buffer, "....")
    buffer.update_weight(index, np.full(50, 100.0))
    assert buffer.stale_updates == 50
    assert max(np.array(buffer.weight[np.arange(4)])) < 2


@pytest.mark.pitfall("C6")
def test_an_update_after_a_reset_is_refused():
    buffer = prioritized([1.0] * 4)
    _, index = buffer.sample(50)
    buffer.reset()
    fill(buffer, "....")
    buffer.update_weight(index, np.full(50, 100.0))
    assert buffer.stale_updates == 50


@pytest.mark.pitfall("C6")
def test_a_part_of_the_sampled_indices_still_knows_what_was_overwritten():
    buffer = prioritized([1.0] * 4)
    _, index = buffer.sample(64)
    fill(buffer, "....")
    for part in (index[:32], index[32:], index[::2]):
        buffer.update_weight(part, np.full(32, 100.0))
    assert buffer.stale_updates == 96


@pytest.mark.pitfall("C6")
def test_one_buffer_of_a_manager_refuses_stale_updates_too():
    buffer = PrioritizedVectorReplayBuffer(8, 2, alpha=1.0, beta=1.0)
    for number in range(4):
        buffer.add(vector_step([number, number], ".."), buffer_ids=[0, 1])
    child = buffer.buffers[1]
    _, index = child.sample(200)
    assert set(index.tolist()) == {0, 1, 2, 3}
    buffer.add(vector_step([9], "."), buffer_ids=[1])
    child.update_weight(index, np.full(200, 100.0))
    np.testing.assert_allclose(np.array(buffer.weight[np.arange(8)]), [1] * 5 + [100] * 3, rtol=1e-6)
    assert buffer.stale_updates == (index == 0).sum()


@pytest.mark.pitfall("C6")
def test_sampled_indices_are_plain_integers_to_everyone_else():
    _, index = prioritized([1.0] * 4).sample(8)
    assert isinstance(index, np.ndarray)
    assert index.dtype == np.int64
    assert np.arange(4)[index].tolist() == index.tolist()
    assert (index + 1).tolist() == [slot + 1 for slot in index.tolist()]


@pytest.mark.pitfall("C6")
def test_bare_integers_are_taken_as_they_are():
    buffer = prioritized([1.0] * 4)
    buffer.update_weight(np.array([2]), np.array([100.0]))
    np.testing.assert_allclose(float(buffer.weight[2]), 100.0, rtol=1e-6)
    assert buffer.stale_updates == 0


@pytest.mark.pitfall("C7")
def test_the_last_of_a_duplicated_update_wins():
    buffer = prioritized([1.0] * 8)
    buffer.update_weight(np.array([5, 5]), np.array([1.0, 9.0]))
    np.testing.assert_allclose(float(buffer.weight[5]), 9.0, rtol=1e-6)
    np.testing.assert_allclose(buffer.weight.reduce(), 16.0, rtol=1e-6)


# -- C8, C9, C10: priorities and weights -----------------------------------------------------------------------------


@pytest.mark.pitfall("C8")
def test_a_new_row_has_the_exact_running_maximum():
    buffer = prioritized([1.0, 2.0, 3.14159, 0.5])
    highest = float(buffer.weight[2])
    fill(buffer, "...")  # overwrites slots 0, 1 and then the maximum itself
    assert np.array(buffer.weight[np.arange(3)]).tolist() == [highest] * 3
    assert 3.14159 < highest < 3.14160


@pytest.mark.pitfall("C8")
def test_the_size_of_an_error_counts_and_not_its_sign():
    buffer = prioritized([1.0, 1.0])
    buffer.update_weight(np.array([0, 1]), np.array([-5.0, 5.0]))
    assert float(buffer.weight[0]) == float(buffer.weight[1]) == pytest.approx(5.0)


@pytest.mark.pitfall("C9")
def test_alpha_is_applied_once():
    buffer = prioritized([4.0, 9.0], alpha=0.5)
    np.testing.assert_allclose(np.array(buffer.weight[np.arange(2)]), [2.0, 3.0], rtol=1e-6)
    fill(buffer, ".")
    np.testing.assert_allclose(float(buffer.weight[0]), 3.0, rtol=1e-6)


@pytest.mark.pitfall("C10")
def test_weights_without_norm_are_relative_to_the_smallest_priority_of_the_buffer():
    buffer = prioritized([1.0, 2.0, 3.0, 4.0], weight_norm=False)
    np.testing.assert_allclose(buffer[[0, 1, 2, 3]].weight, [1, 1 / 2, 1 / 3, 1 / 4], rtol=1e-5)
    np.testing.assert_allclose(buffer[[1, 2]].weight, [1 / 2, 1 / 3], rtol=1e-5)


@pytest.mark.pitfall("C10")
def test_weights_with_norm_are_relative_to_the_largest_weight_of_the_batch():
    buffer = prioritized([1.0, 2.0, 3.0, 4.0], weight_norm=True)
    np.testing.assert_allclose(buffer[[0, 1, 2, 3]].weight, [1, 1 / 2, 1 / 3, 1 / 4], rtol=1e-5)
    np.testing.assert_allclose(buffer[[1, 2]].weight, [1, 2 / 3], rtol=1e-5)


@pytest.mark.pitfall("C10")
@pytest.mark.parametrize("weight_norm", [False, True])
def test_the_exponent_is_applied_to_both_sides_of_the_ratio(weight_norm):
    """Tianshou divides ``p^alpha`` by a plain smallest ``p``, which never rises again either."""
    buffer = prioritized([0.01, 4.0, 16.0], alpha=0.5, beta=0.5, weight_norm=weight_norm)
    buffer.update_weight(np.array([0]), np.array([1.0]))
    np.testing.assert_allclose(buffer[[0, 1, 2]].weight, [1, 2**-0.5, 4**-0.5], rtol=1e-5)


# -- C11: what is drawn ----------------------------------------------------------------------------------------------

SHAPES = {
    "equal": np.ones(50),
    "rising": np.arange(1.0, 51.0),
    "one high": np.where(np.arange(50) == 7, 1000.0, 1.0),
    "many orders": 10.0 ** (-np.arange(50.0) / 20),
    "newest high": np.where(np.arange(50) == 49, 25.0, 1.0),
}


@pytest.mark.pitfall("C11")
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_drawn_in_proportion_to_their_priorities(shape):
    priorities = SHAPES[shape]
    buffer = PrioritizedReplayBuffer(64, 0.7, 0.4, seed=11)  # not full: the last slots must not be drawn
    fill(buffer, "." * 50)
    buffer.update_weight(np.arange(50), priorities)
    counts = np.bincount(np.concatenate([buffer.sample_indices(10_000) for _ in range(100)]), minlength=64)
    assert counts[49] > 0
    assert is_plausible(counts, np.pad(priorities**0.7, (0, 14)))


@pytest.mark.pitfall("C11")
@pytest.mark.parametrize("sizes", [(30,), (7, 1, 22), (16, 16)])
def test_rows_are_drawn_evenly_whatever_ring_they_are_in(sizes):
    """Rings filled to different heights: a row of a short one is no more likely than any other."""
    buffer = VectorReplayBuffer(32 * len(sizes), len(sizes), seed=5)
    for ring, size in enumerate(sizes):
        for number in range(size):
            buffer.add(vector_step([number], "."), buffer_ids=[ring])
    counts = np.bincount(np.concatenate([buffer.sample_indices(10_000) for _ in range(100)]), minlength=buffer.maxsize)
    live = np.zeros(buffer.maxsize)
    live[buffer.sample_indices(0)] = 1
    assert live.sum() == sum(sizes)
    assert is_plausible(counts, live)


@pytest.mark.pitfall("C11")
@pytest.mark.parametrize("priorities", [None, np.arange(1.0, 41.0)])
@pytest.mark.parametrize("ends", ["." * 40, "......t" * 5 + ".....", ".t" * 16 + "........"])
def test_only_rows_with_a_full_stack_are_drawn_and_in_the_same_proportions(ends, priorities):
    options = {"stack_num": 3, "sample_avail": True, "seed": 2}
    buffer = ReplayBuffer(40, **options) if priorities is None else PrioritizedReplayBuffer(40, 1.0, 1.0, **options)
    fill(buffer, ends)
    if priorities is not None:
        buffer.update_weight(np.arange(40), priorities)
    episodes = (ends + "t").split("t")[:-1]
    whole = np.array([place >= 2 for episode in episodes for place in range(len(episode) + 1)][:40], float)
    assert buffer.sample_indices(0).tolist() == np.flatnonzero(whole).tolist()
    counts = np.bincount(np.concatenate([buffer.sample_indices(10_000) for _ in range(20)]), minlength=40)
    assert is_plausible(counts, whole * (1.0 if priorities is None else priorities))


@pytest.mark.pitfall("C11")
def test_the_newest_row_is_drawn_when_the_ring_is_full():
    buffer = fill(ReplayBuffer(5, seed=0), "." * 8)
    counts = np.bincount(buffer.sample_indices(100_000), minlength=5)
    assert is_plausible(counts, np.ones(5))


# -- C12, C13 --------------------------------------------------------------------------------------------------------


@pytest.mark.pitfall("C12")
def test_the_head_of_a_running_episode_has_the_shorter_return_and_not_the_oldest_row():
    buffer = PrioritizedReplayBuffer(6, 1.0, 1.0)
    fill(buffer, "........", 10.0 ** np.arange(8))  # slots hold rows 6 7 2 3 4 5
    _, index = buffer.sample(300)
    assert {0, 1} <= set(index.tolist())
    batch = BasePolicy.compute_nstep_return(
        buffer[index], buffer, index, lambda *_: torch.zeros(300, dtype=torch.float64), gamma=1.0, n_step=3
    )
    want = {1: 1e7, 0: 1.1e7, 5: 1.11e7, 4: 1.11e6, 3: 1.11e5, 2: 1.11e4}
    assert batch.returns.flatten().tolist() == [want[slot] for slot in index.tolist()]


@pytest.mark.pitfall("C13")
def test_tensors_may_be_indices_and_priorities():
    buffer = prioritized([1.0] * 4)
    buffer.update_weight(torch.tensor([1, 2]), torch.tensor([4.0, 9.0], requires_grad=True))
    np.testing.assert_allclose(np.array(buffer.weight[np.arange(4)]), [1, 4, 9, 1], rtol=1e-6)
    assert buffer[torch.tensor([1, 2])].obs.tolist() == [1, 2]


@pytest.mark.pitfall("C13")
def test_a_tensor_without_memory_of_its_own_is_refused():
    buffer = prioritized([1.0] * 4)
    nowhere = torch.empty(2, dtype=torch.int64, device="meta")
    with pytest.raises((TypeError, ValueError, NotImplementedError)):
        buffer.update_weight(nowhere, np.ones(2))
    with pytest.raises((TypeError, ValueError, NotImplementedError)):
        buffer.update_weight(np.array([0, 1]), nowhere)
    with pytest.raises((TypeError, ValueError, NotImplementedError, IndexError)):
        buffer[nowhere]
    np.testing.assert_allclose(np.array(buffer.weight[np.arange(4)]), 1.0, rtol=1e-6)
