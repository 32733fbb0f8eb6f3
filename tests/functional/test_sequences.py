"""Sums, priorities and the rescaling of values of sequences."""

import numpy as np
import pytest
import torch

from rlfast.functional.sequences import nstep_sums_within, rescaled, sequence_priority, unrescaled


def test_rescaled_by_hand():
    value = torch.tensor([0.0, 3.0, -3.0, 99.0])
    expected = torch.tensor([0.0, 1.0 + 0.03, -1.0 - 0.03, 9.0 + 0.99])
    torch.testing.assert_close(rescaled(value, eps=0.01), expected)
    torch.testing.assert_close(rescaled(value)[1], torch.tensor(1.003))  # eps is 0.001


@pytest.mark.parametrize("eps", [0.0, 1e-6, 1e-3, 0.1, 1.0])
def test_rescaling_is_inverted(eps):
    value = torch.tensor([-1e5, -500.0, -1.0, -1e-2, 0.0, 1e-2, 0.3, 7.0, 1e3, 1e6])
    torch.testing.assert_close(unrescaled(rescaled(value, eps), eps), value, rtol=1e-4, atol=1e-6)
    precise = value.double()
    torch.testing.assert_close(unrescaled(rescaled(precise, eps), eps), precise, rtol=1e-6, atol=1e-9)
    assert unrescaled(value, eps).dtype == torch.float32


def test_unrescaled_by_hand():
    # h^-1(2) with eps 0.5: sqrt(1 + 2 * 3.5) = sqrt(8); (sqrt(8) - 1)^2 - 1
    torch.testing.assert_close(unrescaled(torch.tensor([2.0]), eps=0.5), torch.tensor([(8**0.5 - 1) ** 2 - 1]))
    assert unrescaled(torch.tensor([2.0, -2.0]), eps=0).tolist() == [8.0, -8.0]


def test_sequence_priority_mixes_max_and_mean():
    error = torch.tensor([[1.0, -5.0, 3.0, 100.0], [torch.nan, torch.nan, torch.nan, -2.0]])
    mask = torch.tensor([[True, True, True, False], [False, False, False, True]])
    torch.testing.assert_close(sequence_priority(error, mask), torch.tensor([0.9 * 5 + 0.1 * 3, 2.0]))
    torch.testing.assert_close(sequence_priority(error, mask, eta=0.25), torch.tensor([0.25 * 5 + 0.75 * 3, 2.0]))


def test_sums_by_hand():
    rew = np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 6.0, 6.0]])
    terminated = np.array([[False, False, False, False], [False, True, True, True]])
    mask = np.array([[True] * 4, [True, True, False, False]])  # the second has two steps; rows repeat after them
    sums, discount, last = nstep_sums_within(rew, terminated, mask, n_step=3, gamma=0.5)
    assert sums[0].tolist() == [1 + 1 + 0.75, 2 + 1.5 + 1, 3 + 2, 4]
    assert discount[0].tolist() == [0.125, 0.125, 0.25, 0.5]  # the sequence ends, and the episode does not
    assert last[0].tolist() == [2, 3, 3, 3]
    assert sums[1, :2].tolist() == [5 + 3, 6]
    assert discount[1, :2].tolist() == [0, 0]
    assert last[1, :2].tolist() == [1, 1]


@pytest.mark.parametrize("n_step", [1, 2, 5, 9])
def test_sums_step_by_step(n_step):
    rng = np.random.default_rng(n_step)
    rew, lengths = rng.normal(size=(20, 6)), rng.integers(1, 7, 20)
    mask = np.arange(6) < lengths[:, None]
    terminated = (np.arange(6) >= lengths[:, None] - 1) & rng.integers(0, 2, (20, 1)).astype(bool)
    sums, discount, last = nstep_sums_within(rew, terminated, mask, n_step, 0.9)
    for row, t in np.argwhere(mask):
        end = min(t + n_step, lengths[row])
        assert sums[row, t] == pytest.approx(sum(0.9 ** (i - t) * rew[row, i] for i in range(t, end)))
        assert last[row, t] == end - 1
        assert discount[row, t] == pytest.approx(0 if terminated[row, end - 1] else 0.9 ** (end - t))


def test_defaults():
    value = torch.tensor([5.0])
    assert torch.equal(unrescaled(value), unrescaled(value, 0.001))
    rew, flags = np.array([[1.0, 2.0]]), np.zeros((1, 2), bool)
    sums, discount, last = nstep_sums_within(rew, flags, ~flags)
    assert sums.tolist() == rew.tolist()
    assert discount.tolist() == [[0.99, 0.99]]
    assert last.tolist() == [[0, 1]]


def test_steps_of_an_empty_sequence_can_be_looked_up():
    rewards, nothing = np.ones((2, 3)), np.zeros((2, 3), bool)
    _, _, last = nstep_sums_within(rewards, nothing, np.array([[True] * 3, [False] * 3]), n_step=2)
    assert last.tolist() == [[1, 2, 2], [0, 0, 0]]
