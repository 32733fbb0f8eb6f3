"""Collectors that fill shards, in this process: how many steps, for whom, and what happens when one is lost."""

from dataclasses import replace

import numpy as np
import pytest

from rlfast.distributed.build import build
from rlfast.experiment.algorithms import ALGORITHMS
from rlfast.experiment.config import RunWarning


def config(**changes):
    made = ALGORITHMS["dqn"].config(
        ray="in-process", collectors=3, shards=2, num_envs=6, max_steps=600, start_steps=60, collect_steps=12,
        updates_per_step=0.25, batch_size=8, buffer_size=6000, chunk_steps=16, eval_envs=1, hidden_sizes=(8,), n_step=2,
    )  # fmt: skip
    return replace(made, **changes)


@pytest.fixture
def make():
    parts = []

    def made(**changes):
        parts.append(build(config(**changes)))
        return parts[-1].train_collector

    yield made
    for one in parts:
        one.close()


def actors(collectors, kind):
    return [actor for actor in collectors._cluster.actors if type(actor.target).__name__ == kind]


def test_exactly_the_steps_that_were_asked_for_are_counted(make):
    collectors = make()
    assert collectors.env_num == 6
    stats = collectors.collect(n_step=60, random=True)
    assert (stats.n_collected_steps, collectors.collect_step, len(collectors.buffer)) == (60, 60, 60)
    assert collectors.in_flight == 0  # random steps are not taken ahead
    assert collectors.collect(n_step=12).n_collected_steps == 12
    assert collectors.collect_step == 72
    assert collectors.in_flight > 0


def test_collectors_go_no_further_than_the_tolerance(make):
    collectors = make(insert_ahead=40)
    collectors.collect(n_step=60, random=True)
    for learned in range(0, 240, 12):
        collectors.gradient_step = learned // 4
        collectors.collect(n_step=12)
        assert collectors._granted - 60 - learned <= 40
    assert collectors.limiter.samples == collectors.gradient_step * 8
    assert collectors.figures()["samples_per_insert_wanted"] == 2.0


def test_a_learner_that_needs_more_than_the_tolerance_gets_it(make):
    collectors = make(insert_ahead=1)
    assert collectors.collect(n_step=300).n_collected_steps == 300


def test_the_run_has_exactly_its_steps(make):
    collectors = make(max_steps=207)
    for steps in (60, 100, 47):
        collectors.collect(n_step=steps)
    assert (collectors._granted, collectors.in_flight, len(collectors.buffer)) == (207, 0, 207)
    with pytest.raises(RuntimeError, match="no step is left of the 207 of the run"):
        collectors.collect(n_step=1)


def test_collects_are_of_steps(make):
    collectors = make()
    for given in ({}, {"n_episode": 2}, {"n_step": 4, "n_episode": 2}):
        with pytest.raises(TypeError, match="give n_step"):
            collectors.collect(**given)


def test_episodes_are_counted_once(make):
    collectors = make()
    returns, lens = [], []
    for _ in range(20):
        stats = collectors.collect(n_step=24)
        returns.extend(stats.returns)
        lens.extend(stats.lens)
    assert collectors.collect_episode == len(returns) > 5
    assert returns == lens  # CartPole pays 1 for each step
    collectors.state_dict()  # waits for all that is on its way
    stored = [actor.target.buffer for actor in actors(collectors, "Shard")]
    ended = sum(int(buffer[:].done.sum()) for buffer in stored)
    assert ended == len(returns) + sum(len(report.lens) for report in collectors._reports)


def test_rows_go_to_the_shards_in_rings_of_their_own(make):
    collectors = make()
    collectors.collect(n_step=96)
    collectors.state_dict()
    shards = [actor.target.buffer for actor in actors(collectors, "Shard")]
    assert [shard.buffer_num for shard in shards] == [4, 2]
    assert [len(ring) > 0 for shard in shards for ring in shard.buffers] == [True] * 6
    for shard in shards:
        for ring in shard.buffers:
            rows = ring[:]
            goes_on = ~rows.done[:-1]
            np.testing.assert_array_equal(rows.obs_next[:-1][goes_on], rows.obs[1:][goes_on])


def test_environments_have_the_seeds_of_one_process(make):
    collectors = make(num_envs=4, collectors=2, chunk_steps=2)
    collectors.collect(n_step=4, random=True)
    one = build(config(ray=None, collectors=1, shards=1, num_envs=4))
    one.train_collector.collect(n_step=4, random=True)
    first = one.train_collector.buffer[one.train_collector.buffer.sample_indices(0)].obs
    ours = [shard.target.buffer for shard in actors(collectors, "Shard")]
    collectors.state_dict()
    np.testing.assert_array_equal(np.concatenate([shard[shard.sample_indices(0)].obs for shard in ours])[:4], first)
    one.close()


def test_collectors_act_with_weights_no_older_than_was_said(make):
    collectors = make(weights_every=5)
    for step in range(0, 100, 4):
        collectors.gradient_step = step
        collectors.collect(n_step=16)
        assert step - collectors._broadcast._newest.version < 5
    figures = collectors.figures()
    assert 0 <= figures["staleness_mean"] <= figures["staleness_max"] <= 100


def test_the_age_of_weights_is_measured_when_rows_arrive(make):
    collectors = make(collectors=1, shards=1, num_envs=1, collect_steps=1, chunk_steps=4, weights_every=1)
    collectors.collect(n_step=4)
    collectors.gradient_step = 7
    collectors.collect(n_step=4)
    assert [*collectors.staleness] == [0, 7]  # it was on its way before the learner had learned
    assert collectors.figures()["staleness_max"] == 7.0


def test_collectors_explore_as_the_schedule_says(make):
    collectors = make(eps_steps=100, chunk_steps=8)
    collectors.collect(n_step=300)
    eps = [actor.target.policy.eps for actor in actors(collectors, "CollectorWorker")]
    assert eps == [0.05] * 3


# -- losses ----------------------------------------------------------------------------------------------------------


def test_a_collector_that_is_lost_is_replaced_and_its_steps_are_taken(make):
    collectors = make()
    collectors.collect(n_step=60, random=True)
    collectors.collect(n_step=12)
    actors(collectors, "CollectorWorker")[1].kill()
    with pytest.warns(RunWarning, match="collector 1 was lost, and 32 steps with it"):
        collectors.collect(n_step=96)
    while collectors.collect_step < 600:
        collectors.collect(n_step=12)
    assert (collectors.restarts, collectors._granted, collectors.in_flight) == (1, 600, 0)
    assert collectors.limiter.inserts == 600  # those that were lost do not count
    assert len(collectors.buffer) == 600
    assert len(actors(collectors, "CollectorWorker")) == 4


def test_the_episodes_of_a_lost_collector_end_in_the_buffer(make):
    collectors = make(collectors=1, shards=1, num_envs=1, collect_steps=4, start_steps=1, chunk_steps=4)
    collectors.collect(n_step=4)
    actors(collectors, "CollectorWorker")[0].kill()
    with pytest.warns(RunWarning, match="collector 0 was lost"):
        collectors.collect(n_step=8)
    collectors.state_dict()
    rows = actors(collectors, "Shard")[0].target.buffer[:]
    for row in np.flatnonzero(~rows.done[:-1]):
        np.testing.assert_array_equal(rows.obs_next[row], rows.obs[row + 1])
    assert rows.truncated.any() or rows.terminated[:4].any()


def test_a_collector_that_never_works_ends_the_run(make, monkeypatch):
    collectors = make()

    def dying(number, restarts):
        actor = collectors._cluster.start(type(actors(collectors, "CollectorWorker")[0].target), *arguments)
        actor.kill()
        return actor

    arguments = [actors(collectors, "CollectorWorker")[0].target._config]
    monkeypatch.setattr(collectors, "_restart", dying)
    actors(collectors, "CollectorWorker")[0].kill()
    with pytest.warns(RunWarning), pytest.raises(RuntimeError, match="collector 0 has ended 6 times in a row"):
        collectors.collect(n_step=100)


def test_what_an_environment_raises_ends_the_run(make):
    collectors = make()
    worker = actors(collectors, "CollectorWorker")[0].target

    def broken(*args, **kwargs):
        raise ZeroDivisionError("no such thing")

    worker.collector.collect = broken
    with pytest.raises(ZeroDivisionError, match="no such thing"):
        collectors.collect(n_step=100)


def test_a_shard_that_is_lost_is_replaced_and_filled(make):
    collectors = make()
    collectors.collect(n_step=60, random=True)
    rows = collectors.buffer.rows_of(1)
    actors(collectors, "Shard")[1].kill()
    with pytest.warns(RunWarning, match=f"replay shard 1 was lost, and its {rows} rows with it"):
        collectors.collect(n_step=96)
    collectors.state_dict()
    assert collectors.shards_lost == 1
    fresh = actors(collectors, "Shard")[2].target.buffer
    assert [len(ring) > 0 for ring in fresh.buffers] == [True] * 2
    assert collectors.buffer.rows_of(1) == len(fresh)
    batch, _ = collectors.buffer.sample(16)
    assert len(batch) == 16


def test_when_every_shard_is_lost_sampling_waits_for_new_rows(make):
    collectors = make()
    collectors.collect(n_step=60, random=True)
    for shard in actors(collectors, "Shard"):
        shard.kill()
    with pytest.warns(RunWarning, match="replay shard"):
        batch, _ = collectors.buffer.sample(8)
    assert len(batch) == 8
    assert collectors.shards_lost == 2


def test_when_every_shard_is_lost_at_the_end_that_is_said(make):
    collectors = make(max_steps=60)
    collectors.collect(n_step=60, random=True)
    for shard in actors(collectors, "Shard"):
        shard.kill()
    with pytest.warns(RunWarning), pytest.raises(RuntimeError, match="no step of the run is left to fill new ones"):
        collectors.buffer.sample(8)


# -- state -----------------------------------------------------------------------------------------------------------


def test_a_state_has_what_was_on_its_way(make):
    collectors, other = make(), make()
    collectors.collect(n_step=60, random=True)
    collectors.collect(n_step=12)
    state = collectors.state_dict()
    assert collectors.in_flight == 0
    assert other.load_state_dict(state) == {}
    assert other.collect_step == 72
    assert (other._granted, other._arrived) == (collectors._granted, collectors._arrived)
    assert other.limiter.insertable == collectors.limiter.insertable
    ours, theirs = (actors(one, "CollectorWorker")[2].target for one in (collectors, other))
    np.testing.assert_array_equal(ours.collector.data.obs, theirs.collector.data.obs)
    assert ours.policy.random_state() == theirs.policy.random_state()


def test_a_collector_that_is_lost_while_its_state_is_read_is_replaced(make):
    collectors = make()
    collectors.collect(n_step=60, random=True)
    actors(collectors, "CollectorWorker")[0].kill()
    with pytest.warns(RunWarning, match="collector 0 was lost"):
        assert len(collectors.state_dict()["collectors"]) == 3


def test_a_state_of_other_collectors_does_not_fit(make):
    with pytest.raises(ValueError, match="the state is of 3 collectors, not of 2"):
        make(collectors=2).load_state_dict(make().state_dict())
