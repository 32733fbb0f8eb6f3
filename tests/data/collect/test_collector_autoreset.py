"""Collectors store the same transitions with every mode of automatic resets."""

import gymnasium as gym
import numpy as np
import pytest

from collecting import collector, count
from rlfast.data import Collector, VectorReplayBuffer
from rlfast.env import BaseVectorEnv, DummyEnvWorker, DummyVectorEnv, VectorEnvNormReward
from rlfast.env.backends.base import Rows
from rlfast.env.backends.info import Info
from scripted import Scripted, ScriptedPolicy

MODES = [None, "DISABLED", "SAME_STEP", "NEXT_STEP"]


def collect(mode, envs, *, policy=None, **kwargs):
    made = collector(*envs, policy=policy, mode=mode, size=50)
    return made, made.collect(**kwargs)


@pytest.mark.pitfall("E1")
@pytest.mark.parametrize("mode", MODES)
def test_two_cart_poles_of_three_steps(mode):
    envs = [gym.make("CartPole-v1", max_episode_steps=3) for _ in range(2)]
    c, stats = collect(mode, envs, n_step=12)
    assert (stats.n_collected_steps, stats.n_collected_episodes, len(c.buffer)) == (12, 4, 12)
    for buffer in c.buffer.buffers:
        rows = buffer[:]
        assert len(rows) == 6
        assert rows.truncated.tolist() == [False, False, True] * 2
        assert not rows.terminated.any()
        assert (rows.rew == 1).all()  # the step of NEXT_STEP that only resets has none
        np.testing.assert_array_equal(rows.obs[[1, 2, 4, 5]], rows.obs_next[[0, 1, 3, 4]])
        assert (np.abs(rows.obs[[0, 3]]) <= 0.05).all()  # where episodes start
        assert not np.array_equal(rows.obs_next[2], rows.obs[3])  # the end is the end, and not the next start


@pytest.mark.pitfall("E2")
@pytest.mark.parametrize("mode", MODES)
def test_the_policy_acts_on_the_first_observation_of_the_new_episode(mode):
    policy = ScriptedPolicy()
    c, _ = collect(mode, [Scripted(2, info={"a": 1}), Scripted(3)], policy=policy, n_step=16)
    first, second = (buffer[:] for buffer in c.buffer.buffers)
    episodes = [[e, s] for e in range(6) for s in range(2)]
    np.testing.assert_array_equal(first.obs, episodes[: len(first)])
    np.testing.assert_array_equal(first.obs_next, [[e, s + 1] for e, s in episodes[: len(first)]])
    assert first.terminated.tolist() == [s == 1 for _, s in episodes[: len(first)]]
    np.testing.assert_array_equal(second.obs_next[:3], [[0, 1], [0, 2], [0, 3]])
    np.testing.assert_array_equal(second.obs[3], [1, 0])
    assert (first.info.a == 1).all()
    if mode != "NEXT_STEP":  # there the action of the step that resets is chosen on the final observation, and ignored
        np.testing.assert_array_equal([batch.obs[0] for batch in policy.seen], first.obs)


@pytest.mark.parametrize("mode", MODES)
def test_all_modes_store_the_same(mode):
    def length(rng):
        return int(rng.integers(1, 6))

    def stored(mode):
        envs = [Scripted(length, info=lambda step: {"step": step}) for _ in range(3)]
        c, stats = collect(mode, envs, n_episode=12, gym_reset_kwargs={"seed": 4})
        return [buffer[:] for buffer in c.buffer.buffers], stats

    (buffers, stats), (wanted, wanted_stats) = stored(mode), stored(None)
    if mode == "NEXT_STEP":  # its resets take a step, so the environments meet in another order
        assert stats.n_collected_episodes == 12
        wanted = [rows[: len(mine)] for rows, mine in zip(wanted, buffers, strict=True)]
        buffers = [rows[: len(mine)] for rows, mine in zip(buffers, wanted, strict=True)]
    else:
        assert stats.lens.tolist() == wanted_stats.lens.tolist()
    for rows, expected in zip(buffers, wanted, strict=True):
        for key in ("obs", "obs_next", "act", "rew", "terminated", "truncated"):
            np.testing.assert_array_equal(rows[key], expected[key])
        np.testing.assert_array_equal(rows.info.step, expected.info.step)


@pytest.mark.parametrize("mode", MODES)
def test_evaluation_shares_episodes_out_in_every_mode(mode):
    c, _ = collect(mode, [Scripted(1, reward=0.0), Scripted(20, reward=0.05)], n_step=2)
    stats = c.evaluate(10)
    np.testing.assert_allclose(sorted(stats.returns), [0] * 5 + [1] * 5)


@pytest.mark.parametrize("mode", MODES)
def test_the_hidden_state_of_a_new_episode_starts_at_zero(mode):
    policy = ScriptedPolicy(state=count)
    c, _ = collect(mode, [Scripted(2), Scripted(3)], policy=policy, n_step=14)
    for buffer in c.buffer.buffers:
        rows = buffer[:]
        np.testing.assert_array_equal(rows.policy.hidden_state, rows.obs[:, 1])


class Broken(BaseVectorEnv):
    """Environments that break in some steps, counted from 1, and are rebuilt; here the second does so in the third."""

    def __init__(self, breaks=((3, 1),)) -> None:
        self.breaks = breaks
        super().__init__([lambda: Scripted(5)] * 2, DummyEnvWorker, autoreset_mode="SAME_STEP")
        self.count = 0

    def recv(self, min_ready=None, timeout=None):
        rows = super().recv(min_ready, timeout)
        self.count += 1
        ids = [env for step, env in self.breaks if step == self.count]
        if not ids:
            return rows
        obs, _ = self.reset_rows(ids)
        fresh, broken = rows.obs.copy(), np.isin([0, 1], ids)
        fresh[ids] = obs
        return Rows(rows.env_id, fresh, rows.obs_next, rows.rew, rows.terminated, broken, Info.of([{}, {}]),
                    valid=~broken)  # fmt: skip


@pytest.mark.pitfall("E5")
def test_a_step_in_which_an_environment_broke_is_not_learned_from():
    c = Collector(ScriptedPolicy(), Broken(), VectorReplayBuffer(40, 2))
    stats = c.collect(n_step=16)
    first, second = (buffer[:] for buffer in c.buffer.buffers)
    np.testing.assert_array_equal(first.obs[:6], [[0, 0], [0, 1], [0, 2], [0, 3], [0, 4], [1, 0]])
    np.testing.assert_array_equal(second.obs, [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2], [1, 3], [1, 4], [2, 0]])
    assert second.truncated.tolist() == [False, True] + [False] * 6  # cut off at the last true row
    assert second.terminated.tolist() == [False] * 6 + [True, False]
    assert stats.lens.tolist() == [5, 5]  # the broken episode is in no statistics
    assert stats.n_collected_steps == 17


def test_steps_in_which_all_environments_broke_end_no_episode():
    c = Collector(ScriptedPolicy(), Broken([(2, 0), (2, 1), (4, 0), (4, 1)]), VectorReplayBuffer(40, 2))
    stats = c.collect(n_episode=2)
    assert (stats.n_broken_episodes, stats.n_collected_episodes, stats.lens.tolist()) == (4, 2, [5, 5])


@pytest.mark.parametrize("mode", MODES)
def test_returns_are_of_the_rewards_before_they_were_normalized(mode):
    env = VectorEnvNormReward(DummyVectorEnv([lambda: Scripted(2), lambda: Scripted(3)], autoreset_mode=mode))
    c = Collector(ScriptedPolicy(), env, VectorReplayBuffer(40, 2))
    stats = c.evaluate(4)
    assert sorted(stats.returns.tolist()) == [2.0, 2.0, 3.0, 3.0]
    assert not (c.buffer[:].rew == 1).all()


def test_tuples_of_observations_are_stored_by_position():
    class Pair(Scripted):
        def __init__(self):
            super().__init__(2)
            self.observation_space = gym.spaces.Tuple((self.observation_space, gym.spaces.Discrete(9)))

        def _obs(self):
            return super()._obs(), self.step_count

    policy = ScriptedPolicy(act=lambda batch: batch.obs["1"] * 1)
    c, _ = collect("SAME_STEP", [Pair(), Pair()], policy=policy, n_step=8)
    rows = c.buffer.buffers[0][:]
    np.testing.assert_array_equal(rows.obs["0"], [[0, 0], [0, 1], [1, 0], [1, 1]])
    np.testing.assert_array_equal(rows.obs_next["1"], [1, 2, 1, 2])
    np.testing.assert_array_equal(rows.act, [0, 1, 0, 1])
