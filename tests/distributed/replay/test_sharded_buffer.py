"""Shards as one buffer, with actors in this process."""

import numpy as np
import pytest
import torch

from rlfast.data import Batch, NStep, PrioritizedVectorReplayBuffer, Sequence, VectorReplayBuffer
from rlfast.distributed import PrioritizedShardedBuffer, Shard, ShardConfig, ShardedBuffer
from rlfast.distributed.cluster.actors import ActorLost, InProcessCluster


def chunk(start, steps=4, envs=2, end=False):
    """Rows whose observations are numbers that occur once."""
    rows = VectorReplayBuffer(steps * envs, envs, seed=0)
    for t in range(steps):
        obs = np.array([start + env * 1000 + t for env in range(envs)], np.float32)
        done = np.full(envs, end and t == steps - 1)
        rows.add(
            Batch(
                obs=obs,
                act=np.zeros(envs, int),
                rew=obs,
                terminated=done,
                truncated=np.zeros(envs, bool),
                obs_next=obs + 1,
            )
        )
    return rows


def config(**changes):
    return ShardConfig(**{"rows": 64, "rings": 4, "seed": 0, "unit": NStep(1, 0.9), **changes})


def sharded(number=2, kind=ShardedBuffer, alpha=None, ahead=0, filled=True, **options):
    cluster = InProcessCluster()
    shards = [cluster.start(Shard, config(seed=k, alpha=alpha)) for k in range(number)]
    buffer = kind(shards, seed=0, ahead=ahead, **options)
    if filled:
        for k, shard in enumerate(shards):
            for part in range(k + 1):
                buffer.note(k, shard.call("insert", chunk(10_000 * k + 100 * part), 2 * (part % 2)).result())
    return cluster, buffer


# -- one shard -------------------------------------------------------------------------------------------------------


def test_a_shard_has_the_rows_of_its_collectors_in_their_rings():
    shard = Shard(config())
    assert shard.insert(chunk(0), 0) == (8, 8.0)
    shard.insert(chunk(4, end=True), 0)
    shard.insert(chunk(500), 2)
    obs = [shard.buffer.buffers[ring][:].obs.tolist() for ring in range(4)]
    assert obs == [[*range(8)], [*range(1000, 1008)], [*range(500, 504)], [*range(1500, 1504)]]
    assert shard.buffer.buffers[0].done[:8].tolist() == [False] * 7 + [True]
    assert shard.buffer.unfinished_index().tolist() == [35, 51]


def test_an_episode_goes_on_in_the_next_chunk():
    shard = Shard(config(unit=NStep(3, 0.5)))
    for start in (0, 4):
        shard.insert(chunk(start, envs=1), 0)
    sums, *_ = shard.buffer.nstep(np.array([2]), 3, 0.5)
    assert sums.tolist() == [2 + 3 * 0.5 + 4 * 0.25]  # across the end of the first chunk


def test_an_episode_of_a_collector_that_is_gone_ends():
    shard = Shard(config(unit=NStep(3, 0.5)))
    shard.insert(chunk(0, envs=1), 0)
    shard.insert(chunk(40, envs=1), 0, True)
    sums, discount, last = shard.buffer.nstep(np.array([2]), 3, 0.5)
    assert (sums.tolist(), last.tolist(), discount.tolist()) == ([2 + 3 * 0.5], [3], [0.25])
    assert shard.buffer.truncated[3]
    assert not shard.buffer.terminated[3]


def test_a_shard_says_how_likely_its_rows_were():
    shard = Shard(config(alpha=1.0))
    shard.insert(chunk(0), 0)
    drawn = shard.sample(8)
    assert drawn.probability.tolist() == [1 / 8] * 8
    shard.update_weight(drawn.ticket, drawn.batch.obs.astype(float) + 1.0)
    again = shard.sample(500)
    np.testing.assert_allclose(again.probability, shard.buffer.weight[again.indices] / again.level.mass)
    assert len(set(again.probability)) > 3
    assert again.level.mass == pytest.approx(shard.buffer.weight.reduce())


def test_priorities_are_set_once_for_each_draw():
    shard = Shard(config(alpha=1.0))
    shard.insert(chunk(0), 0)
    ticket = shard.sample(4).ticket
    level = shard.update_weight(ticket, np.full(4, 9.0))
    assert level.mass > 16
    assert shard.update_weight(ticket, np.zeros(4)) == level  # forgotten: nothing changes
    assert shard.update_weight(12345, np.zeros(4)) == level


def test_rows_that_were_overwritten_since_keep_their_priority():
    shard = Shard(config(alpha=1.0, rows=8, rings=2))
    shard.insert(chunk(0), 0)
    ticket = shard.sample(64).ticket
    shard.insert(chunk(4), 0)
    shard.update_weight(ticket, np.full(64, 50.0))
    assert shard.buffer.stale_updates == 64
    assert shard.level().mass == 8.0


def test_samples_that_no_learner_came_back_for_are_forgotten():
    shard = Shard(config(alpha=1.0))
    shard.insert(chunk(0), 0)
    for _ in range(1000):
        shard.sample(1)
    assert len(shard._drawn) == 256
    assert max(shard._drawn) == 1000


# -- several shards --------------------------------------------------------------------------------------------------


def test_rows_of_all_shards_are_drawn_equally_often():
    _, buffer = sharded()
    assert len(buffer) == 8 + 16
    seen = np.concatenate([buffer.sample(24)[0].obs for _ in range(200)])
    rows, counts = np.unique(seen, return_counts=True)
    assert len(rows) == 24
    assert counts.min() > 140
    assert counts.max() < 270


def test_a_batch_has_what_updates_need():
    _, buffer = sharded()
    batch, indices = buffer.sample(6)
    assert len(batch) == len(indices) == 6
    assert {"discount", "last_index", "obs_next"} <= {*batch.keys()}
    assert sum(rows for *_, rows in indices.draws) == 6
    assert not hasattr(buffer, "update_weight")
    assert "weight" not in batch


def test_batches_are_asked_for_ahead():
    cluster, buffer = sharded(ahead=2)
    buffer.sample(6)
    assert [len(actor._waiting) for actor in cluster.actors] == [2, 2]
    buffer.sample(6)
    assert [len(actor._waiting) for actor in cluster.actors] == [2, 2]
    batch, _ = buffer.sample(3)  # of another size: what was asked for is dropped
    assert len(batch) == 3
    buffer.forget()
    assert len(buffer.sample(6)[0]) == 6


@pytest.mark.parametrize("size", [0, -1, None])
def test_shards_are_sampled_by_the_batch(size):
    with pytest.raises(ValueError, match="batch_size must be positive"):
        sharded()[1].sample(size)


def test_nothing_is_drawn_from_empty_shards():
    with pytest.raises(ValueError, match="all shards are empty"):
        sharded(filled=False)[1].sample(2)


def test_importance_weights_are_those_of_the_union():
    """The same rows and priorities in one buffer and in two shards: the same weight for the same row."""
    _, buffer = sharded(kind=PrioritizedShardedBuffer, alpha=0.6, beta=0.4)
    one = PrioritizedVectorReplayBuffer(128, 4, alpha=0.6, beta=0.4, weight_norm=False, seed=0)
    for rows, rings in ((chunk(0), [0, 1]), (chunk(10_000), [0, 1]), (chunk(10_100), [2, 3])):
        everything = rows[rows.sample_indices(0)]
        one.add(everything, np.repeat(rings, 4))
    for _ in range(30):
        batch, indices = buffer.sample(16)
        buffer.update_weight(indices, batch.obs % 7 + 0.5)
        everything, places = one.sample(0)
        one.update_weight(places, everything.obs % 7 + 0.5)
    buffer.refresh()
    buffer.sample(16)
    batch, _ = buffer.sample(64)
    everything, places = one.sample(0)
    tree = one.weight
    by_obs = dict(zip(everything.obs.tolist(), (tree[places] / tree.reduce()).tolist(), strict=True))
    expected = (len(one) * np.array([by_obs[obs] for obs in batch.obs.tolist()])) ** -0.4
    np.testing.assert_allclose(batch.weight, expected / expected.max(), rtol=1e-9)
    assert len(np.unique(batch.weight.round(9))) > 4


def test_weights_are_right_where_a_shard_has_changed_since_it_reported():
    cluster, buffer = sharded(kind=PrioritizedShardedBuffer, alpha=1.0, beta=1.0)
    shard = cluster.actors[1].target
    ticket = shard.sample(64).ticket
    shard.update_weight(ticket, np.full(64, 3.0))  # the buffer was not told
    q = [buffer.top.probability(k) for k in range(2)]
    batch, indices = buffer.sample(12)
    (first, _, in_first), _ = indices.draws
    assert first == 0
    expected = np.array([q[0] / 8] * in_first + [q[1] / 16] * (12 - in_first))
    weights = 1 / (24 * expected)
    np.testing.assert_allclose(batch.weight, weights / weights.max(), rtol=1e-6)


def test_learners_that_share_a_batch_divide_by_one_number():
    asked = []
    _, buffer = sharded(
        kind=PrioritizedShardedBuffer, alpha=1.0, beta=1.0, largest=lambda own: asked.append(own) or 4.0
    )
    batch, _ = buffer.sample(12)
    np.testing.assert_allclose(batch.weight, asked[0] / 4.0)
    assert asked == [pytest.approx(1.0)]


def test_priorities_of_a_batch_reach_their_shards():
    _, buffer = sharded(kind=PrioritizedShardedBuffer, alpha=1.0, beta=1.0)
    batch, indices = buffer.sample(12)
    buffer.update_weight(indices, torch.tensor(batch.obs))
    buffer.refresh()
    expected = {obs: obs for obs in batch.obs.tolist()}
    for shard in buffer.shards:
        rows, places = shard.target.buffer.sample(0)
        for obs, leaf in zip(rows.obs.tolist(), shard.target.buffer.weight[places], strict=True):
            assert leaf == pytest.approx(expected.get(obs, 1.0), rel=1e-5)
    assert buffer.top.mass == pytest.approx(sum(shard.target.buffer.weight.reduce() for shard in buffer.shards))


@pytest.mark.parametrize("errors", [np.ones(11), np.full(12, np.nan), np.full(12, np.inf)])
def test_wrong_errors_reach_no_shard(errors):
    cluster, buffer = sharded(kind=PrioritizedShardedBuffer, alpha=1.0, beta=1.0)
    _, indices = buffer.sample(12)
    with pytest.raises(ValueError, match="priorities of 12 rows"):
        buffer.update_weight(indices, errors)
    assert all(not actor._waiting for actor in cluster.actors)


def test_beta_is_not_negative():
    _, buffer = sharded(kind=PrioritizedShardedBuffer, alpha=1.0, beta=1.0)
    buffer.set_beta(0.0)
    assert buffer.sample(8)[0].weight.tolist() == [1.0] * 8
    for beta in (-0.1, float("nan")):
        with pytest.raises(ValueError, match="beta must be >= 0"):
            buffer.set_beta(beta)


# -- losses ----------------------------------------------------------------------------------------------------------


def test_a_lost_shard_is_an_error_where_nobody_replaces_it():
    cluster, buffer = sharded()
    cluster.actors[1].kill()
    with pytest.raises(ActorLost):
        buffer.sample(8)


@pytest.mark.parametrize("ahead", [0, 2])
def test_a_batch_is_whole_when_a_shard_is_lost(ahead):
    cluster, buffer = sharded(ahead=ahead)
    lost = []

    def replace(number):
        lost.append((number, buffer.rows_of(number)))
        return cluster.start(Shard, config())

    buffer.supervise(on_lost=replace, on_empty=lambda: pytest.fail("there are rows"))
    buffer.sample(8)
    cluster.actors[1].kill()
    for _ in range(4):
        batch, _ = buffer.sample(8)
        assert len(batch) == 8
        assert (batch.obs < 10_000).all()
    assert lost == [(1, 16)]  # once, whatever was asked for of the old one
    assert len(buffer) == 8
    buffer.refresh()
    assert len(buffer) == 8


def test_where_all_rows_are_lost_the_learner_waits_for_new_ones():
    cluster, buffer = sharded(number=1)

    def fill():
        buffer.note(0, buffer.shards[0].call("insert", chunk(77), 0).result())

    buffer.supervise(on_lost=lambda _: cluster.start(Shard, config()), on_empty=fill)
    cluster.actors[0].kill()
    batch, _ = buffer.sample(5)
    assert set(batch.obs.tolist()) <= {77, 78, 79, 80, 1077, 1078, 1079, 1080}


def test_priorities_of_rows_that_were_lost_are_counted():
    cluster, buffer = sharded(kind=PrioritizedShardedBuffer, alpha=1.0, beta=1.0)
    buffer.supervise(on_lost=lambda _: cluster.start(Shard, config(alpha=1.0)), on_empty=lambda: None)
    _, indices = buffer.sample(12)
    cluster.actors[1].kill()
    for _ in range(5):
        buffer.update_weight(indices, np.ones(12))
    assert buffer.updates_lost > 0


# -- files -----------------------------------------------------------------------------------------------------------


def test_shards_are_saved_and_restored(tmp_path, monkeypatch):
    monkeypatch.setattr("rlfast.distributed.replay.shard.PIECE", 100)  # many pieces
    monkeypatch.setattr("rlfast.distributed.replay.sharded_buffer.PIECE", 100)
    _, buffer = sharded(kind=PrioritizedShardedBuffer, alpha=1.0, beta=1.0)
    batch, indices = buffer.sample(12)
    buffer.update_weight(indices, batch.obs + 1.0)
    buffer.refresh()
    buffer.save(tmp_path / "buffer")
    _, other = sharded(kind=PrioritizedShardedBuffer, alpha=1.0, beta=1.0, filled=False)
    restore = other.prepare_restore(tmp_path / "buffer")
    assert len(other) == 0
    restore()
    assert len(other) == 24
    assert other.top.mass == pytest.approx(buffer.top.mass)
    for ours, theirs in zip(buffer.shards, other.shards, strict=True):
        np.testing.assert_array_equal(ours.target.buffer.obs, theirs.target.buffer.obs)
        assert theirs.target._file is None


def test_snapshots_that_do_not_fit_change_nothing(tmp_path):
    _, buffer = sharded()
    buffer.save(tmp_path / "buffer")
    _, three = sharded(number=3)
    with pytest.raises(ValueError, match="this run has 3 shards"):
        three.prepare_restore(tmp_path / "buffer")
    file = tmp_path / "buffer" / "shard-0001.snapshot"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"shard-0001\.snapshot cannot be used"):
        buffer.prepare_restore(tmp_path / "buffer")
    assert len(buffer) == 24


def test_a_snapshot_of_another_size_does_not_fit(tmp_path):
    _, buffer = sharded(number=1)
    buffer.save(tmp_path / "buffer")
    cluster = InProcessCluster()
    other = ShardedBuffer([cluster.start(Shard, config(rows=32))], seed=0)
    with pytest.raises(ValueError, match="has 64 rows in 4 rings, this shard has 32 in 4"):
        other.prepare_restore(tmp_path / "buffer")


def test_a_shard_that_is_lost_while_it_is_saved_is_an_error_of_the_file(tmp_path):
    cluster, buffer = sharded()
    cluster.actors[1].kill()
    with pytest.raises(OSError, match="replay shard 1 was lost while it was saved"):
        buffer.save(tmp_path / "buffer")


def test_pieces_need_a_beginning():
    for call in (lambda: Shard(config()).read(0), lambda: Shard(config()).write(b"")):
        with pytest.raises(RuntimeError, match="no snapshot was begun"):
            call()


def test_sequences_are_drawn_from_shards():
    cluster = InProcessCluster()
    shards = [cluster.start(Shard, config(unit=Sequence(3, 1)))]
    buffer = ShardedBuffer(shards, seed=0, ahead=0)
    buffer.note(0, shards[0].call("insert", chunk(0), 0).result())
    batch, indices = buffer.sample(5)
    assert batch.obs.shape == (5, 4)
    assert len(indices) == 5
