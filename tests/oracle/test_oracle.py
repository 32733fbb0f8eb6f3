"""The slow models, compared with values computed by hand."""

import numpy as np
import pytest

from oracle.replay import Replay
from oracle.returns import discounted, gae, vtrace
from oracle.segment_tree import SegmentTree


def row(obs=0, rew=0.0, terminated=False, truncated=False, obs_next=0):
    values = {"obs": obs, "rew": float(rew), "terminated": terminated, "truncated": truncated, "obs_next": obs_next}
    return {(key,): np.asarray(value) for key, value in values.items()}


def numbered(model, done, capacity=None):
    """Rows 0, 1, 2... whose observation is their number, ended where ``done`` says so."""
    for number, end in enumerate(done):
        model.add(0, row(number, terminated=end == "T", truncated=end == "t", obs_next=number + 1))


def frames(model, path="obs"):
    return [[int(frame) for frame in stack] for stack in model.take(model.live())[path,]]


def test_a_stack_repeats_the_first_frame_of_its_episode():
    model = Replay([10], stack_num=3)
    numbered(model, "..T.T...T.")
    expected = "000 001 012 333 334 555 556 567 678 999"
    assert frames(model) == [[int(digit) for digit in stack] for stack in expected.split()]


def test_the_next_stack_is_what_acting_would_see():
    model = Replay([4], stack_num=4)
    numbered(model, "...T")
    assert frames(model, "obs_next") == [[0, 0, 0, 1], [0, 0, 1, 2], [0, 1, 2, 3], [1, 2, 3, 4]]


def test_a_next_stack_of_rows_that_do_not_follow_each_other_shows_what_was_stored_as_next():
    model = Replay([4], stack_num=3)
    for obs, obs_next in ((1, 2), (3, 4), (4, 5)):
        model.add(0, row(obs, obs_next=obs_next))
    assert frames(model, "obs") == [[1, 1, 1], [1, 1, 3], [1, 3, 4]]
    assert frames(model, "obs_next") == [[1, 1, 2], [1, 2, 4], [2, 4, 5]]


def test_without_obs_next_the_end_of_an_episode_keeps_what_it_led_to_and_a_running_one_shows_itself():
    model = Replay([4], stack_num=2, save_obs_next=False)
    numbered(model, ".T..")
    assert frames(model, "obs_next") == [[0, 1], [1, 2], [2, 3], [2, 3]]


def test_the_write_head_cuts_the_stack_of_the_oldest_row():
    model = Replay([5], stack_num=3)
    numbered(model, ".......")
    oldest = model.live()[0]
    assert model.index(oldest) == 2
    assert [model.index(other) for other in model.stack(oldest, 3)] == [2, 2, 2]


def test_nstep_at_boundaries_and_the_ring_seam():
    model = Replay([6])
    for slot, reward in enumerate([1, 2, 4, 8, 16, 32]):
        model.add(0, row(rew=reward, terminated=slot == 2, truncated=slot == 4))

    def units():
        rows = (model.at(slot) for slot in range(6))
        return [
            (total, discount, model.index(last)) for total, discount, last in (model.nstep(r, 3, 0.5) for r in rows)
        ]

    assert units() == [(3, 0, 2), (4, 0, 2), (4, 0, 2), (16, 0.25, 4), (16, 0.5, 4), (32, 0.5, 5)]
    model.add(0, row(rew=64))
    assert units() == [(64, 0.5, 0), (4, 0, 2), (4, 0, 2), (16, 0.25, 4), (16, 0.5, 4), (64, 0.25, 0)]


def test_episode_statistics_and_starts():
    model = Replay([3, 2])
    assert model.add(0, row(rew=1)) == (0, 0, 0, 0)
    assert model.add(1, row(rew=5, terminated=True)) == (3, 5, 1, 3)
    assert model.add(0, row(rew=2, truncated=True)) == (1, 3, 2, 0)
    assert model.add(0, row(rew=4)) == (2, 0, 0, 2)
    assert model.add(0, row(rew=4, terminated=True)) == (0, 8, 2, 2)
    assert [model.index(other) for other in model.live()] == [1, 2, 0, 3]
    assert model.unfinished_rows() == []


def test_neighbours_stay_inside_the_episode_and_alive():
    model = Replay([4])
    numbered(model, ".T....")  # slots now hold 4 5 2 3
    neighbours = [(model.index(model.prev(r)), model.index(model.next(r))) for r in model.live()]
    assert neighbours == [(2, 3), (2, 0), (3, 1), (0, 1)]
    assert [model.index(r) for r in model.unfinished_rows()] == [1]


def test_windows_unrolls_and_goals():
    model = Replay([8])
    numbered(model, "...T..")
    numbers = [int(r.fields["obs",]) for r in model.window(model.at(1), 2, 4)[0]]
    assert numbers == [0, 0, 1, 2, 3, 3]
    assert model.window(model.at(1), 2, 4)[1] == [False, True, True, True, True, False]
    assert [int(r.fields["obs",]) for r in model.unroll(model.at(2), 3)[0]] == [2, 3, 3]
    assert model.unroll(model.at(2), 3)[1] == 2
    assert [model.index(r) for r in model.goals(model.at(1), 2)] == [1, 2]
    assert [model.index(r) for r in model.goals(model.at(4), 9)] == [4, 5]


def test_a_full_stack_is_asked_for():
    model = Replay([10], stack_num=3, sample_avail=True)
    numbered(model, "..T.T...T.")
    assert [model.index(r) for r in model.candidates()] == [2, 7, 8]


def test_priorities_and_stale_updates():
    model = Replay([2], alpha=0.5, beta=1.0, weight_norm=False)
    numbered(model, "..")
    first, second = model.live()
    assert first.leaf == 1.0
    assert model.update_priority([first, second, second], [4.0, 7.0, 9.0]) == 0
    np.testing.assert_allclose([first.leaf, second.leaf], [2.0, 3.0], rtol=1e-6)
    np.testing.assert_allclose(model.weights([second, first]), [2 / 3, 1.0], rtol=1e-6)
    numbered(model, ".")
    assert model.update_priority([first], [100.0]) == 1
    assert model.stale_updates == 1
    np.testing.assert_allclose(model.at(0).leaf, 3.0, rtol=1e-6)  # the newcomer has the running maximum


def test_reset_can_keep_the_running_episode():
    model = Replay([3])
    numbered(model, "T.")
    model.rings[0].episode_return = 7.0
    model.reset(keep_statistics=True)
    assert model.live() == []
    assert model.add(0, row(rew=1, terminated=True)) == (0, 8.0, 2, 1)
    numbered(model, ".")
    model.reset()
    assert model.add(0, row(rew=1, terminated=True)) == (0, 1.0, 1, 0)


@pytest.mark.parametrize(
    ("terminated", "truncated", "expected"),
    [
        ((0, 0, 0), (0, 1, 0), (7.79, 9.5, 0.95)),
        ((0, 1, 0), (0, 0, 0), (1.31, 0.5, 0.95)),
        ((0, 0, 0), (0, 0, 0), None),
    ],
)
def test_gae(terminated, truncated, expected):
    v_next = [0.5, 10.0, 0.5] if expected else [0.5, 0.5, 0.5]
    advantage = gae([1, 1, 1], [0.5] * 3, v_next, terminated, truncated, 0.9, 0.8)
    np.testing.assert_allclose(advantage, expected or (2.12648, 1.634, 0.95), atol=1e-12)


def test_discounted_returns():
    np.testing.assert_allclose(discounted([1, 2, 4], [0, 1, 0], 0.5), [2, 2, 4])


def test_vtrace_on_policy_is_the_nstep_return():
    corrected = vtrace([1, 1], [1.0, 2.0], [0.3, 0.6], [0.6, 8.0], [0, 0], [0, 1], 0.5)
    np.testing.assert_allclose(corrected, [1 + 0.5 * 2 + 0.25 * 8, 2 + 0.5 * 8])


def test_the_tree_finds_half_open_intervals():
    tree = SegmentTree(4)
    tree.leaves = [0.0, 1.0, 0.0, 1.0]
    assert [tree.find(mass) for mass in (0.0, np.nextafter(1.0, 0), 1.0, 2.0, 3.0)] == [1, 1, 1, 3, 3]
    assert tree.reduce(1, 3) == 1.0
