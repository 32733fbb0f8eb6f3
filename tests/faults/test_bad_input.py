"""Bad rows, priorities and indices raise clear errors and leave the store unchanged."""

import numpy as np
import pytest

from pitfalls.rows import fill, transition, vector_step
from rlfast.data import Batch, PrioritizedReplayBuffer, PrioritizedVectorReplayBuffer, ReplayBuffer, VectorReplayBuffer


def state(buffer):
    """What a caller can see of a buffer, as one comparable value."""
    batch = buffer[:]
    rows = [batch[key].tolist() for key in ("obs", "act", "rew", "terminated", "truncated", "obs_next")]
    weight = np.array(buffer.weight[np.arange(buffer.maxsize)]).tolist() if hasattr(buffer, "weight") else None
    return len(buffer), buffer.sample_indices(0).tolist(), buffer.unfinished_index().tolist(), rows, weight


def unchanged(buffer, error, call, match=r"\w{4,}"):
    before = state(buffer)
    with pytest.raises(error, match=match):
        call()
    assert state(buffer) == before
    follow_up = (
        buffer.add(transition(7)) if not hasattr(buffer, "buffer_num") else buffer.add(vector_step([7], "."), [0])
    )
    assert len(follow_up) == 4


def row(**changes):
    fields = transition(np.arange(3), act=1).__dict__ | changes
    return Batch({key: value for key, value in fields.items() if value is not None})


def ring(make=ReplayBuffer):
    buffer = make(5)
    for number in range(7):
        buffer.add(row(obs=np.arange(3) + number, obs_next=np.arange(3) + number + 1))
    return buffer


BAD_ROWS = {
    "obs is missing": (row(obs=None), "obs"),
    "act is missing": (row(act=None), "act"),
    "rew is missing": (row(rew=None), "rew"),
    "terminated is missing": (row(terminated=None), "terminated"),
    "truncated is missing": (row(truncated=None), "truncated"),
    "an observation of another shape": (row(obs=np.arange(4)), "obs"),
    "an observation of another rank": (row(obs=np.zeros((2, 3), int)), "obs"),
    "a float observation for integers": (row(obs=np.array([0.5, 1, 2])), "obs"),
    "a float action for integers": (row(act=0.5), "act"),
    "a next observation of another shape": (row(obs_next=np.arange(2)), "obs_next"),
    "an observation that became a dict": (row(obs={"a": np.arange(3)}), "obs"),
    "a reward in words": (row(rew="much"), "rew"),
    "a vector reward for a scalar": (row(rew=np.array([1.0, 2.0])), "rew"),
    "an action in words": (row(act="left"), "act"),
    "a flag that is no number": (row(terminated=float("nan")), "terminated"),
    "a late key beside a bad one": (row(act=0.5, new=1.0), "act"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
@pytest.mark.parametrize("make", [ReplayBuffer, lambda size: PrioritizedReplayBuffer(size, 0.6, 0.4)])
def test_a_bad_row_is_refused_by_name(make, case):
    bad, name = BAD_ROWS[case]
    buffer = ring(make)
    before = state(buffer)
    with pytest.raises((ValueError, TypeError, KeyError, AssertionError), match=name):
        buffer.add(bad)
    assert state(buffer) == before
    assert "new" not in buffer._meta
    assert buffer.add(row())[0].tolist() == [2]


def test_a_bad_first_row_leaves_the_buffer_without_columns():
    buffer = ReplayBuffer(5)
    with pytest.raises((ValueError, TypeError, KeyError, AssertionError), match="rew"):
        buffer.add(row(rew=None))
    assert buffer._meta.is_empty()
    buffer.add(row(obs=np.zeros((2, 2), np.uint8), obs_next=np.zeros((2, 2), np.uint8)))
    assert buffer[:].obs.shape == (1, 2, 2)


@pytest.mark.parametrize("bad", [[2], [-3], [0, 5]])
def test_an_environment_that_is_not_there_is_refused(bad):
    buffer = VectorReplayBuffer(8, 2)
    buffer.add(vector_step([1, 2], ".."), buffer_ids=[0, 1])
    unchanged(buffer, (IndexError, ValueError), lambda: buffer.add(vector_step([1] * len(bad), "." * len(bad)), bad))


def test_a_vector_step_with_a_row_too_few_changes_no_ring():
    buffer = VectorReplayBuffer(8, 2)
    buffer.add(vector_step([1, 2], ".."), buffer_ids=[0, 1])
    short = vector_step([1, 2], "..")
    short.rew = np.zeros(1)
    unchanged(buffer, (IndexError, ValueError), lambda: buffer.add(short, [0, 1]))
    unchanged(buffer, (IndexError, ValueError), lambda: buffer.add(vector_step([1], "."), [0, 1]))


@pytest.mark.parametrize("index", [5, -6, [0, 5], np.array([[0], [99]]), 2**40, -(2**40), 2**63 - 1], ids=str)
def test_rows_outside_the_storage_are_refused(index):
    buffer = fill(ReplayBuffer(5), ".......")
    unchanged(buffer, IndexError, lambda: buffer[index])


@pytest.mark.parametrize("index", [0.5, np.array([1.0]), "obs", None], ids=str)
def test_indices_of_another_kind_are_refused(index):
    buffer = fill(ReplayBuffer(5), ".......")
    unchanged(buffer, (IndexError, TypeError), lambda: buffer[index])


@pytest.mark.parametrize(
    "make",
    [lambda: PrioritizedReplayBuffer(5, 0.6, 0.4), lambda: PrioritizedVectorReplayBuffer(5, 1, alpha=0.6, beta=0.4)],
    ids=["ring", "vector"],
)
@pytest.mark.parametrize(
    ("index", "weight", "error"),
    [
        ([0, 1], [1.0, np.nan], ValueError),
        ([0, 1], [np.inf, 1.0], ValueError),
        ([0, 5], [1.0, 1.0], IndexError),
        ([0, -6], [1.0, 1.0], IndexError),
        ([0, 1], [1.0, 1.0, 1.0], ValueError),
        ([0, 1], ["a", "b"], (TypeError, ValueError)),
    ],
    ids=str,
)
def test_bad_priorities_are_refused(make, index, weight, error):
    buffer = make()
    for number in range(7):
        buffer.add(vector_step([number], "."), buffer_ids=[0])
    before = state(buffer)
    with pytest.raises(error):
        buffer.update_weight(np.array(index), np.array(weight))
    assert state(buffer) == before


@pytest.mark.parametrize(
    "make",
    [
        lambda: ReplayBuffer(-1),
        lambda: ReplayBuffer(5, stack_num=0),
        lambda: VectorReplayBuffer(5, 0),
        lambda: PrioritizedReplayBuffer(5, -1.0, 0.4),
        lambda: PrioritizedReplayBuffer(5, 0.6, -0.4),
        lambda: PrioritizedReplayBuffer(5, np.nan, 0.4),
        lambda: PrioritizedReplayBuffer(5, 0.0, 0.4),
        lambda: PrioritizedVectorReplayBuffer(5, 2, alpha=-1.0, beta=0.4),
        lambda: PrioritizedVectorReplayBuffer(5, 2, alpha=0.6, beta=-0.4),
    ],
)
def test_options_that_make_no_sense_are_refused(make):
    with pytest.raises((ValueError, AssertionError), match=r"\w{4,}") as refused:
        make()
    assert issubclass(refused.type, ValueError if "size" in str(refused.value) else AssertionError)
    with pytest.raises(TypeError, match="sampler"):
        ReplayBuffer(3, sampler="prioritized")


@pytest.mark.parametrize("size", [1.5, "3", [1]])
def test_sample_sizes_of_another_kind_are_refused(size):
    buffer = fill(ReplayBuffer(5), "...")
    unchanged(buffer, (TypeError, ValueError), lambda: buffer.sample(size))
