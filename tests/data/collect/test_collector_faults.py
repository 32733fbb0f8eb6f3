"""The transitions that are stored and counted when an environment fails and is made again."""

import time

import numpy as np
import pytest
import torch

from faulty import Faulty
from rlfast.data import (
    AsyncCollector,
    CachedReplayBuffer,
    Collector,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
)
from rlfast.env import SubprocVectorEnv
from rlfast.policy import BasePolicy
from scripted import Scripted, ScriptedPolicy

MODES = [None, "DISABLED", "SAME_STEP", "NEXT_STEP"]
LENGTH, BREAKS = 5, 4
"""Steps of an episode, and the step of environment 1 that fails."""
BUFFERS = {
    "plain": lambda: VectorReplayBuffer(60, 2, seed=0),
    "prioritized": lambda: PrioritizedVectorReplayBuffer(60, 2, alpha=0.6, beta=0.4, seed=0),
    "cached": lambda: CachedReplayBuffer(ReplayBuffer(40, seed=0), 2, 10),
}


@pytest.fixture
def make(tmp_path):
    made = []

    def fleet(fault="exit", mode=None, **options):
        fns = [lambda: Scripted(LENGTH), lambda: Faulty(fault, at=BREAKS, length=LENGTH, once=str(tmp_path / "once"))]
        options = {"num_workers": 2} | options  # one each, also where there is one core
        made.append(SubprocVectorEnv(fns, autoreset_mode=mode, on_error="restart", **options))
        return made[-1]

    yield fleet
    for envs in made:
        envs.close()


def first_after(mode):
    """The number of the first episode that the new object plays: it was reset when it was made, and is reset again
    where that is the caller's to do, or the next step's."""
    return 0 if mode == "SAME_STEP" else 1


@pytest.mark.pitfall("E5")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fault", ["raise", "exit"])
def test_a_broken_episode_ends_with_its_last_true_observation(make, fault, mode):
    envs, buffer = make(fault, mode), BUFFERS["plain"]()
    stats = Collector(ScriptedPolicy(), envs, buffer).collect(n_step=40)
    steady, broken = (one[:] for one in buffer.buffers)
    assert steady.truncated.tolist() == [False] * len(steady)
    steps = [[0, 0], [0, 1], [0, 2]] + [[first_after(mode) + e, s] for e in range(9) for s in range(LENGTH)]
    np.testing.assert_array_equal(broken.obs, steps[: len(broken)])
    np.testing.assert_array_equal(broken.obs_next, [[e, s + 1] for e, s in steps[: len(broken)]])
    assert np.flatnonzero(broken.truncated).tolist() == [BREAKS - 2]  # the row before the step that failed
    assert np.flatnonzero(broken.terminated).tolist() == [7, 12, 17][: (len(broken) - 3) // LENGTH]
    assert (broken.rew == 1).all()
    assert stats.n_broken_episodes == envs.restarts == 1
    assert set(stats.lens.tolist()) == {LENGTH}
    assert set(stats.returns.tolist()) == {float(LENGTH)}
    assert stats.n_collected_episodes == int(steady.terminated.sum() + broken.terminated.sum())
    assert stats.n_collected_steps == len(buffer)


@pytest.mark.pitfall("E5")
@pytest.mark.parametrize("mode", MODES)
def test_who_shared_a_worker_with_the_broken_one_breaks_with_it(make, mode):
    envs, buffer = make("exit", mode, num_workers=1), BUFFERS["plain"]()
    stats = Collector(ScriptedPolicy(), envs, buffer).collect(n_step=40)
    for one in buffer.buffers:
        assert np.flatnonzero(one[:].truncated).tolist() == [BREAKS - 2]
        np.testing.assert_array_equal(one[:].obs_next[BREAKS - 2], [0, 3])
        np.testing.assert_array_equal(one[:].obs[BREAKS - 1], [first_after(mode), 0])
    assert stats.n_broken_episodes == envs.restarts == 2
    assert set(stats.lens.tolist()) == {LENGTH}


@pytest.mark.pitfall("E5")
def test_an_answer_that_ended_its_episode_counts_though_the_worker_died_after_it(make, tmp_path):
    fns = [lambda: Scripted(BREAKS), lambda: Faulty("exit", at=BREAKS, length=LENGTH, once=str(tmp_path / "once"))]
    envs = SubprocVectorEnv(fns, on_error="restart", num_workers=1)
    buffer = BUFFERS["plain"]()
    stats = Collector(ScriptedPolicy(), envs, buffer).collect(n_step=16)
    envs.close()
    first = buffer.buffers[0][:]
    assert first.terminated.tolist()[:BREAKS] == [False] * (BREAKS - 1) + [True]
    assert not first.truncated.any()
    assert BREAKS in stats.lens
    assert stats.n_broken_episodes == 1


@pytest.mark.pitfall("E5")
@pytest.mark.filterwarnings("ignore:asynchronous environments")
@pytest.mark.parametrize("fault", ["raise", "exit"])
def test_an_asynchronous_collector_goes_on_as_well(make, fault):
    envs, buffer = make(fault, wait_num=1), BUFFERS["plain"]()
    collector = AsyncCollector(ScriptedPolicy(), envs, buffer)
    stats = [collector.collect(n_step=8)]
    deadline = time.monotonic() + 300  # a new worker may take its time
    while not stats[-1].n_broken_episodes and time.monotonic() < deadline:
        stats.append(collector.collect(n_step=8))
    stats += [collector.collect(n_step=8) for _ in range(3)]
    for one in buffer.buffers:
        rows = one[one.sample_indices(0)]  # oldest first
        np.testing.assert_array_equal(rows.obs_next, np.add(rows.obs, [0, 1]))
        going_on = ~rows.done[:-1]
        np.testing.assert_array_equal(rows.obs[1:][going_on], rows.obs_next[:-1][going_on])
        assert (rows.obs[1:][~going_on, 1] == 0).all()
    assert np.flatnonzero(buffer.buffers[1][:].truncated).tolist() == [BREAKS - 2]
    assert sum(one.n_broken_episodes for one in stats) == envs.restarts == 1
    assert {int(length) for one in stats for length in one.lens} == {LENGTH}


def value(batch):
    """Returns the value of an observation; all values differ."""
    return torch.as_tensor(np.asarray(100 * batch.obs_next[:, 0] + batch.obs_next[:, 1] + 1000))


def assert_returns(buffer, mode):
    """Compares returns over three steps of the rows of environment 1 around the failure."""
    rows = np.arange(30, 35)
    batch = BasePolicy.compute_nstep_return(
        buffer[rows], buffer, rows, lambda buffer, index: value(buffer[index]), gamma=0.5, n_step=3
    )
    last = 1003.0  # of [0, 3], which the third row led to
    fresh = 1000.0 + 100 * first_after(mode)
    want = [1.75 + last / 8, 1.5 + last / 4, 1 + last / 2, 1.75 + (fresh + 3) / 8, 1.75 + (fresh + 4) / 8]
    np.testing.assert_allclose(batch.returns.flatten(), want)


@pytest.mark.pitfall("E5")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", BUFFERS)
def test_no_return_and_no_sample_spans_the_break(make, kind, mode):
    buffer = BUFFERS[kind]()
    Collector(ScriptedPolicy(), make("exit", mode), buffer).collect(n_step=40)
    if kind != "cached":
        assert_returns(buffer, mode)
    batch, index = buffer.sample(2000)
    np.testing.assert_array_equal(batch.obs_next[:, 0], batch.obs[:, 0])
    np.testing.assert_array_equal(batch.obs_next[:, 1], batch.obs[:, 1] + 1)
    assert {tuple(row) for row in batch.obs.tolist()} >= {(0.0, float(step)) for step in range(LENGTH)}
    if kind == "prioritized":
        assert len(np.unique(index)) == len(buffer)  # every row that was stored, and no other
        buffer.update_weight(index, np.ones(len(index)))
        assert set(buffer.sample(2000)[1]) <= set(index)


@pytest.mark.pitfall("E5")
@pytest.mark.parametrize("mode", MODES)
def test_an_evaluation_plays_another_episode_for_the_broken_one(make, mode):
    envs = make("exit", mode)
    stats = Collector(ScriptedPolicy(), envs).evaluate(6)
    assert stats.lens.tolist() == [LENGTH] * 6
    assert stats.n_broken_episodes == 1
