import copy
import pickle

import numpy as np
import pytest

from rlfast.utils.runtime.seeding import SeededMixin, generator


def test_a_seed_decides():
    assert generator(5).random() == generator(5).random() != generator(6).random()


def test_without_a_seed_two_streams_differ():
    assert generator().random() != generator().random()


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError, match="non-negative"):
        generator(-1)


def test_seed_restarts_the_stream():
    thing = SeededMixin()
    thing.seed(1)
    first = thing.rng.random(3)
    thing.seed(1)
    assert np.array_equal(first, thing.rng.random(3))


@pytest.mark.parametrize("carry", [copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))])
def test_a_copy_goes_on_alone_from_the_same_place(carry):
    thing = SeededMixin()
    thing.seed(1)
    thing.rng.random()
    other = carry(thing)
    expected = thing.rng.random(3)
    assert np.array_equal(other.rng.random(3), expected)


@pytest.mark.pitfall("D5")
def test_the_state_goes_on_where_it_was_taken():
    thing, other = SeededMixin(), SeededMixin()
    assert thing.random_state() is None
    thing.rng.random()
    state = thing.random_state()
    expected = thing.rng.random(3)
    other.set_random_state(state)
    assert np.array_equal(other.rng.random(3), expected)


def test_unused_stream_state_is_none():
    thing = SeededMixin()
    thing.seed(1)
    thing.set_random_state(None)
    assert thing.random_state() is None
