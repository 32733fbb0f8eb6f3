"""D3: hindsight goals."""

import pickle

import numpy as np
import pytest

from oracle.chi_square import is_plausible
from rlfast.data import Batch, HERReplayBuffer, HERVectorReplayBuffer


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
    buffer = HERVectorReplayBuffer(24, 3, compute_reward_fn=compute_reward, horizon=50, future_k=8, seed=1)
    for episode in range(9):
        add_episode(buffer, episode, 5 + episode % 3, finished=episode < 6, ring=episode % 3)
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


@pytest.mark.pitfall("D3")
@pytest.mark.parametrize(("future_k", "horizon"), [(8, 50), (4, 3), (1.25, 50), (1, 50)])
def test_goals_are_as_likely_as_the_paper_says(future_k, horizon):
    """A row is relabelled with probability ``1 - 1/k``; its goal is any row ahead, each as likely."""
    buffer = HERReplayBuffer(10, compute_reward, horizon, future_k, seed=3)
    add_episode(buffer, 1, 10)
    batch, index = buffer.sample(100_000)
    goal = batch.obs.desired_goal[:, 1].astype(int)
    for time in range(10):
        drawn = goal[index == time]
        ahead = np.arange(time + 1, min(time + horizon, 10) + 1)
        probability = np.zeros(12)  # of goal 0 to 10, and last of the row's own
        probability[ahead] = (1 - 1 / future_k) / len(ahead)
        probability[-1] = 1 / future_k
        assert is_plausible(np.bincount(np.where(drawn < 0, 11, drawn), minlength=12), probability)
