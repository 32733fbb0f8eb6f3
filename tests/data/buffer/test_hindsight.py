import numpy as np
import pytest

from data.buffer.rows import row
from rlfast._core import carried
from rlfast.data import Batch, HERReplayBuffer, HERVectorReplayBuffer, ReplayBuffer
from rlfast.data.buffer import Hindsight

UNREACHED = -1.0


def reward(achieved, desired):
    assert achieved.shape == desired.shape
    return np.where((achieved == desired).all(-1), 0.0, -1.0)


def goal_row(episode, step, end=""):
    """Returns a row whose achieved goal is its episode and step, so that a goal shows its origin."""

    def obs(i):
        return {"observation": [i], "achieved_goal": [100.0 * episode + i], "desired_goal": [UNREACHED]}

    return row(step, end, obs=obs(step), obs_next=obs(step + 1), rew=-1.0)


def filled(buffer, episodes=3, length=5):
    for episode in range(episodes):
        for step in range(length):
            buffer.add(goal_row(episode, step, "t" if step == length - 1 else ""))
    return buffer


def make(**options):
    return filled(HERReplayBuffer(20, reward, horizon=5, future_k=4, seed=0, **options))


def test_the_reward_function_is_called_once_with_the_relabelled_rows():
    calls = []

    def counted(achieved, desired):
        calls.append(achieved.shape)
        return reward(achieved, desired)

    buffer = filled(HERReplayBuffer(20, counted, horizon=5, future_k=4, seed=0))
    _, indices = buffer.sample(64)
    assert calls == [((carried(indices) >= 0).sum(), 1)]
    calls.clear()
    buffer.nstep(indices, 3, 0.9)
    assert len(calls) == 1


def test_the_same_goals_all_along_an_n_step_return():
    buffer = make()
    batch, indices = buffer.sample(300)
    reward_sum, discount, last = buffer.nstep(indices, 3, 0.5)
    ends = buffer[last]
    assert np.array_equal(ends.obs_next.desired_goal, batch.obs.desired_goal)
    assert np.array_equal(buffer[buffer.next(indices)].obs.desired_goal, batch.obs.desired_goal)
    for place, index in enumerate(indices):
        goal, rows = batch.obs.desired_goal[place], [index]
        while len(rows) < 3 and not buffer.done[rows[-1]]:
            rows.append(buffer.next(rows[-1]))
        rewards = [float(reward(buffer.get(at, "obs_next").achieved_goal, goal)) for at in rows]
        assert reward_sum[place] == pytest.approx(sum(0.5**k * one for k, one in enumerate(rewards)))
        assert discount[place] == 0.5 ** len(rows)
        assert last[place] == rows[-1]


def test_a_slice_of_a_sample_keeps_its_goals():
    buffer = make()
    batch, indices = buffer.sample(40)
    assert np.array_equal(buffer[indices[10:20]].obs.desired_goal, batch.obs.desired_goal[10:20])


def test_environments_are_kept_apart():
    buffer = HERVectorReplayBuffer(60, 3, compute_reward_fn=reward, horizon=5, future_k=4, seed=0)
    for step in range(12):
        end = "t" if step % 6 == 5 else ""
        buffer.add(Batch.stack([goal_row(10 * ring + step // 6, step % 6, end) for ring in range(3)]))
    batch, indices = buffer.sample(600)
    relabelled = carried(indices) >= 0
    same = batch.obs.desired_goal // 100 == batch.obs.achieved_goal // 100
    assert same[relabelled].all()
    child, rows = buffer.buffers[1].sample(50)
    assert rows.max() < 20
    assert set((child.obs.achieved_goal // 100).ravel()) == {10, 11}
    assert (child.obs.desired_goal != UNREACHED).any()


def test_attributes_of_tianshou():
    buffer = make()
    assert (buffer.horizon, buffer.future_p, buffer.compute_reward_fn) == (5, 0.75, reward)


@pytest.mark.parametrize(
    ("arguments", "error"), [((reward, 0), ValueError), ((reward, 5, 0.5), ValueError), ((3, 5), TypeError)]
)
def test_arguments_that_make_no_sense(arguments, error):
    with pytest.raises(error):
        HERReplayBuffer(5, *arguments)


def test_hindsight_without_goals_raises():
    buffer = HERReplayBuffer(5, reward, horizon=5, future_k=100, seed=0)
    buffer.add(row(0))
    with pytest.raises(TypeError, match="achieved_goal"):
        buffer.sample(50)
    buffer = filled(HERReplayBuffer(20, lambda achieved, desired: np.zeros(3), horizon=5, seed=0))
    with pytest.raises(ValueError, match="one for each goal"):
        buffer.sample(50)


def test_replay_buffer_takes_relabel_argument():
    buffer = filled(ReplayBuffer(20, relabel=Hindsight(reward, 5), seed=0))
    assert (buffer.sample(50)[0].obs.desired_goal != UNREACHED).any()
