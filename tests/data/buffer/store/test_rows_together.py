"""Many rows of a ring in one call are stored as rows of one call each."""

import numpy as np
import pytest

from rlfast.data import ReplayBuffer, VectorReplayBuffer


def rows(count, seed):
    """Rows of episodes, some of which go on elsewhere than they led to, in or after an episode."""
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=(count + 1, 3)).astype(np.float32)
    obs_next = obs[1:].copy()
    jumps = rng.random(count) < 0.2
    obs_next[jumps] += 1
    flags = {"terminated": rng.random(count) < 0.1, "truncated": rng.random(count) < 0.1}
    return {
        "obs": obs[:-1],
        "act": rng.normal(size=(count, 2)),
        "rew": rng.normal(size=count),
        "obs_next": obs_next,
    } | flags


def shown(buffer):
    index = buffer.sample_indices(0)
    return index, {key: buffer.get(index, key) for key in ("obs", "act", "rew", "obs_next", "terminated", "truncated")}


@pytest.mark.parametrize("size", [1, 2, 7, 40, 100])
@pytest.mark.parametrize("options", [{}, {"ignore_obs_next": True}, {"stack_num": 2}])
def test_rows_of_one_ring(size, options):
    columns = rows(60, size)
    together, apart = (ReplayBuffer(size, **options) for _ in range(2))
    added = [
        together._core.add({k: v[s] for k, v in columns.items()}, np.zeros(s.stop - s.start, np.int64))
        for s in (slice(0, 25), slice(25, 60))
    ]
    one = [apart._core.add({key: column[k] for key, column in columns.items()}, None) for k in range(60)]
    for found, wanted in zip(zip(*added, strict=True), zip(*one, strict=True), strict=True):
        assert np.array_equal(np.concatenate(found), np.concatenate(wanted))
    (index, found), (wanted_index, wanted) = shown(together), shown(apart)
    assert np.array_equal(index, wanted_index)
    for key, column in wanted.items():
        assert np.array_equal(found[key], column), key


def test_rows_of_several_rings_that_alternate_and_repeat():
    columns, rings = rows(60, 0), np.random.default_rng(0).integers(2, size=60)
    together, apart = (VectorReplayBuffer(40, 2) for _ in range(2))
    together._core.add(columns, rings)
    for k in range(60):
        apart._core.add({key: column[k : k + 1] for key, column in columns.items()}, rings[k : k + 1])
    (index, found), (wanted_index, wanted) = shown(together), shown(apart)
    assert np.array_equal(index, wanted_index)
    for key, column in wanted.items():
        assert np.array_equal(found[key], column), key


def test_unknown_buffer_id_raises_index_error():
    buffer = ReplayBuffer(4)
    with pytest.raises(IndexError, match="buffer id 1 is out of range"):
        buffer._core.add(rows(4, 0), np.ones(4, np.int64))
    with pytest.raises(ValueError, match="size 0 takes no rows"):
        ReplayBuffer(0)._core.add(rows(4, 0), np.zeros(4, np.int64))
