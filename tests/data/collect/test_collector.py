import re
from functools import reduce
from operator import getitem
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import rlfast
from rlfast.data import (
    Batch,
    CachedReplayBuffer,
    Collector,
    PrioritizedReplayBuffer,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
)
from rlfast.env import DummyVectorEnv
from rlfast.policy import RandomPolicy
from scripted import Scripted, ScriptedPolicy


def vector(*envs: gym.Env) -> DummyVectorEnv:
    return DummyVectorEnv([lambda env=env: env for env in envs])


def collector(*envs: gym.Env, policy=None, size=100, **kwargs) -> Collector:
    return Collector(
        policy or ScriptedPolicy(), vector(*envs), VectorReplayBuffer(size * len(envs), len(envs)), **kwargs
    )


# -- what is stored ----------------------------------------------------------------------------------------------------


def test_rows_are_true_at_the_ends_of_episodes():
    c = collector(Scripted(2), Scripted(3, truncate=True))
    c.collect(n_step=12)
    first, second = c.buffer.buffers
    rows = first[:]
    np.testing.assert_array_equal(rows.obs, [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]])
    np.testing.assert_array_equal(rows.obs_next, [[0, 1], [0, 2], [1, 1], [1, 2], [2, 1], [2, 2]])
    assert rows.terminated.tolist() == [False, True] * 3
    assert not rows.truncated.any()
    rows = second[:]
    np.testing.assert_array_equal(rows.obs_next, [[0, 1], [0, 2], [0, 3], [1, 1], [1, 2], [1, 3]])
    assert rows.truncated.tolist() == [False, False, True] * 2
    assert not rows.terminated.any()
    assert rows.info.env_id.tolist() == [1] * 6


def test_the_policy_sees_the_reset_observation_after_an_end():
    policy = ScriptedPolicy()
    collector(Scripted(2), Scripted(9), policy=policy).collect(n_step=8)
    seen = np.stack([batch.obs[0] for batch in policy.seen])
    np.testing.assert_array_equal(seen, [[0, 0], [0, 1], [1, 0], [1, 1]])


def test_observations_of_dicts():
    policy = ScriptedPolicy(act=lambda batch: batch.obs.pos[:, 1].astype(np.int64) % 4)
    c = collector(Scripted(2, dict_obs=True), Scripted(3, dict_obs=True), policy=policy)
    c.collect(n_step=8)
    rows = c.buffer.buffers[0][:]
    np.testing.assert_array_equal(rows.obs.pos, [[0, 0], [0, 1], [1, 0], [1, 1]])
    np.testing.assert_array_equal(rows.obs_next.pos, [[0, 1], [0, 2], [1, 1], [1, 2]])
    assert rows.obs.mask.dtype == np.int8
    assert rows.act.tolist() == [0, 1, 0, 1]
    c.collect(n_episode=3)  # a subset of the environments works as well


@pytest.mark.pitfall("F3")
def test_the_action_is_stored_as_the_policy_gave_it():
    env = Scripted(9, actions=40)
    policy = ScriptedPolicy(act=lambda batch: np.full(len(batch.obs), 3), noise=lambda act: act - 1, scale=10)
    c = collector(env, policy=policy, exploration_noise=True)
    c.collect(n_step=2)
    assert env.actions == [20, 20]
    assert c.buffer[:].act.tolist() == [2, 2]
    quiet = collector(Scripted(9, actions=40), policy=policy)
    quiet.collect(n_step=2)
    assert quiet.buffer[:].act.tolist() == [3, 3]


def test_random_actions_come_from_each_environments_space():
    envs = [Scripted(50, actions=3), Scripted(50, actions=3)]
    policy = ScriptedPolicy(scale=2)
    c = collector(*envs, policy=policy)
    c.env.seed(0)
    c.collect(n_step=40, random=True)
    assert not policy.seen
    assert set(envs[0].actions) == set(envs[1].actions) == {0, 2}  # what the policy can say
    assert envs[0].actions != envs[1].actions
    assert set(c.buffer.buffers[0][:].act) <= {0, 1}  # stored in the policy's own form


def test_random_actions_are_legal_ones():
    c = collector(Scripted(50, dict_obs=True, actions=2), Scripted(50, dict_obs=True, actions=2))
    c.collect(n_step=20, random=True)  # the mask of the observations allows the first action
    assert not c.buffer[:].act.any()


def test_infos_become_columns():
    def info(step):
        return {"lives": 3 - step} | ({"bonus": {"points": 7.5}} if step == 2 else {})

    policy = ScriptedPolicy()
    c = collector(Scripted(2, info=info), Scripted(3, info={"lives": 1}), policy=policy)
    c.collect(n_step=6)
    rows = c.buffer.buffers[0][:]
    assert rows.info.lives.tolist() == [2, 1, 2]
    assert rows.info.bonus.points.tolist() == [0.0, 7.5, 0.0]
    assert policy.seen[0].info.lives.tolist() == [3, 1]  # of the reset
    assert policy.seen[1].info.lives.tolist() == [2, 1]
    assert policy.seen[2].info.lives.tolist() == [3, 1]  # environment 0 was reset again
    assert policy.seen[2].info.env_id.tolist() == [0, 1]


def test_objects_in_infos_survive():
    marker = object()
    c = collector(Scripted(3, info={"what": marker}))
    c.collect(n_step=3)
    assert all(what is marker for what in c.buffer[:].info.what)


def test_what_the_policy_keeps_is_stored():
    policy = ScriptedPolicy(stored=lambda batch: Batch(logp=torch.tensor(batch.obs[:, 1])))
    c = collector(Scripted(2), policy=policy)
    c.collect(n_step=4)
    assert c.buffer[:].policy.logp.tolist() == [0, 1, 0, 1]


def test_vector_rewards():
    c = collector(Scripted(2, reward=np.array([1.0, -1.0])), Scripted(2, reward=np.array([2.0, 0.0])))
    stats = c.collect(n_episode=2)
    np.testing.assert_array_equal(stats.returns, [[2, -2], [4, 0]])
    assert c.buffer[:].rew.shape == (4, 2)


# -- hidden state ------------------------------------------------------------------------------------------------------


def next_state(kind):
    """A hidden state that counts the steps since it was last zero."""

    def count(batch, state):
        old = np.zeros(len(batch.obs)) if state is None else np.asarray(leaf(state))
        array = old + 1
        tensor = torch.tensor(array)
        return {
            "array": array,
            "tensor": tensor,
            "dict": {"h": tensor},
            "tuple": (array, tensor),
            "list": [tensor],
            "nested": {"h": (array, {"c": [tensor]})},
            "Batch": Batch(h=tensor, deep=Batch(c=array)),
        }[kind]

    return count


def leaf(state):
    if isinstance(state, dict | Batch):
        return leaf(state["h"])
    return state[0] if isinstance(state, tuple | list) else state


@pytest.mark.parametrize("kind", ["array", "tensor", "dict", "tuple", "list", "nested", "Batch"])
def test_hidden_states_before_each_step_are_stored_and_reset_with_their_episode(kind):
    class Policy(ScriptedPolicy):
        def __call__(self, batch, state=None):
            self.seen.append(batch)
            return Batch(act=np.zeros(len(batch.obs), np.int64), state=next_state(kind)(batch, state))

    c = collector(Scripted(2), Scripted(3), policy=Policy())
    c.collect(n_step=4)
    c.collect(n_step=8)  # carried over from one collect to the next
    for buffer, expected in zip(c.buffer.buffers, ([0, 1, 0, 1, 0, 1], [0, 1, 2, 0, 1, 2]), strict=True):
        state = buffer[:].policy.hidden_state
        path = {"array": "", "tensor": "", "tuple": "0", "list": "0", "nested": "h0"}.get(kind, "h")
        assert reduce(getitem, path, state).tolist() == expected


def test_hidden_states_follow_their_environment_when_others_retire():
    policy = ScriptedPolicy(state=next_state("array"))
    c = collector(Scripted(1), Scripted(5), policy=policy)
    c.collect(n_episode=2)
    assert c.buffer.buffers[1][:].policy.hidden_state.tolist() == [0, 1, 2, 3, 4]
    c.reset_env()
    c.collect(n_step=4)
    assert c.buffer.buffers[1][-2:].policy.hidden_state.tolist() == [0, 1]


def test_random_steps_end_what_the_policy_remembers():
    policy = ScriptedPolicy(state=next_state("array"))
    c = collector(Scripted(9), policy=policy)
    c.collect(n_step=2)
    c.collect(n_step=2, random=True)
    c.collect(n_step=2)
    assert [None if state is None else state.tolist() for state in policy.states] == [None, [1], [0], [1]]
    assert c.buffer[:].policy.hidden_state.tolist() == [0, 1, 0, 0, 0, 1]
    two = collector(Scripted(9), Scripted(9), policy=policy)
    two.collect(n_step=4)
    two.collect(n_step=1, exact=True, random=True)  # of the first environment alone
    two.collect(n_step=2)
    assert policy.states[-1].tolist() == [0, 2]


def test_hidden_states_of_objects_begin_as_none():
    class Policy(ScriptedPolicy):
        def __call__(self, batch, state=None):
            memory = np.empty(1, object)
            memory[0] = [*((None if state is None else state[0]) or []), int(batch.obs[0, 1])]
            return Batch(act=np.zeros(1, np.int64), state=memory)

    c = collector(Scripted(3), policy=Policy())
    c.collect(n_step=5)
    assert c.buffer[:].policy.hidden_state.tolist() == [None, [0], [0, 1], None, [0]]


def test_hidden_states_start_anew_where_an_episode_is_broken_off():
    given = []

    def remember(batch, state):
        given.append(None if state is None else state.tolist())
        return next_state("array")(batch, state)

    c = collector(Scripted(9), Scripted(9), policy=ScriptedPolicy(state=remember))
    c.collect(n_step=4)
    c.reset_env()
    c.collect(n_step=4)
    c.collect(n_step=2, reset_before_collect=True)
    assert given == [None, [1, 1], [0, 0], [1, 1], [0, 0]]


# -- how much is collected ---------------------------------------------------------------------------------------------


@pytest.mark.pitfall("E11")
def test_who_is_left_out_of_the_last_vector_step_goes_on_where_it_was():
    c = collector(Scripted(5), Scripted(5))
    c.collect(n_step=3, exact=True)
    c.collect(n_step=4)
    for buffer, steps in zip(c.buffer.buffers, (4, 3), strict=True):
        np.testing.assert_array_equal(buffer[:].obs, [[0, step] for step in range(steps)])


def test_steps_are_rounded_up_to_whole_vector_steps_unless_exact():
    c = collector(*(Scripted(3) for _ in range(4)))
    with pytest.warns(UserWarning, match="n_step=6 is not a multiple of the 4 environments"):
        assert c.collect(n_step=6).n_collected_steps == 8
    assert c.collect(n_step=8).n_collected_steps == 8
    stats = c.collect(n_step=6, exact=True)
    assert stats.n_collected_steps == 6
    assert [len(buffer) for buffer in c.buffer.buffers] == [6, 6, 5, 5]
    assert c.collect_step == 22
    assert c.collect(n_step=2, exact=True).n_collected_steps == 2
    np.testing.assert_array_equal(c.buffer.buffers[0][:].obs[-2:], [[1, 2], [2, 0]])  # no row lost or doubled
    np.testing.assert_array_equal(c.buffer.buffers[3][:].obs[-2:], [[1, 0], [1, 1]])


@pytest.mark.pitfall("E11")
def test_rows_that_must_not_be_lost_are_not_overwritten():
    c = collector(Scripted(9), Scripted(9), size=3)
    c.collect(n_step=4)
    with c.without_overwriting():
        c.collect(n_step=1, exact=True)
        with pytest.raises(ValueError, match="environment 0 has filled the 3 rows that the buffer has for it"):
            c.collect(n_step=6)
    assert c.collect_step == 5
    c.collect(n_step=8)


def test_episodes_go_on_between_collects_of_steps():
    c = collector(Scripted(3), Scripted(4))
    for _ in range(6):
        c.collect(n_step=2)
    np.testing.assert_array_equal(c.buffer.buffers[0][:].obs[:, 1], [0, 1, 2, 0, 1, 2])
    np.testing.assert_array_equal(c.buffer.buffers[1][:].obs[:, 1], [0, 1, 2, 3, 0, 1])
    assert [worker.env.resets for worker in c.env.workers] == [3, 2]


@pytest.mark.pitfall("E11")
def test_fewer_episodes_than_environments_use_the_first():
    envs = [Scripted(2) for _ in range(4)]
    stats = collector(*envs).collect(n_episode=2)
    assert stats.n_collected_episodes == 2
    assert stats.n_collected_steps == 4
    assert [env.resets for env in envs] == [1, 1, 0, 0]


def test_every_environment_contributes():
    c = collector(Scripted(1, reward=0), Scripted(7), Scripted(10))
    stats = c.collect(n_episode=4)
    assert stats.n_collected_episodes == 4
    assert sorted(stats.lens.tolist()) == [1, 1, 7, 10]
    assert stats.returns_stat.max == 10.0
    assert stats.lens_stat.mean == pytest.approx(19 / 4)


def test_the_first_episodes_may_have_begun_in_an_earlier_collect():
    c = collector(Scripted(4))
    c.collect(n_step=3)
    stats = c.collect(n_episode=1)
    assert (stats.n_collected_steps, stats.lens.tolist(), stats.returns.tolist()) == (1, [4], [4.0])


def test_after_episodes_all_environments_start_afresh():
    c = collector(Scripted(2), Scripted(9))
    c.collect(n_step=2)
    c.collect(n_episode=1)
    c.collect(n_step=2)
    np.testing.assert_array_equal(c.buffer.buffers[1][:].obs, [[0, 0], [1, 0]])
    # what was cut short counts as truncated, so that nothing reaches across
    assert c.buffer.buffers[1][:].truncated.tolist() == [True, False]
    assert c.buffer.buffers[1].next(0) == 0


def test_times_and_episodes_are_summed(monkeypatch):
    slept, times = [], iter([10.0, 12.0, 20.0, 20.5, 30.0, 30.0])
    clock = SimpleNamespace(perf_counter=lambda: next(times), sleep=slept.append)
    monkeypatch.setattr("rlfast.data.collect.collector.time", clock)
    c = collector(Scripted(2))
    assert c.collect(n_episode=1, render=-1).collect_time == 2.0
    assert c.collect(n_episode=2, render=0.25).collect_time == 0.5
    assert (c.collect_time, c.collect_episode, c.collect_step) == (2.5, 3, 6)
    assert slept == [0.0] * 2 + [0.25] * 4
    assert np.isfinite(c.collect(n_episode=1).collect_speed)


def test_statistics_of_nothing():
    stats = collector(Scripted(9)).collect(n_step=3)
    assert stats.returns_stat is stats.lens_stat is None
    assert stats.returns.shape == stats.lens.shape == (0,)
    assert stats.collect_time > 0
    assert stats.collect_speed == pytest.approx(3 / stats.collect_time)


# -- evaluation --------------------------------------------------------------------------------------------------------


@pytest.mark.pitfall("E10")
def test_evaluation_is_not_biased_towards_short_episodes():
    envs = [Scripted(1, reward=0.0), Scripted(100, reward=0.01)]
    stats = collector(*envs).evaluate(10)
    assert sorted(stats.returns.round(6).tolist()) == [0.0] * 5 + [1.0] * 5
    assert stats.returns_stat.mean == pytest.approx(0.5)
    assert [env.resets for env in envs] == [5, 5]  # one for each episode, and none to spare
    biased = collector(Scripted(1, reward=0.0), Scripted(100, reward=0.01)).collect(n_episode=10)
    assert biased.returns_stat.mean == pytest.approx(0.1)  # the rule for learning, beside it


@pytest.mark.pitfall("E10")
@pytest.mark.parametrize("repeats", [100, pytest.param(2000, marks=pytest.mark.long)])
def test_evaluation_of_random_lengths_has_the_right_mean(repeats):
    def length(rng):
        return 1 if rng.random() < 0.5 else 100

    c = collector(*(Scripted(length) for _ in range(4)))
    c.env.seed(0)
    means = np.array([c.evaluate(10).returns_stat.mean for _ in range(repeats)])
    assert abs(means.mean() - 50.5) < 3 * 49.5 / np.sqrt(10 * repeats)  # the first ten to end would give 40.1


def test_evaluation_takes_the_options_of_a_collect():
    policy, env = ScriptedPolicy(), Scripted(2)
    c = collector(env, policy=policy)
    c.evaluate(1, random=True)
    assert policy.seen == []
    c.evaluate(1, gym_reset_kwargs={"options": {"x": 1}})
    assert (len(policy.seen), env.reset_kwargs[-1]["options"]) == (2, {"x": 1})
    with pytest.raises(TypeError, match=r"^gym_reset_kwargs must be a dict or None, got 3"):
        c.evaluate(1, gym_reset_kwargs=3)


def test_evaluation_starts_new_episodes_and_leaves_new_ones_to_come():
    c = collector(Scripted(4), Scripted(4))
    c.collect(n_step=4)
    stats = c.evaluate(3)
    assert stats.lens.tolist() == [4, 4, 4]
    assert c.collect_episode == 3
    c.collect(n_step=2)
    assert c.buffer.buffers[1][:].obs[-1].tolist() == [2.0, 0.0]


@pytest.mark.parametrize("reset", ["reset", "reset_env"])
def test_a_reset_before_evaluation_is_one_of_its_resets(reset):
    envs = [Scripted(2), Scripted(3)]
    c = collector(*envs)
    getattr(c, reset)()
    stats = c.evaluate(4)
    assert [env.resets for env in envs] == [2, 2]
    assert sorted(stats.lens.tolist()) == [2, 2, 3, 3]
    getattr(c, reset)()
    c.collect(n_step=2)  # these episodes are not new any more
    c.evaluate(2)
    assert [env.resets for env in envs] == [4, 4]
    getattr(c, reset)()
    c.evaluate(2, gym_reset_kwargs={"options": {"x": 1}})
    assert [env.resets for env in envs] == [6, 6]
    assert envs[0].reset_kwargs[-1]["options"] == {"x": 1}


def test_a_reset_before_evaluation_counts_in_native_environments():
    envs = rlfast.make_vec("CartPole-v1", 2)
    c = Collector(RandomPolicy(action_space=envs.single_action_space), envs, VectorReplayBuffer(2000, 2))
    first, _ = c.reset()
    c.evaluate(2, random=True)
    np.testing.assert_array_equal([c.buffer.buffers[k][:].obs[0] for k in (0, 1)], first)
    c.reset()
    c.collect(n_step=2, random=True)
    c.reset_buffer()
    stats = c.evaluate(2, random=True)
    assert len(c.buffer) == stats.lens.sum()
    assert np.abs([c.buffer.buffers[k][:].obs[0] for k in (0, 1)]).max() < 0.05


# -- resetting ---------------------------------------------------------------------------------------------------------


def test_the_first_collect_resets_and_construction_does_not():
    env = Scripted(3)
    buffer = VectorReplayBuffer(10, 1)
    buffer.add(Batch(obs=np.zeros((1, 2), np.float32), act=[0], rew=[0.0], terminated=[True], truncated=[False],
                     obs_next=np.zeros((1, 2), np.float32), info={"env_id": np.array([0])}))  # fmt: skip
    c = Collector(ScriptedPolicy(), vector(env), buffer)
    assert (env.resets, len(buffer)) == (0, 1)  # a loaded buffer is kept
    c.collect(n_step=1)
    assert (env.resets, len(buffer)) == (1, 2)


def test_reset_does_what_it_is_asked_to():
    c = collector(Scripted(5))
    c.collect(n_step=3)
    c.reset(reset_buffer=False, reset_stats=False)
    assert (len(c.buffer), c.collect_step) == (3, 3)
    c.collect(n_step=2)
    np.testing.assert_array_equal(c.buffer[:].obs[:, 0], [0, 0, 0, 1, 1])
    c.reset()
    assert (len(c.buffer), c.collect_step, c.collect_episode, c.collect_time) == (0, 0, 0, 0.0)
    c.collect(n_step=1, reset_before_collect=True)
    assert c.buffer[0].obs.tolist() == [3.0, 0.0]
    for keep, length in (({}, 4), ({"keep_statistics": True}, 5)):
        c.reset_env()
        c.collect(n_step=1)
        c.reset_buffer(**keep)
        assert (len(c.buffer), c.collect(n_step=4).lens.tolist()) == (0, [length])


def test_reset_arguments_are_passed_on_and_a_seed_is_used_once_in_each_environment():
    envs = Scripted(2), Scripted(3)
    c = collector(*envs)
    c.collect(n_step=12, gym_reset_kwargs={"seed": 9, "options": {"x": 1}})
    for i, env in enumerate(envs):
        assert [call["seed"] for call in env.reset_kwargs][:3] == [9 + i, None, None]
        assert all(call["options"] == {"x": 1} for call in env.reset_kwargs)
    c.collect(n_step=2, gym_reset_kwargs={"seed": 5})  # nobody starts afresh
    assert [call["seed"] for env in envs for call in env.reset_kwargs if call["seed"]] == [9, 10]
    c.collect(n_step=8, gym_reset_kwargs={"seed": [5, 6]})  # within the collect
    assert [call["seed"] for call in envs[0].reset_kwargs][4:] == [5, None]
    assert [call["seed"] for call in envs[1].reset_kwargs if call["seed"]] == [10, 6]
    c.reset_env({"seed": 4})
    assert [env.reset_kwargs[-1]["seed"] for env in envs] == [4, 5]
    c.evaluate(4, gym_reset_kwargs={"seed": 7})
    for i, env in enumerate(envs):
        assert [call["seed"] for call in env.reset_kwargs][-2:] == [7 + i, None]
    c.collect(n_step=2, reset_before_collect=True, gym_reset_kwargs={"seed": 8})
    assert [env.reset_kwargs[-1]["seed"] for env in envs] == [8, 9]
    c.collect(n_step=8, reset_before_collect=True, gym_reset_kwargs={"seed": 8})
    assert envs[0].reset_kwargs[-1]["seed"] is None


def test_what_is_false_does_not_render():
    env = Scripted(9)
    frames = []
    env.render = lambda: frames.append(env.step_count)
    with collector(env) as c:
        for render in (None, 0.0, 0, False, np.float32(0)):
            c.collect(n_step=1, render=render)
        c.evaluate(1, render=0.0)
        assert frames == []
        c.collect(n_step=2, render=1e-6)
        assert frames == [1, 2]
        c.evaluate(1, render=-1)
        assert len(frames) == 2 + 9
        assert not c.is_closed
    assert c.is_closed
    assert env.closed
    with pytest.raises(RuntimeError, match="closed"):
        c.collect(n_step=1)
    with pytest.raises(RuntimeError, match="closed"):
        c.evaluate(1)


def test_gradients_are_recorded_only_when_asked_for():
    weight = torch.ones(1, requires_grad=True)
    recorded = []
    policy = ScriptedPolicy(
        state=lambda batch, _: recorded.append((weight * 2).requires_grad) or np.zeros(len(batch.obs))
    )
    c = collector(Scripted(9), policy=policy)
    c.collect(n_step=1)
    c.collect(n_step=1, no_grad=False)
    assert recorded == [False, True]


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, TypeError, "one of n_step and n_episode"),
        ({"n_step": 1, "n_episode": 1}, TypeError, "n_step=1 and n_episode=1"),
        ({"n_step": 0}, ValueError, "n_step must be a positive integer, got 0"),
        ({"n_episode": -2}, ValueError, "n_episode must be a positive integer, got -2"),
        ({"n_step": 0.0}, ValueError, "got 0.0"),
        ({"n_step": float("inf")}, TypeError, "n_step must be an integer, got inf"),
        ({"n_episode": 1.5}, TypeError, "n_episode must be an integer, got 1.5"),
        ({"n_episode": "3"}, TypeError, "got '3'"),
        ({"n_step": 1, "render": "3"}, TypeError, "render must be a number or None, got '3'"),
        ({"n_step": 1, "gym_reset_kwargs": 3}, TypeError, "gym_reset_kwargs must be a dict or None, got 3"),
    ],
)
def test_what_to_collect_must_be_clear(arguments, error, message):
    c = collector(Scripted())
    with pytest.raises(error, match=message):
        c.collect(**arguments)
    assert c.env.workers[0].env.resets == 0


def test_numbers_to_collect_may_be_floats():
    c = collector(Scripted(), Scripted())
    assert c.collect(n_step=1e1).n_collected_steps == 10
    with pytest.warns(UserWarning, match="n_step=3.2 is not whole: 4 is taken"):
        assert c.collect(n_step=3.2).n_collected_steps == 4
    assert c.collect(n_episode=2.0).n_collected_episodes == 2
    assert c.evaluate(np.int32(3)).n_collected_episodes == 3


@pytest.mark.parametrize("kind", [TypeError, ValueError, AssertionError])
@pytest.mark.parametrize("arguments", [{}, {"n_step": 1, "n_episode": 1}, {"n_step": 0}, {"n_episode": -1}])
def test_contradictions_are_what_any_version_of_tianshou_raises(kind, arguments):
    with pytest.raises(kind):
        collector(Scripted()).collect(**arguments)


def test_evaluation_needs_a_number():
    with pytest.raises(ValueError, match="n_episode must be a positive integer, got 0"):
        collector(Scripted()).evaluate(0)


@pytest.mark.parametrize(
    ("buffer", "error", "message"),
    [
        (lambda: ReplayBuffer(10), TypeError, r"use VectorReplayBuffer\(total_size=10, buffer_num=3\)"),
        (lambda: PrioritizedReplayBuffer(10, 0.6, 0.4), TypeError, "use PrioritizedVectorReplayBuffer"),
        (lambda: VectorReplayBuffer(10, 2), ValueError, "has 2 rings for 3 environments"),
        (lambda: VectorReplayBuffer(0, 3), ValueError, "VectorReplayBuffer has no room: its size is 0"),
        (lambda: VectorReplayBuffer, TypeError, "buffer must be a ReplayBuffer, got <class"),
        (lambda: 100, TypeError, "buffer must be a ReplayBuffer, got 100, which has no add, reset"),
        (lambda: CachedReplayBuffer(ReplayBuffer(10), 2, 5), ValueError, "has 2 rings for 3 environments"),
    ],
)
def test_the_buffer_must_keep_the_environments_apart(buffer, error, message):
    with pytest.raises(error, match=message):
        Collector(ScriptedPolicy(), vector(*(Scripted() for _ in range(3))), buffer())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"policy": None},
            "policy must be an ActingPolicy, such as DQNPolicy(...), got None, which has no forward, map_action",
        ),
        ({"policy": ScriptedPolicy}, "got <class 'scripted.ScriptedPolicy'>"),
        ({"policy": len}, "got <built-in function len>, which has no map_action"),
        ({"policy": len, "exploration_noise": True}, "which has no map_action, exploration_noise"),
        ({"preprocess_fn": 5}, "preprocess_fn must be a function or None, got 5"),
        ({"env": "CartPole-v1"}, "expected a vector environment"),
        ({"env": []}, "expected a vector environment"),
        ({"on_step_hook": 5}, "on_step_hook must be a function or None, got 5"),
        ({"on_episode_done_hook": "x"}, "on_episode_done_hook must be a function or None, got 'x'"),
    ],
)
def test_what_it_is_made_of_must_be_of_the_right_kind(changes, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        Collector(**{"policy": ScriptedPolicy(), "env": vector(Scripted()), **changes})


SPACES = [
    ("action_space", Discrete(2), Discrete(3)),
    ("action_space", Discrete(2), Discrete(2, start=1)),
    ("action_space", Discrete(2), Box(-1, 1, (2,))),
    ("action_space", MultiDiscrete([2, 3]), MultiDiscrete([3, 2])),
    ("action_space", Box(-1, 1, (2,)), Box(-1, 1, (2, 1))),
    ("observation_space", Box(-1, 1, (2,)), Box(-1, 1, (3,))),
    ("observation_space", Dict(a=Box(-1, 1, (2,)), b=Discrete(2)), Dict(a=Box(-1, 1, (2,)), b=Discrete(3))),
    ("observation_space", Tuple([Discrete(2)]), Tuple([Discrete(2), Discrete(2)])),
]


@pytest.mark.parametrize(("name", "ours", "theirs"), SPACES)
def test_a_policy_that_is_made_for_other_environments_is_warned_of(name, ours, theirs):
    def make(space):
        env = Scripted(2)
        setattr(env, name, space)
        return DummyVectorEnv([lambda: env])

    policy = ScriptedPolicy()
    setattr(policy, name, ours)
    Collector(policy, make(ours))
    message = f"the policy's {name} is {re.escape(str(ours))}, and that of the environments is {re.escape(str(theirs))}"
    with pytest.warns(UserWarning, match=message):
        c = Collector(policy, make(theirs))
    assert c.env_num == 1


@pytest.mark.parametrize("name", ["action_space", "observation_space"])
def test_a_policy_made_for_all_environments_together_is_told_which_space_to_take(name):
    env = SyncVectorEnv([Scripted, Scripted])
    policy = ScriptedPolicy()
    setattr(policy, name, getattr(env, name))
    with pytest.warns(UserWarning, match=rf"that of all 2 environments together: .* with envs.single_{name}$"):
        Collector(policy, env, VectorReplayBuffer(20, 2))
    setattr(policy, name, getattr(env, f"single_{name}"))
    Collector(policy, env, VectorReplayBuffer(20, 2))


def test_a_policy_may_use_a_part_of_a_box():
    env = Scripted(2)
    env.action_space = Box(-2, 2, (1,))
    policy = ScriptedPolicy()
    policy.action_space = Box(-1, 1, (1,))
    Collector(policy, DummyVectorEnv([lambda: env]))


def test_buffers_that_fit():
    for buffer in (
        None,
        VectorReplayBuffer(30, 5),
        PrioritizedVectorReplayBuffer(30, 3, alpha=0.6, beta=0.4),
        CachedReplayBuffer(ReplayBuffer(30), 3, 5),
    ):
        c = Collector(ScriptedPolicy(), vector(*(Scripted() for _ in range(3))), buffer)
        assert c.collect(n_episode=5).lens.tolist() == [3] * 5
    single = Collector(ScriptedPolicy(), vector(Scripted()), ReplayBuffer(10))
    assert single.collect(n_step=4).n_collected_steps == 4
    assert len(single.buffer) == 4


def test_a_single_environment_is_wrapped_with_a_warning():
    with pytest.warns(UserWarning, match="a single environment"):
        c = Collector(ScriptedPolicy(), Scripted())
    assert c.env_num == 1
    assert c.collect(n_episode=1).lens.tolist() == [3]


@pytest.mark.parametrize("mode", AutoresetMode)
def test_a_vector_environment_of_gymnasium_is_taken_as_it_is(mode):
    env = SyncVectorEnv([lambda: Scripted(2), lambda: Scripted(3)], autoreset_mode=mode)
    c = Collector(ScriptedPolicy(), env, VectorReplayBuffer(200, 2))
    assert c.collect(n_step=12).n_collected_steps == 12
    rows = c.buffer.buffers[0][:]
    assert rows.obs_next[:4].tolist() == [[0, 1], [0, 2], [1, 1], [1, 2]]
    assert rows.terminated[:4].tolist() == [False, True, False, True]
    assert sorted(c.evaluate(n_episode=3).lens.tolist()) == [2, 2, 3]
    assert sorted(c.collect(n_episode=4).lens.tolist()) in ([2, 2, 2, 3], [2, 2, 3, 3])


def test_what_is_no_vector_environment_is_refused():
    with pytest.raises(TypeError, match="put single environments into a DummyVectorEnv"):
        Collector(ScriptedPolicy(), object())
    with pytest.raises(ValueError, match="wait_num"):
        Collector(ScriptedPolicy(), DummyVectorEnv([Scripted] * 2, wait_num=1))


def test_an_error_within_a_step_does_not_join_what_comes_after_it():
    class Fragile(Scripted):
        def step(self, action):
            if (self.episode, self.step_count) == (0, 2) and not hasattr(self, "broke"):
                self.broke = True
                raise ZeroDivisionError
            return super().step(action)

    c = collector(Scripted(9), Fragile(9))
    with pytest.raises(ZeroDivisionError):
        c.collect(n_step=10)
    c.collect(n_step=4)
    for buffer in c.buffer.buffers:
        np.testing.assert_array_equal(buffer[:].obs, [[0, 0], [0, 1], [1, 0], [1, 1]])
        assert buffer[:].truncated.tolist() == [False, True, False, False]


def test_ragged_observations():
    class Growing(Scripted):
        def _obs(self):
            return np.arange(self.step_count + self.start)

    envs = [Growing(2), Growing(3)]
    envs[0].start, envs[1].start = 1, 5
    policy = ScriptedPolicy()
    c = collector(*envs, policy=policy)
    c.collect(n_step=6)
    assert [[len(obs) for obs in batch.obs] for batch in policy.seen] == [[1, 5], [2, 6], [1, 7]]
    assert [len(obs) for obs in c.buffer.buffers[0][:].obs_next] == [2, 3, 2]


def test_hidden_states_of_some_environments_stand_in_their_rows():
    def count(batch, state):
        return np.ones((len(batch.obs), 1)) if state is None else state + 1

    policy = ScriptedPolicy(state=count)
    c = Collector(policy, DummyVectorEnv([lambda: Scripted(9)] * 3), VectorReplayBuffer(100, 3))
    c.collect(n_episode=1)  # the first environment alone
    assert c._episodes.hidden.shape == (3, 1)
    c.collect(n_step=3)
    assert policy.states[-1].tolist() == [[0], [0], [0]]
