"""Samples of two buffers."""

import numpy as np
import pytest

from rlfast.data import (
    Batch,
    HERReplayBuffer,
    MixedReplayBuffer,
    NStep,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    Sequence,
    VectorReplayBuffer,
)


def filled(rows, sign=1, rings=1, size=20, **options):
    """Give a buffer whose rewards are 1, 2, ... or their negatives, in episodes of five rows."""
    buffer = VectorReplayBuffer(size, rings, seed=0, **options)
    for t in range(1, rows // rings + 1):
        rew = np.full(rings, sign * float(t)) + 100 * sign * np.arange(rings)
        flags = {"terminated": np.full(rings, t % 5 == 0), "truncated": np.full(rings, False)}
        row = Batch(obs=rew[:, None], act=rew, rew=rew, obs_next=rew[:, None] + sign, info={}, **flags)
        buffer.add(row, buffer_ids=np.arange(rings))
    return buffer


@pytest.fixture
def mixed():
    return MixedReplayBuffer(filled(8, rings=2), filled(13, sign=-1))


@pytest.mark.parametrize(
    ("share", "size", "of_data"),
    [(0.5, 8, 4), (0.5, 9, 4), (0.25, 8, 2), (0.3, 8, 2), (0.0, 8, 0), (1.0, 8, 8), (0.5, 1, 0), (0.29, 100, 29)],
)
def test_each_batch_has_the_same_share_of_the_data(share, size, of_data):
    mixed = MixedReplayBuffer(filled(8, rings=2), filled(13, sign=-1), data_share=share)
    for _ in range(3):
        batch, indices = mixed.sample(size)
        assert (batch.rew < 0).tolist() == [False] * (size - of_data) + [True] * of_data
        assert len(indices) == size
        again = mixed[indices]
        assert all(np.array_equal(again[name], batch[name]) for name in ("obs", "act", "rew", "obs_next", "terminated"))
    assert ((mixed.sample_indices(size) >= 20).sum()) == of_data


@pytest.mark.parametrize("size", [0, None])
def test_all_rows_of_both(mixed, size):
    batch, indices = mixed.sample(size)
    assert len(mixed) == len(batch) == len(set(indices.tolist())) == 21
    assert (batch.rew < 0).sum() == 13


def test_rows_are_drawn_as_from_each_buffer_alone(mixed):
    batch, indices = mixed.sample(8)
    alone = [buffer.sample(4) for buffer in (filled(8, rings=2), filled(13, sign=-1))]
    assert batch.rew.tolist() == [*alone[0][0].rew, *alone[1][0].rew]
    assert indices.tolist() == [*alone[0][1], *(alone[1][1] + 20)]


@pytest.mark.parametrize("n_step", [1, 3, 9])
def test_sums_of_rewards(mixed, n_step):
    _, indices = mixed.sample(12)
    sums, discounts, last = mixed.nstep(indices, n_step, 0.9)
    parts = [(mixed.collected, indices[:6]), (mixed.data, indices[6:] - 20)]
    for number, wanted in enumerate(zip(*(buffer.nstep(rows, n_step, 0.9) for buffer, rows in parts), strict=True)):
        shift = 20 * (number == 2)
        assert (sums, discounts, last)[number].tolist() == [*wanted[0], *(wanted[1] + shift)]
    obs_next = mixed.get(last, "obs_next")
    assert obs_next.tolist() == mixed[last].obs_next.tolist()
    assert ((obs_next < 0)[:, 0]).tolist() == [False] * 6 + [True] * 6


@pytest.mark.parametrize("method", ["next", "prev"])
def test_neighbours(mixed, method):
    _, indices = mixed.sample(12)
    alone = [getattr(mixed.collected, method)(indices[:6]), getattr(mixed.data, method)(indices[6:] - 20) + 20]
    assert getattr(mixed, method)(indices).tolist() == [*alone[0], *alone[1]]
    assert getattr(mixed, method)(indices).tolist() != indices.tolist()


def test_fields_of_one_buffer_are_zero_in_the_other():
    collected, data = filled(8), filled(8, sign=-1)
    data.set_array_at_key(np.ones(8), "extra", np.arange(8))
    batch, _ = MixedReplayBuffer(collected, data).sample(6)
    assert batch.extra.tolist() == [0, 0, 0, 1, 1, 1]


def test_nested_observations():
    def rows(sign):
        buffer = ReplayBuffer(9, seed=0)
        for t in range(4):
            seen = {"obs": {"a": np.full(2, sign), "b": sign * t}, "obs_next": {"a": np.full(2, sign), "b": sign}}
            buffer.append(**seen, act=0, rew=1.0, terminated=False, truncated=False)
        return buffer

    mixed = MixedReplayBuffer(rows(1), rows(-1))
    batch, indices = mixed.sample(4)
    assert batch.obs.a[:, 0].tolist() == [1, 1, -1, -1]
    assert mixed.get(indices, "obs_next").b.tolist() == [1, 1, -1, -1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unit": NStep(3, 0.9)}, r"collected is a VectorReplayBuffer of NStep"),
        ({"unit": Sequence(3)}, r"collected is a VectorReplayBuffer of Sequence"),
        ({"stack_num": 2}, "collected stacks 2 frames, but data 1: give both one stack_num"),
    ],
)
def test_what_cannot_be_mixed(options, message):
    with pytest.raises(ValueError, match=message):
        MixedReplayBuffer(filled(5, **options), filled(5))


@pytest.mark.parametrize(
    "made",
    [
        lambda: PrioritizedVectorReplayBuffer(9, 1, alpha=0.6, beta=0.4),
        lambda: HERReplayBuffer(9, compute_reward_fn=lambda a, b: 0.0, horizon=3),
    ],
)
def test_priorities_and_goals_cannot_be_mixed(made):
    for arguments in ((made(), filled(5)), (filled(5), made())):
        with pytest.raises(ValueError, match="only transitions that are drawn uniformly can be mixed"):
            MixedReplayBuffer(*arguments)


@pytest.mark.parametrize(
    ("share", "error"), [(1.5, ValueError), (-0.1, ValueError), (float("nan"), ValueError), ("a", TypeError)]
)
def test_bad_shares(share, error):
    with pytest.raises(error, match="data_share must be"):
        MixedReplayBuffer(filled(5), filled(5), data_share=share)


def test_indices_in_another_order(mixed):
    with pytest.raises(ValueError, match="indices of collected rows must come before those of the data"):
        mixed.nstep(np.array([20, 0]), 1, 0.9)


def test_no_row_to_draw(mixed):
    mixed.collected.reset()
    with pytest.raises(ValueError, match="empty"):
        mixed.sample(4)


def test_hidden_states_cannot_be_mixed():
    collected = ReplayBuffer(5, seed=0)
    row = {"obs": 0, "act": 0, "rew": 0.0, "terminated": False, "truncated": False, "obs_next": 0}
    collected.add(Batch(**row, policy={"hidden_state": {"hidden": np.zeros(2)}}))
    data = ReplayBuffer(5, seed=0)
    data.append(**row)
    with pytest.raises(ValueError, match="recurrent policies cannot mix"):
        MixedReplayBuffer(collected, data).sample(2)
