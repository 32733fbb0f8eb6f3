from copy import deepcopy

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from gymnasium.vector.utils import batch_space

from rlfast._core import integers_of_each
from rlfast.env.spaces.random_actions import RandomActions
from rlfast.utils.tree import collate

SIZES = [1, 2, 3, 18, 1000, 2**31 + 1, 2**32 - 1, 2**32, 2**40]


class Loaded(Discrete):
    """A space that always samples its largest number."""

    def sample(self, mask=None, probability=None):
        return self.start + self.n - 1


def own_samples(spaces, ids):
    return collate([spaces[i].sample() for i in ids])


@pytest.mark.parametrize(
    "make",
    [
        *(lambda i, n=n: Discrete(n, seed=i) for n in SIZES),
        lambda i: Discrete(7, start=-3, seed=i),
        lambda i: Discrete(2 + i, seed=i),
        lambda i: Discrete(5, start=i, seed=i),
        lambda i: Discrete(5, seed=i, dtype=np.int32),
        lambda i: Discrete(5, seed=np.random.Generator(np.random.MT19937(i))),
        lambda i: Loaded(5, seed=i),
        lambda i: [Discrete, Loaded][i % 2](5, seed=i),
        lambda i: MultiDiscrete([2, 3], seed=i),
        lambda i: Dict({"move": Discrete(4), "aim": Box(-1, 1, (2,), np.float32)}, seed=i),
    ],
)
def test_they_are_the_spaces_own_samples_and_use_up_as_many_numbers(make):
    ours, theirs = [[make(i) for i in range(4)] for _ in range(2)]
    draw = RandomActions(ours, 4)
    for ids in ([0, 1, 2, 3], [3, 1], [2], [0, 1, 2, 3]):
        for _ in range(20):
            got, want = draw(np.array(ids)), own_samples(theirs, ids)
            np.testing.assert_equal(got, want)
            if isinstance(got, np.ndarray):
                assert got.dtype == want.dtype
    np.testing.assert_equal(own_samples(ours, range(4)), own_samples(theirs, range(4)))


def test_a_space_that_several_share_is_sampled_in_turn():
    shared = Discrete(100, seed=0)
    twin = deepcopy(shared)
    assert RandomActions([shared] * 3, 3)(np.arange(3)).tolist() == [twin.sample() for _ in range(3)]


def test_a_new_seed_is_heeded():
    spaces = [Discrete(1000) for _ in range(3)]
    draw = RandomActions(spaces, 3)
    draw(np.arange(3))  # seeds those that were not
    answers = []
    for _ in range(2):
        for i, space in enumerate(spaces):
            space.seed(i)
        answers.append(draw(np.arange(3)).tolist())
    assert answers[0] == answers[1] == [int(Discrete(1000, seed=i).sample()) for i in range(3)]


@pytest.mark.parametrize(
    "space",
    [
        MultiDiscrete([10] * 4),
        MultiDiscrete([2, 3, 2**40, 1]),
        MultiDiscrete([10] * 4, start=[5, 0, -5, 1]),
        MultiDiscrete([10] * 4, dtype=np.int32),
        MultiDiscrete([[2, 3]] * 4),
        Box(-1, 1, (4, 2), np.float32),
    ],
    ids=str,
)
def test_the_space_of_all_together_is_sampled_once(space):
    space.seed(0)
    twin, draw = deepcopy(space), RandomActions(space, 4)
    for ids in ([0, 1, 2, 3], [2, 0]) * 20:
        got, want = draw(np.array(ids)), twin.sample()[ids]
        np.testing.assert_array_equal(got, want)
        assert got.dtype == want.dtype


def test_numbers_below_nothing_are_refused():
    with pytest.raises(ValueError, match="bound must be at least 1, got 0"):
        integers_of_each([np.random.default_rng(0).bit_generator], 0)
    with pytest.raises(AttributeError, match="capsule"):
        integers_of_each([object()], 5)


class TestMasks:
    @pytest.mark.parametrize(
        ("spaces", "legal"),
        [
            ([Discrete(4, seed=i) for i in range(3)], [{1, 3}, {0}, {2, 3}]),
            ([Discrete(4, start=5, seed=i) for i in range(3)], [{6, 8}, {5}, {7, 8}]),
            (MultiDiscrete([4, 4, 4], seed=0), [{1, 3}, {0}, {2, 3}]),
        ],
    )
    def test_only_legal_actions_are_drawn(self, spaces, legal):
        mask = np.array([[0, 1, 0, 1], [1, 0, 0, 0], [0, 0, 1, 1]], bool)
        draw = RandomActions(spaces, 3)
        drawn = np.stack([draw(np.arange(3), mask) for _ in range(100)])
        assert [{*column.tolist()} for column in drawn.T] == legal
        assert {*np.ravel([draw(np.array([2]), mask[2:]) for _ in range(50)]).tolist()} == legal[2]

    def test_several_choices(self):
        draw = RandomActions([MultiDiscrete([2, 3], seed=0)], 1)
        drawn = np.concatenate([draw(np.array([0]), np.array([[0, 1, 1, 0, 1]], bool)) for _ in range(50)])
        assert {*map(tuple, drawn.tolist())} == {(1, 0), (1, 2)}

    @pytest.mark.parametrize("space", [Discrete(4, seed=0), Box(-1, 1, (4,), seed=0)])
    def test_what_is_no_mask_of_actions_changes_nothing(self, space):
        given, other = RandomActions([deepcopy(space)], 1), RandomActions([deepcopy(space)], 1)
        mask = np.zeros((1, 5 if isinstance(space, Discrete) else 4), bool)
        for _ in range(10):
            assert np.array_equal(given(np.array([0]), mask), other(np.array([0])))

    @pytest.mark.parametrize(
        "space",
        [
            Discrete(5, start=3, dtype=np.int32),
            MultiDiscrete([3, 5], start=[1, 2]),
            MultiDiscrete([[2, 3], [1, 4]], start=[[0, 1], [-5, 9]], dtype=np.int16),
        ],
        ids=str,
    )
    @pytest.mark.parametrize("together", [False, True])
    def test_choices_that_start_elsewhere(self, space, together):
        spaces = [deepcopy(space) for _ in range(3)]
        draw = RandomActions(batch_space(space, 3) if together else spaces, 3, space)
        sizes = np.ravel(space.nvec if isinstance(space, MultiDiscrete) else space.n)
        legal = [np.random.default_rng(0).random((3, size)) < 0.6 for size in sizes]
        for one in legal:
            one[:, 0] |= ~one.any(-1)
        mask, start = np.concatenate(legal, -1), np.ravel(space.start)
        seen = [set() for _ in sizes]
        for ids in [[0, 1, 2], [2], [2, 0]] * 40:
            drawn = draw(np.array(ids), mask[ids])
            assert drawn.dtype == space.dtype
            assert all(space.contains(one) for one in drawn)
            for k, one in enumerate((drawn.reshape(len(ids), -1) - start).T):
                assert legal[k][ids, one].all()
                seen[k] |= set(zip(ids, one.tolist(), strict=True))
        assert [len(one) for one in seen] == [int(one.sum()) for one in legal]
