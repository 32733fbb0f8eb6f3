"""D: the ring, episodes, hindsight, sequences, and what is left after saving, loading and dying."""

import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from pitfalls.rows import fill, transition, vector_step
from rlfast.data import (
    Batch,
    HERReplayBuffer,
    HERVectorReplayBuffer,
    PrioritizedReplayBuffer,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
)

# -- D1, D2: the write pointer -----------------------------------------------------------------------------------------


@pytest.mark.pitfall("D1")
@pytest.mark.parametrize("capacity", [1, 2, 5, 8])
def test_a_ring_is_full_after_exactly_its_capacity(capacity):
    buffer = ReplayBuffer(capacity)
    for number in range(3 * capacity + 1):
        index, *_ = buffer.add(transition(number))
        assert index.tolist() == [number % capacity]
        assert len(buffer) == min(number + 1, capacity)
        order = buffer[buffer.sample_indices(0)].obs.tolist()
        assert order == list(range(max(0, number + 1 - capacity), number + 1))


@pytest.mark.pitfall("D1")
def test_a_ring_that_was_just_filled_is_saved_whole():
    """The write pointer is back at 0, which is not the same as empty."""
    buffer = pickle.loads(pickle.dumps(fill(ReplayBuffer(5), ".....")))
    assert buffer[:].obs.tolist() == [0, 1, 2, 3, 4]
    assert buffer.add(transition(5))[0].tolist() == [0]


@pytest.mark.pitfall("D2")
@pytest.mark.parametrize(
    "make",
    [lambda: PrioritizedReplayBuffer(3, 1.0, 1.0), lambda: PrioritizedVectorReplayBuffer(3, 1, 1.0, 1.0)],
    ids=["ring", "vector"],
)
def test_priorities_stand_where_their_rows_do_from_the_first_one_on(make):
    buffer = make()
    for number in range(5):
        index, *_ = buffer.add(vector_step([number], "."), buffer_ids=[0])
        assert index.tolist() == [number % 3]
        leaves = np.array(buffer.weight[np.arange(3)])
        assert (leaves > 0).tolist() == [slot <= number for slot in range(3)]
        assert set(buffer.sample_indices(60).tolist()) == set(range(min(number + 1, 3)))


# -- D3: hindsight -----------------------------------------------------------------------------------------------------


def compute_reward(achieved_goal, desired_goal):
    """0 where the goal is met, else -1: what a sparse environment says."""
    return np.where((achieved_goal == desired_goal).all(axis=-1), 0.0, -1.0)


def goal_row(episode, time, end):
    """Achieved goals name their episode and time, so that a relabelled goal tells where it comes from."""

    def observation(at):
        return {
            "observation": np.full(2, at, np.float64),
            "achieved_goal": np.array([episode, at], np.float64),
            "desired_goal": np.array([-1.0, -1.0]),
        }

    return Batch(
        obs=observation(time),
        obs_next=observation(time + 1),
        act=0,
        rew=-1.0,
        terminated=end == "T",
        truncated=end == "t",
        info={},
    )


def add_episode(buffer, episode, length, *, finished=True, ring=None):
    for time in range(length):
        row = goal_row(episode, time, "t" if finished and time == length - 1 else "")
        _ = buffer.add(row) if ring is None else buffer.add(Batch.stack([row]), buffer_ids=[ring])


def check_goals(buffer, horizon, draws=500):
    """Every relabelled goal is of the row's own episode, later than the row, alive, and the reward is its own."""
    batch, index = buffer.sample(draws)
    stored = buffer[:]
    alive = {tuple(goal) for goal in stored.obs_next.achieved_goal.tolist()}
    goals, achieved = batch.obs.desired_goal, batch.obs_next.achieved_goal
    relabelled = (goals != -1).all(axis=1)
    assert relabelled.any()
    for goal, own, reward in zip(
        goals[relabelled], batch.obs.achieved_goal[relabelled], batch.rew[relabelled], strict=True
    ):
        assert goal[0] == own[0], "a goal of another episode"
        assert own[1] < goal[1] <= own[1] + horizon, "a goal that was not ahead, or too far"
        assert tuple(goal) in alive, "a goal that was overwritten"
        assert reward == (0.0 if goal[1] == own[1] + 1 else -1.0)
    assert np.array_equal(batch.obs_next.desired_goal, goals)
    assert np.array_equal(batch.rew[relabelled], compute_reward(achieved, goals)[relabelled])
    assert (stored.obs.desired_goal == -1).all(), "the store was written to"
    assert len(index) == draws


@pytest.mark.pitfall("D3")
def test_goals_come_from_the_same_episode_later_and_alive():
    buffer = HERReplayBuffer(15, compute_reward, 50, 8, seed=1)
    add_episode(buffer, 1, 10)
    check_goals(buffer, 50)
    for time in range(20):  # overwrites the first episode row by row, and then its own beginning
        buffer.add(goal_row(2, time, "t" if time == 19 else ""))
        check_goals(buffer, 50, 200)


@pytest.mark.pitfall("D3")
@pytest.mark.parametrize("horizon", [1, 3])
def test_goals_lie_within_the_horizon(horizon):
    buffer = HERReplayBuffer(30, compute_reward, horizon, 8, seed=1)
    for episode in range(4):
        add_episode(buffer, episode, 9)
        check_goals(buffer, horizon)


@pytest.mark.pitfall("D3")
def test_an_episode_longer_than_the_ring_keeps_its_tail_consistent():
    buffer = HERReplayBuffer(6, compute_reward, 50, 8, seed=1)
    add_episode(buffer, 1, 40, finished=False)
    check_goals(buffer, 50)
    assert buffer[:].obs.observation[:, 0].tolist() == [34, 35, 36, 37, 38, 39]


@pytest.mark.pitfall("D3")
def test_goals_stay_in_their_own_environment():
    buffer = HERVectorReplayBuffer(24, 3, compute_reward, 50, 8, seed=1)
    for episode in range(9):
        add_episode(buffer, episode, 5 + episode % 3, finished=episode % 4 != 3, ring=episode % 3)
        if episode >= 2:
            check_goals(buffer, 50)


@pytest.mark.pitfall("D3")
def test_bit_flip_learns_saves_loads_and_goes_on():
    """Episodes of 7 in a ring of 100, saved in the middle of one after 135 rows: none becomes longer than 7."""

    def rows(first, last):
        for number in range(first, last):
            yield goal_row(number // 7, number % 7, "t" if number % 7 == 6 else "")

    buffer = HERReplayBuffer(100, compute_reward, 7, 4, seed=1)
    for row in rows(0, 135):
        buffer.add(row)
    buffer = pickle.loads(pickle.dumps(buffer))
    for row in rows(135, 270):
        _, episode_return, episode_length, _ = buffer.add(row)
        assert episode_length[0] in (0, 7)
        assert episode_return[0] in (0, -7)
    check_goals(buffer, 7, 2000)


# -- D5: saving and loading --------------------------------------------------------------------------------------------

NEW_PROCESS = """
    import hashlib, pickle, sys
    sys.path[:0] = {path!r}
    from pitfalls.test_ring import continue_with
    with open({file!r}, "rb") as saved:
        print(continue_with(pickle.load(saved)))
"""


def continue_with(buffer):
    """What a thousand samples and adds give from here on, as one number."""
    import hashlib

    total = hashlib.sha256()
    for number in range(1000):
        batch, index = buffer.sample(16)
        for array in (index, batch.obs, batch.obs_next, batch.rew, batch.done, getattr(batch, "weight", index)):
            total.update(np.ascontiguousarray(array).tobytes())
        if hasattr(buffer, "update_weight"):
            buffer.update_weight(index, np.abs(batch.rew) + number % 3)
        step = vector_step([number], "T" if number % 11 == 3 else "t" if number % 13 == 5 else ".", rew=[number / 7])
        for answer in buffer.add(step, buffer_ids=[number % getattr(buffer, "buffer_num", 1)]):
            total.update(np.ascontiguousarray(answer).tobytes())
    return total.hexdigest()


RESUMED = {
    "ring": lambda: ReplayBuffer(50, seed=4),
    "stacked": lambda: ReplayBuffer(50, stack_num=3, sample_avail=True, seed=4),
    "vector": lambda: VectorReplayBuffer(60, 3, seed=4),
    "prioritized": lambda: PrioritizedReplayBuffer(50, 0.6, 0.4, seed=4),
    "prioritized vector": lambda: PrioritizedVectorReplayBuffer(60, 3, 0.6, 0.4, weight_norm=False, seed=4),
}


def partly_filled(make):
    buffer = make()
    for number in range(77):
        ring = number % getattr(buffer, "buffer_num", 1)
        buffer.add(vector_step([number], "T" if number % 9 == 4 else ".", rew=[number * 0.5]), buffer_ids=[ring])
    if hasattr(buffer, "update_weight"):
        _, index = buffer.sample(20)
        buffer.update_weight(index, np.arange(20.0))
    buffer.sample(5)
    return buffer


@pytest.mark.pitfall("D5")
@pytest.mark.parametrize("kind", RESUMED)
def test_a_buffer_goes_on_in_a_new_process_as_if_it_had_not_been_saved(kind, tmp_path):
    buffer = partly_filled(RESUMED[kind])
    file = tmp_path / "buffer.pickle"
    file.write_bytes(pickle.dumps(buffer))
    script = textwrap.dedent(NEW_PROCESS.format(path=sys.path, file=str(file)))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == continue_with(buffer)


@pytest.mark.pitfall("D5")
@pytest.mark.parametrize("kind", RESUMED)
def test_hdf5_keeps_rows_pointers_and_unfinished_episodes(kind, tmp_path):
    buffer = partly_filled(RESUMED[kind])
    buffer.save_hdf5(str(tmp_path / "buffer.hdf5"))
    loaded = type(buffer).load_hdf5(str(tmp_path / "buffer.hdf5"))
    for ask in (
        lambda b: b.sample_indices(0),
        lambda b: b.unfinished_index(),
        lambda b: b[:].obs,
        lambda b: b[:].obs_next,
    ):
        assert np.array_equal(ask(loaded), ask(buffer))
    for ring in range(getattr(buffer, "buffer_num", 1)):
        step = vector_step([1], "T", rew=[1.0])
        assert [x.tolist() for x in loaded.add(step, buffer_ids=[ring])] == [
            x.tolist() for x in buffer.add(step, buffer_ids=[ring])
        ]
    if hasattr(buffer, "weight"):
        slots = np.arange(buffer.maxsize)
        assert np.array_equal(loaded.weight[slots], buffer.weight[slots])


# -- D8, D9: numbers at the edge ---------------------------------------------------------------------------------------

SIZES = [0, 1, 255, 256, 257, 65_535, 65_536]


@pytest.mark.pitfall("D8")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "make", [ReplayBuffer, lambda size: PrioritizedReplayBuffer(size, 0.6, 0.4)], ids=["even", "prio"]
)
def test_batches_of_every_size_are_whole(size, make):
    buffer = fill(make(300), "." * 299)
    index = buffer.sample_indices(size) if size else np.array([], np.int64)
    batch = buffer[index]
    assert len(batch.obs) == len(batch.rew) == size
    assert np.array_equal(batch.obs, index)


@pytest.mark.pitfall("D8")
@pytest.mark.parametrize("environments", SIZES[1:])
def test_vector_steps_of_every_width_are_stored(environments):
    buffer = VectorReplayBuffer(2 * environments, environments)
    everyone = np.arange(environments)
    for step in range(3):
        index, *_ = buffer.add(vector_step(everyone + step * environments, "." * environments), buffer_ids=everyone)
    assert len(buffer) == 2 * environments
    assert np.array_equal(index, 2 * everyone)
    assert np.array_equal(buffer[index].obs, everyone + 2 * environments)
    assert np.array_equal(buffer[index].obs_next, everyone + 2 * environments + 1)


@pytest.mark.pitfall("D8")
def test_a_vector_step_of_no_environment_changes_nothing():
    buffer = VectorReplayBuffer(4, 2)
    buffer.add(vector_step([1, 2], ".."), buffer_ids=[0, 1])
    nothing = buffer.add(vector_step([], ""), buffer_ids=[])
    assert [len(answer) for answer in nothing] == [0, 0, 0, 0]
    assert len(buffer) == 2


@pytest.mark.pitfall("D9")
@pytest.mark.parametrize("kind", RESUMED)
def test_sampling_from_an_empty_buffer_says_so(kind):
    buffer = RESUMED[kind]()
    with pytest.raises(ValueError, match=r"empty|no rows|0 rows"):
        buffer.sample(4)
    assert buffer.sample_indices(0).tolist() == []
    assert buffer.unfinished_index().tolist() == []
    assert len(buffer) == 0


@pytest.mark.pitfall("D9")
@pytest.mark.parametrize("kind", RESUMED)
def test_a_buffer_that_was_emptied_gives_empty_batches_of_the_right_kind(kind):
    buffer = partly_filled(RESUMED[kind])
    full, _ = buffer.sample(0)
    buffer.reset()
    with pytest.raises(ValueError, match=r"empty|no rows|0 rows"):
        buffer.sample(4)
    batch, index = buffer.sample(0)
    assert len(index) == 0
    for key in ("obs", "act", "rew", "terminated", "done", "obs_next"):
        assert (batch[key].dtype, batch[key].shape) == (full[key].dtype, (0, *full[key].shape[1:]))
