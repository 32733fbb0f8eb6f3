"""D1, D2, D8, D9: the write pointer, sequence numbers at their limits, and empty buffers."""

import pickle

import numpy as np
import pytest

from pitfalls.rows import KINDS, fill, partly_filled, transition, vector_step
from rlfast.data import PrioritizedReplayBuffer, PrioritizedVectorReplayBuffer, ReplayBuffer, VectorReplayBuffer

# -- D1, D2: the write pointer ----------------------------------------------------------------------------------------


@pytest.mark.pitfall("D1")
@pytest.mark.parametrize("capacity", [1, 2, 5, 8])
def test_a_ring_is_full_after_exactly_its_capacity(capacity):
    buffer = ReplayBuffer(capacity)
    for number in range(3 * capacity + 1):
        index, *_ = buffer.add(transition(number))
        assert index.tolist() == [number % capacity]
        assert len(buffer) == min(number + 1, capacity)
        order = buffer[buffer.sample_indices(0)].obs.tolist()
        assert order == list(range(max(0, number + 1 - capacity), number + 1))


@pytest.mark.pitfall("D1")
def test_a_ring_that_was_just_filled_is_saved_whole():
    """The write pointer is back at 0, which is not the same as empty."""
    buffer = pickle.loads(pickle.dumps(fill(ReplayBuffer(5), ".....")))
    assert buffer[:].obs.tolist() == [0, 1, 2, 3, 4]
    assert buffer.add(transition(5))[0].tolist() == [0]


@pytest.mark.pitfall("D2")
@pytest.mark.parametrize(
    "make",
    [lambda: PrioritizedReplayBuffer(3, 1.0, 1.0), lambda: PrioritizedVectorReplayBuffer(3, 1, alpha=1.0, beta=1.0)],
    ids=["ring", "vector"],
)
def test_priorities_stand_where_their_rows_do_from_the_first_one_on(make):
    buffer = make()
    for number in range(5):
        index, *_ = buffer.add(vector_step([number], "."), buffer_ids=[0])
        assert index.tolist() == [number % 3]
        leaves = np.array(buffer.weight[np.arange(3)])
        assert (leaves > 0).tolist() == [slot <= number for slot in range(3)]
        assert set(buffer.sample_indices(60).tolist()) == set(range(min(number + 1, 3)))


# -- D8, D9: numbers at the edge --------------------------------------------------------------------------------------

SIZES = [0, 1, 255, 256, 257, 65_535, 65_536]


@pytest.mark.pitfall("D8")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "make", [ReplayBuffer, lambda size: PrioritizedReplayBuffer(size, 0.6, 0.4)], ids=["even", "prio"]
)
def test_batches_of_every_size_are_whole(size, make):
    buffer = fill(make(300), "." * 299)
    index = buffer.sample_indices(size) if size else np.array([], np.int64)
    batch = buffer[index]
    assert len(batch.obs) == len(batch.rew) == size
    assert np.array_equal(batch.obs, index)


@pytest.mark.pitfall("D8")
@pytest.mark.parametrize("environments", SIZES[1:])
def test_vector_steps_of_every_width_are_stored(environments):
    buffer = VectorReplayBuffer(2 * environments, environments)
    everyone = np.arange(environments)
    for step in range(3):
        index, *_ = buffer.add(vector_step(everyone + step * environments, "." * environments), buffer_ids=everyone)
    assert len(buffer) == 2 * environments
    assert np.array_equal(index, 2 * everyone)
    assert np.array_equal(buffer[index].obs, everyone + 2 * environments)
    assert np.array_equal(buffer[index].obs_next, everyone + 2 * environments + 1)


@pytest.mark.pitfall("D8")
def test_a_vector_step_of_no_environment_changes_nothing():
    buffer = VectorReplayBuffer(4, 2)
    buffer.add(vector_step([1, 2], ".."), buffer_ids=[0, 1])
    nothing = buffer.add(vector_step([], ""), buffer_ids=[])
    assert [len(answer) for answer in nothing] == [0, 0, 0, 0]
    assert len(buffer) == 2


@pytest.mark.pitfall("D9")
@pytest.mark.parametrize("kind", KINDS)
def test_sampling_from_an_empty_buffer_says_so(kind):
    buffer = KINDS[kind]()
    with pytest.raises(ValueError, match=r"empty|no rows|0 rows"):
        buffer.sample(4)
    assert buffer.sample_indices(0).tolist() == []
    assert buffer.unfinished_index().tolist() == []
    assert len(buffer) == 0


@pytest.mark.pitfall("D9")
@pytest.mark.parametrize("kind", KINDS)
def test_a_buffer_that_was_emptied_gives_empty_batches_of_the_right_kind(kind):
    buffer = partly_filled(KINDS[kind])
    full, _ = buffer.sample(0)
    buffer.reset()
    with pytest.raises(ValueError, match=r"empty|no rows|0 rows"):
        buffer.sample(4)
    batch, index = buffer.sample(0)
    assert len(index) == 0
    for key in ("obs", "act", "rew", "terminated", "done", "obs_next"):
        assert (batch[key].dtype, batch[key].shape) == (full[key].dtype, (0, *full[key].shape[1:]))
