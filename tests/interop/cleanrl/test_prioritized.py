"""The buffer for CleanRL's Rainbow, compared with rows that the tests look up."""

import copy
import pickle

import numpy as np
import pytest
import torch

from rlfast.interop.cleanrl import PrioritizedReplayBuffer

GAMMA, N = 0.5, 3


def numbered(number):
    return np.full((1, 2, 2), number, np.uint8)


def filled(ends, count, capacity=50, n_step=N, **kwargs):
    """Rows ``i`` go from observation ``i`` to ``i + 1`` with reward ``2**i``; ``ends`` has "term" or "trunc" by row."""
    rb = PrioritizedReplayBuffer(capacity, (2, 2), "cpu", n_step, GAMMA, **kwargs)
    for i in range(count):
        kind = ends.get(i)
        next_obs = numbered(200 + i if kind else i + 1)
        rb.add(numbered(i), np.array([i]), np.array([2.0**i]), next_obs, np.array([kind == "term"]))
    return rb


def drawable(rb):
    """What is known of each row that is drawn: reward, next observation, ``dones``."""
    batch = rb.sample(2000)
    rows = {}
    for i, obs in enumerate(batch.observations[:, 0, 0].tolist()):
        assert int(batch.actions[i, 0]) == obs
        rows[obs] = (batch.rewards[i, 0].item(), int(batch.next_observations[i, 0, 0]), batch.dones[i, 0].item())
    return rows


def total(first, last):
    return sum(GAMMA**k * 2.0 ** (first + k) for k in range(last - first + 1))


def test_rows_with_all_their_rewards_are_drawn():
    assert drawable(filled({}, 6)) == {i: (total(i, i + 2), i + 3, 0.0) for i in range(4)}


def test_a_termination_ends_the_wait():
    rows = drawable(filled({4: "term"}, 6))
    assert rows == {i: (total(i, i + 2), i + 3, 0.0) for i in range(2)} | {
        i: (total(i, 4), 204, 1.0) for i in (2, 3, 4)
    }


@pytest.mark.pitfall("A1")
def test_rows_before_truncation_are_not_drawn():
    rows = drawable(filled({4: "trunc"}, 9))
    assert sorted(rows) == [0, 1, 2, 5, 6]
    assert rows[2] == (total(2, 4), 204, 0.0)


def test_overwriting():
    rb = filled({5: "term", 11: "trunc"}, 25, capacity=10)
    assert (rb.size, rb.pos) == (10, 5)
    assert drawable(rb) == {i: (total(i, i + 2), i + 3, 0.0) for i in range(15, 23)}


def test_one_step():
    assert drawable(filled({1: "trunc"}, 3, n_step=1)) == {0: (1.0, 1, 0.0), 1: (2.0, 201, 0.0), 2: (4.0, 3, 0.0)}


def test_priorities_and_weights():
    rb = filled({}, 5, alpha=1.0, beta=1.0)
    for _ in range(30):
        batch = rb.sample(32)
        rb.update_priorities(batch.indices, np.array([-1.0, 2.0, 5.0])[batch.actions[:, 0].numpy()])
    batch = rb.sample(40_000)
    share = np.bincount(batch.actions[:, 0].numpy()) / 40_000
    np.testing.assert_allclose(share, np.array([1, 2, 5]) / 8, atol=0.01)
    np.testing.assert_allclose(batch.weights[:, 0].numpy(), (1 / np.array([1, 2, 5]))[batch.actions[:, 0]], rtol=1e-5)
    assert (batch.weights.dtype, batch.rewards.dtype, batch.observations.dtype) == (
        torch.float32,
        torch.float32,
        torch.uint8,
    )
    rb.beta = 0.0
    assert set(rb.sample(50).weights[:, 0].tolist()) == {1.0}


def test_new_rows_come_with_the_largest_priority():
    rb = filled({}, 5, alpha=1.0)
    batch = rb.sample(8)
    rb.update_priorities(batch.indices, np.full(8, 100.0))
    for i in (5, 6, 7):
        rb.add(numbered(i), np.array([i]), np.array([0.0]), numbered(i + 1), np.array([False]))
    assert rb._columns.engine.tree[5] == pytest.approx(100.0, rel=1e-4)
    assert rb._columns.engine.tree[6] == 0.0


@pytest.mark.parametrize("again", [lambda b: pickle.loads(pickle.dumps(b)), copy.deepcopy], ids=["pickle", "deepcopy"])
def test_a_copy_goes_on(again):
    rb = filled({4: "term"}, 7)
    twin = again(rb)
    for one in (rb, twin):
        one.add(numbered(7), np.array([7]), np.array([128.0]), numbered(8), np.array([False]))
    assert rb.sample(50).indices.tolist() == twin.sample(50).indices.tolist()
    assert drawable(twin) == drawable(rb)


def test_bad_input():
    for kwargs in ({"n_step": 0}, {"capacity": 3}, {"alpha": 0.0}):
        with pytest.raises(ValueError, match="must be"):
            filled({}, 0, **kwargs)
    rb = filled({}, 2)
    with pytest.raises(ValueError, match="cannot draw"):
        rb.sample(1)
    with pytest.raises(ValueError, match="shape"):
        rb.add(np.zeros((2, 3, 3)), np.array([0]), np.array([0.0]), numbered(1), np.array([False]))
    assert rb.size == 2
