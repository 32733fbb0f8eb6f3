"""What collectors store, how much they collect, and how they reset."""

import re
from functools import reduce
from operator import getitem
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import rlfast
from collecting import collector, count, rings, vector
from rlfast.data import (
    Batch,
    CachedReplayBuffer,
    Collector,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
)
from rlfast.env import DummyVectorEnv
from rlfast.policy import RandomPolicy
from rlfast.utils.arguments.checks import NonFiniteError
from scripted import Scripted, ScriptedPolicy

# -- what is stored ----------------------------------------------------------------------------------------------------


def test_rows_at_ends_of_episodes():
    c = collector(Scripted(2), Scripted(3, truncate=True))
    c.collect(n_step=12)
    for rows, length, ends, other in zip(
        rings(c), (2, 3), ("terminated", "truncated"), ("truncated", "terminated"), strict=True
    ):
        steps = np.arange(6)
        np.testing.assert_array_equal(rows.obs, np.stack([steps // length, steps % length], 1))
        np.testing.assert_array_equal(rows.obs_next, np.stack([steps // length, steps % length + 1], 1))
        assert rows[ends].tolist() == (steps % length == length - 1).tolist()
        assert not rows[other].any()
        assert rows.info.env_id.tolist() == [length - 2] * 6


def test_policy_acts_on_the_reset_observation():
    policy = ScriptedPolicy()
    collector(Scripted(2), Scripted(9), policy=policy).collect(n_step=8)
    assert [batch.obs[0].tolist() for batch in policy.seen] == [[0, 0], [0, 1], [1, 0], [1, 1]]


def test_dict_observations():
    policy = ScriptedPolicy(act=lambda batch: batch.obs.pos[:, 1].astype(np.int64) % 4)
    c = collector(Scripted(2, dict_obs=True), Scripted(3, dict_obs=True), policy=policy)
    c.collect(n_step=8)
    rows = rings(c)[0]
    assert rows.obs.pos.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert rows.obs_next.pos.tolist() == [[0, 1], [0, 2], [1, 1], [1, 2]]
    assert (rows.obs.mask.dtype, rows.act.tolist()) == (np.int8, [0, 1, 0, 1])
    c.collect(n_episode=3)  # a subset of the environments works as well


@pytest.mark.pitfall("F3")
@pytest.mark.parametrize(("noise", "stored", "taken"), [(True, 2, 20), (False, 3, 30)])
def test_action_is_stored_as_the_policy_gave_it(noise, stored, taken):
    env = Scripted(9, actions=40)
    policy = ScriptedPolicy(act=lambda batch: np.full(len(batch.obs), 3), noise=lambda act: act - 1, scale=10)
    c = collector(env, policy=policy, exploration_noise=noise)
    c.collect(n_step=2)
    assert (env.actions, c.buffer[:].act.tolist()) == ([taken] * 2, [stored] * 2)


def test_random_actions_come_from_each_space():
    envs = [Scripted(50, actions=3), Scripted(50, actions=3)]
    c = collector(*envs, policy=ScriptedPolicy(scale=2))
    c.env.seed(0)
    c.collect(n_step=40, random=True)
    assert not c.policy.seen
    assert set(envs[0].actions) == set(envs[1].actions) == {0, 2}  # what the policy can say
    assert envs[0].actions != envs[1].actions
    assert set(rings(c)[0].act) <= {0, 1}  # stored in the policy's own form


def test_random_actions_are_legal():
    c = collector(Scripted(50, dict_obs=True, actions=2), Scripted(50, dict_obs=True, actions=2))
    c.collect(n_step=20, random=True)  # the mask of the observations allows the first action
    assert not c.buffer[:].act.any()


def test_infos_become_columns():
    def info(step):
        return {"lives": 3 - step, "what": c} | ({"bonus": {"points": 7.5}} if step == 2 else {})

    policy = ScriptedPolicy()
    c = collector(Scripted(2, info=info), Scripted(3, info={"lives": 1}), policy=policy)
    c.collect(n_step=6)
    rows = rings(c)[0].info
    assert (rows.lives.tolist(), rows.bonus.points.tolist(), [*rows.what]) == ([2, 1, 2], [0.0, 7.5, 0.0], [c] * 3)
    assert [batch.info.lives.tolist() for batch in policy.seen] == [[3, 1], [2, 1], [3, 1]]  # reset, step, reset
    assert policy.seen[2].info.env_id.tolist() == [0, 1]


def test_what_the_policy_adds_is_stored():
    c = collector(Scripted(2), policy=ScriptedPolicy(stored=lambda batch: Batch(logp=torch.tensor(batch.obs[:, 1]))))
    c.collect(n_step=4)
    assert c.buffer[:].policy.logp.tolist() == [0, 1, 0, 1]


def test_vector_rewards():
    c = collector(Scripted(2, reward=np.array([1.0, -1.0])), Scripted(2, reward=np.array([2.0, 0.0])))
    assert c.collect(n_episode=2).returns.tolist() == [[2, -2], [4, 0]]
    assert c.buffer[:].rew.shape == (4, 2)


def test_ragged_observations():
    class Growing(Scripted):
        def _obs(self):
            return np.arange(self.step_count + self.length**2)

    c = collector(Growing(2), Growing(3))
    c.collect(n_step=6)
    assert [[len(obs) for obs in batch.obs] for batch in c.policy.seen] == [[4, 9], [5, 10], [4, 11]]
    assert [len(obs) for obs in rings(c)[0].obs_next] == [5, 6, 5]


# -- hidden states -----------------------------------------------------------------------------------------------------

STATES = {  # a hidden state that holds an array, and the way to it in a row
    "array": (lambda array: array, ""),
    "tensor": (torch.tensor, ""),
    "dict": (lambda array: {"h": torch.tensor(array)}, "h"),
    "tuple": (lambda array: (array, torch.tensor(array)), "0"),
    "list": (lambda array: [torch.tensor(array)], "0"),
    "nested": (lambda array: {"h": (array, {"c": [torch.tensor(array)]})}, "h0"),
    "Batch": (lambda array: Batch(h=torch.tensor(array), deep=Batch(c=array)), "h"),
}


def leaf(state):
    if isinstance(state, dict | Batch):
        return leaf(state["h"])
    return state[0] if isinstance(state, tuple | list) else state


@pytest.mark.parametrize("kind", STATES)
def test_hidden_states_before_each_step_are_stored(kind):
    made, path = STATES[kind]

    class Policy(ScriptedPolicy):
        def __call__(self, batch, state=None):
            old = np.zeros(len(batch.obs)) if state is None else np.asarray(leaf(state))
            return Batch(act=np.zeros(len(batch.obs), np.int64), state=made(old + 1))

    c = collector(Scripted(2), Scripted(3), policy=Policy())
    c.collect(n_step=4)
    c.collect(n_step=8)  # carried over from one collect to the next
    for rows, expected in zip(rings(c), ([0, 1] * 3, [0, 1, 2] * 2), strict=True):
        assert reduce(getitem, path, rows.policy.hidden_state).tolist() == expected


def test_hidden_states_follow_their_environment():
    def column(batch, state):
        return np.ones((len(batch.obs), 1)) if state is None else state + 1

    c = collector(Scripted(1), Scripted(5), policy=ScriptedPolicy(state=count))
    c.collect(n_episode=2)
    assert rings(c)[1].policy.hidden_state.tolist() == [0, 1, 2, 3, 4]
    c.reset_env()
    c.collect(n_step=4)
    assert rings(c)[1][-2:].policy.hidden_state.tolist() == [0, 1]
    three = collector(*(Scripted(9) for _ in range(3)), policy=ScriptedPolicy(state=column))
    three.collect(n_episode=1)  # the first environment alone
    assert three._episodes.hidden.shape == (3, 1)
    three.collect(n_step=3)
    assert three.policy.states[-1].tolist() == [[0], [0], [0]]


def test_random_steps_clear_hidden_states():
    policy = ScriptedPolicy(state=count)
    c = collector(Scripted(9), policy=policy)
    for random in (False, True, False):
        c.collect(n_step=2, random=random)
    assert [None if state is None else state.tolist() for state in policy.states] == [None, [1], [0], [1]]
    assert c.buffer[:].policy.hidden_state.tolist() == [0, 1, 0, 0, 0, 1]
    two = collector(Scripted(9), Scripted(9), policy=policy)
    two.collect(n_step=4)
    two.collect(n_step=1, exact=True, random=True)  # of the first environment alone
    two.collect(n_step=2)
    assert policy.states[-1].tolist() == [0, 2]


def test_hidden_states_of_objects_begin_as_none():
    def remember(batch, state):
        memory = np.empty(1, object)
        memory[0] = [*((None if state is None else state[0]) or []), int(batch.obs[0, 1])]
        return memory

    c = collector(Scripted(3), policy=ScriptedPolicy(state=remember))
    c.collect(n_step=5)
    assert c.buffer[:].policy.hidden_state.tolist() == [None, [0], [0, 1], None, [0]]


def test_resets_clear_hidden_states():
    c = collector(Scripted(9), Scripted(9), policy=ScriptedPolicy(state=count))
    c.collect(n_step=4)
    c.reset_env()
    c.collect(n_step=4)
    c.collect(n_step=2, reset_before_collect=True)
    states = [None if state is None else state.tolist() for state in c.policy.states]
    assert states == [None, [1, 1], [0, 0], [1, 1], [0, 0]]


# -- how much is collected ---------------------------------------------------------------------------------------------


@pytest.mark.pitfall("E11")
def test_environments_left_out_of_the_last_vector_step_continue():
    c = collector(Scripted(5), Scripted(5))
    c.collect(n_step=3, exact=True)
    c.collect(n_step=4)
    for rows, steps in zip(rings(c), (4, 3), strict=True):
        assert rows.obs.tolist() == [[0, step] for step in range(steps)]


def test_steps_are_rounded_up_unless_exact():
    c = collector(*(Scripted(3) for _ in range(4)))
    with pytest.warns(UserWarning, match="n_step=6 is not a multiple of the 4 environments"):
        assert c.collect(n_step=6).n_collected_steps == 8
    assert c.collect(n_step=8).n_collected_steps == 8
    assert c.collect(n_step=6, exact=True).n_collected_steps == 6
    assert [len(rows) for rows in rings(c)] == [6, 6, 5, 5]
    assert c.collect_step == 22
    assert c.collect(n_step=2, exact=True).n_collected_steps == 2
    assert rings(c)[0].obs[-2:].tolist() == [[1, 2], [2, 0]]  # no row lost or doubled
    assert rings(c)[3].obs[-2:].tolist() == [[1, 0], [1, 1]]


@pytest.mark.pitfall("E11")
def test_without_overwriting_raises_before_a_row_is_lost():
    c = collector(Scripted(9), Scripted(9), size=3)
    c.collect(n_step=4)
    with c.without_overwriting():
        c.collect(n_step=1, exact=True)
        with pytest.raises(ValueError, match="environment 0 has filled the 3 rows that the buffer has for it"):
            c.collect(n_step=6)
    assert c.collect_step == 5
    c.collect(n_step=8)


def test_finite_rewards_raises_before_a_row_is_stored():
    c = collector(Scripted(9), Scripted(9, reward=lambda step: np.nan if step == 3 else 1.0))
    c.collect(n_step=2)
    with c.finite_rewards(), pytest.raises(NonFiniteError, match="environment 1 gave the reward nan after 4 env"):
        c.collect(n_step=6)
    assert (len(c.buffer), c.collect_step) == (4, 2)
    assert c.collect(n_step=8).n_collected_steps == 8


def test_episodes_continue_between_collects_of_steps():
    envs = Scripted(3), Scripted(4)
    c = collector(*envs)
    for _ in range(6):
        c.collect(n_step=2)
    assert [rows.obs[:, 1].tolist() for rows in rings(c)] == [[0, 1, 2, 0, 1, 2], [0, 1, 2, 3, 0, 1]]
    assert [env.resets for env in envs] == [3, 2]
    c.collect(n_step=2)
    assert c.collect(n_episode=1).lens.tolist() == [3]  # one that had begun


@pytest.mark.pitfall("E11")
def test_fewer_episodes_than_environments_use_the_first():
    envs = [Scripted(2) for _ in range(4)]
    stats = collector(*envs).collect(n_episode=2)
    assert (stats.n_collected_episodes, stats.n_collected_steps) == (2, 4)
    assert [env.resets for env in envs] == [1, 1, 0, 0]


def test_every_environment_contributes():
    stats = collector(Scripted(1, reward=0), Scripted(7), Scripted(10)).collect(n_episode=4)
    assert stats.n_collected_episodes == 4
    assert sorted(stats.lens.tolist()) == [1, 1, 7, 10]
    assert (stats.returns_stat.max, stats.lens_stat.mean) == (10.0, 19 / 4)


def test_collects_of_episodes_leave_new_ones_to_begin():
    c = collector(Scripted(2), Scripted(9))
    c.collect(n_step=2)
    c.collect(n_episode=1)
    c.collect(n_step=2)
    rows = rings(c)[1]
    assert rows.obs.tolist() == [[0, 0], [1, 0]]
    assert rows.truncated.tolist() == [True, False]  # what was cut short, so that nothing reaches across
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


def test_statistics_without_an_episode():
    stats = collector(Scripted(9)).collect(n_step=3)
    assert stats.returns_stat is stats.lens_stat is None
    assert stats.returns.shape == stats.lens.shape == (0,)
    assert stats.collect_speed == pytest.approx(3 / stats.collect_time)


# -- evaluation --------------------------------------------------------------------------------------------------------


@pytest.mark.pitfall("E10")
def test_evaluation_is_not_biased_towards_short_episodes():
    envs = [Scripted(1, reward=0.0), Scripted(100, reward=0.01)]
    stats = collector(*envs).evaluate(10)
    assert sorted(stats.returns.round(6).tolist()) == [0.0] * 5 + [1.0] * 5
    assert [env.resets for env in envs] == [5, 5]  # one for each episode, and none to spare
    assert collector(*envs).collect(n_episode=10).returns_stat.mean == pytest.approx(0.1)  # the rule for learning


@pytest.mark.pitfall("E10")
@pytest.mark.parametrize("repeats", [100, pytest.param(2000, marks=pytest.mark.long)])
def test_evaluation_of_random_lengths_has_the_right_mean(repeats):
    c = collector(*(Scripted(lambda rng: 1 if rng.random() < 0.5 else 100) for _ in range(4)))
    c.env.seed(0)
    means = np.array([c.evaluate(10).returns_stat.mean for _ in range(repeats)])
    assert abs(means.mean() - 50.5) < 3 * 49.5 / np.sqrt(10 * repeats)  # the first ten to end would give 40.1


def test_evaluation_takes_the_options_of_a_collect():
    env = Scripted(2)
    c = collector(env)
    c.evaluate(1, random=True)
    assert c.policy.seen == []
    c.evaluate(1, gym_reset_kwargs={"options": {"x": 1}})
    assert (len(c.policy.seen), env.reset_kwargs[-1]["options"]) == (2, {"x": 1})


def test_evaluation_plays_new_episodes_and_leaves_new_ones_to_begin():
    c = collector(Scripted(4), Scripted(4))
    c.collect(n_step=4)
    assert c.evaluate(3).lens.tolist() == [4, 4, 4]
    assert c.collect_episode == 3
    c.collect(n_step=2)
    assert rings(c)[1].obs[-1].tolist() == [2.0, 0.0]


@pytest.mark.parametrize("reset", ["reset", "reset_env"])
def test_a_reset_before_evaluation_is_one_of_its_resets(reset):
    envs = [Scripted(2), Scripted(3)]
    c = collector(*envs)
    getattr(c, reset)()
    assert sorted(c.evaluate(4).lens.tolist()) == [2, 2, 3, 3]
    assert [env.resets for env in envs] == [2, 2]
    getattr(c, reset)()
    c.collect(n_step=2)  # these episodes are not new any more
    c.evaluate(2)
    assert [env.resets for env in envs] == [4, 4]
    getattr(c, reset)()
    c.evaluate(2, gym_reset_kwargs={"options": {"x": 1}})
    assert [env.resets for env in envs] == [6, 6]


def test_a_reset_before_evaluation_counts_in_native_environments():
    envs = rlfast.make_vec("CartPole-v1", 2)
    c = Collector(RandomPolicy(action_space=envs.single_action_space), envs, VectorReplayBuffer(2000, 2))
    first, _ = c.reset()
    c.evaluate(2, random=True)
    np.testing.assert_array_equal([rows.obs[0] for rows in rings(c)], first)
    c.reset()
    c.collect(n_step=2, random=True)
    c.reset_buffer()
    assert len(c.buffer) == 0
    assert c.evaluate(2, random=True).lens.sum() == len(c.buffer)
    assert np.abs([rows.obs[0] for rows in rings(c)]).max() < 0.05


# -- resetting and closing ---------------------------------------------------------------------------------------------


def test_the_first_collect_resets_and_the_constructor_does_not():
    env, buffer = Scripted(3), VectorReplayBuffer(10, 1)
    obs = np.zeros((1, 2), np.float32)
    buffer.add(Batch(obs=obs, act=[0], rew=[0.0], terminated=[True], truncated=[False], obs_next=obs,
                     info={"env_id": np.array([0])}))  # fmt: skip
    c = Collector(ScriptedPolicy(), vector(env), buffer)
    assert (env.resets, len(buffer)) == (0, 1)  # a loaded buffer is kept
    c.collect(n_step=1)
    assert (env.resets, len(buffer)) == (1, 2)


def test_reset_keeps_what_it_is_asked_to_keep():
    c = collector(Scripted(5))
    c.collect(n_step=3)
    c.reset(reset_buffer=False, reset_stats=False)
    assert (len(c.buffer), c.collect_step) == (3, 3)
    c.collect(n_step=2)
    assert c.buffer[:].obs[:, 0].tolist() == [0, 0, 0, 1, 1]
    c.reset()
    assert (len(c.buffer), c.collect_step, c.collect_episode, c.collect_time) == (0, 0, 0, 0.0)
    c.collect(n_step=1, reset_before_collect=True)
    assert c.buffer[0].obs.tolist() == [3.0, 0.0]
    for keep, length in (({}, 4), ({"keep_statistics": True}, 5)):
        c.reset_env()
        c.collect(n_step=1)
        c.reset_buffer(**keep)
        assert (len(c.buffer), c.collect(n_step=4).lens.tolist()) == (0, [length])


def test_a_seed_is_used_once_in_each_environment():
    envs = Scripted(2), Scripted(3)
    c = collector(*envs)

    def seeds(last):
        return [[call["seed"] for call in env.reset_kwargs][-last:] for env in envs]

    c.collect(n_step=12, gym_reset_kwargs={"seed": 9, "options": {"x": 1}})
    assert [found[:3] for found in seeds(99)] == [[9, None, None], [10, None, None]]
    assert all(call["options"] == {"x": 1} for env in envs for call in env.reset_kwargs)
    c.collect(n_step=2, gym_reset_kwargs={"seed": 5})  # no episode begins
    assert [seed for found in seeds(99) for seed in found if seed] == [9, 10]
    c.collect(n_step=8, gym_reset_kwargs={"seed": [5, 6]})  # within the collect
    assert [found[-2:] for found in seeds(99)] == [[5, None], [None, 6]]
    c.reset_env({"seed": 4})
    assert seeds(1) == [[4], [5]]
    c.evaluate(4, gym_reset_kwargs={"seed": 7})
    assert seeds(2) == [[7, None], [8, None]]
    c.collect(n_step=2, reset_before_collect=True, gym_reset_kwargs={"seed": 8})
    assert seeds(1) == [[8], [9]]
    c.collect(n_step=8, reset_before_collect=True, gym_reset_kwargs={"seed": 8})
    assert seeds(1)[0] == [None]


def test_only_what_is_true_renders_until_it_is_closed():
    env, frames = Scripted(9), []
    env.render = lambda: frames.append(env.step_count)
    with collector(env) as c:
        for render in (None, 0.0, 0, False, np.float32(0)):
            c.collect(n_step=1, render=render)
        c.evaluate(1, render=0.0)
        assert frames == []
        c.collect(n_step=2, render=1e-6)
        assert frames == [1, 2]
        c.evaluate(1, render=-1)
        assert (len(frames), c.is_closed) == (2 + 9, False)
    assert (c.is_closed, env.closed) == (True, True)
    for collect in (lambda: c.collect(n_step=1), lambda: c.evaluate(1)):
        with pytest.raises(RuntimeError, match="closed"):
            collect()


def test_gradients_are_recorded_only_when_asked_for():
    weight, recorded = torch.ones(1, requires_grad=True), []
    c = collector(Scripted(9), policy=ScriptedPolicy(stored=lambda _: recorded.append((weight * 2).requires_grad)))
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
        ({"n_step": float("inf")}, TypeError, "n_step must be an integer, got inf"),
        ({"n_episode": 1.5}, TypeError, "n_episode must be an integer, got 1.5"),
        ({"n_episode": "3"}, TypeError, "got '3'"),
        ({"n_step": 1, "render": "3"}, TypeError, "render must be a number or None, got '3'"),
        ({"n_step": 1, "gym_reset_kwargs": 3}, TypeError, "gym_reset_kwargs must be a dict or None, got 3"),
    ],
)
def test_wrong_arguments_of_collect(arguments, error, message):
    c = collector(Scripted())
    with pytest.raises(error, match=message) as raised:
        c.collect(**arguments)
    assert c.env.workers[0].env.resets == 0
    if "render" not in arguments and "gym_reset_kwargs" not in arguments:
        assert isinstance(raised.value, AssertionError | TypeError | ValueError)


@pytest.mark.parametrize("kind", [TypeError, ValueError, AssertionError])
@pytest.mark.parametrize("arguments", [{}, {"n_step": 1, "n_episode": 1}, {"n_step": 0}, {"n_episode": -1}])
def test_wrong_numbers_are_errors_of_every_version_of_tianshou(kind, arguments):
    with pytest.raises(kind):
        collector(Scripted()).collect(**arguments)


def test_wrong_arguments_of_evaluate():
    for arguments, error, message in (
        ({"n_episode": 0}, ValueError, "n_episode must be a positive integer, got 0"),
        ({"n_episode": 1, "gym_reset_kwargs": 3}, TypeError, "^gym_reset_kwargs must be a dict or None, got 3"),
    ):
        with pytest.raises(error, match=message):
            collector(Scripted()).evaluate(**arguments)


def test_numbers_to_collect_may_be_floats():
    c = collector(Scripted(), Scripted())
    assert c.collect(n_step=1e1).n_collected_steps == 10
    with pytest.warns(UserWarning, match="n_step=3.2 is not whole: 4 is taken"):
        assert c.collect(n_step=3.2).n_collected_steps == 4
    assert c.collect(n_episode=2.0).n_collected_episodes == 2
    assert c.evaluate(np.int32(3)).n_collected_episodes == 3


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"policy": None}, TypeError, "got None, which has no forward, map_action"),
        ({"policy": len, "exploration_noise": True}, TypeError, "which has no map_action, exploration_noise"),
        ({"preprocess_fn": 5}, TypeError, "preprocess_fn must be a function or None, got 5"),
        ({"env": "CartPole-v1"}, TypeError, "expected a vector environment"),
        ({"env": object()}, TypeError, "put single environments into a DummyVectorEnv"),
        ({"env": DummyVectorEnv([Scripted] * 2, wait_num=1)}, ValueError, "wait_num"),
        ({"on_step_hook": 5}, TypeError, "on_step_hook must be a function or None, got 5"),
        ({"on_episode_done_hook": "x"}, TypeError, "on_episode_done_hook must be a function or None, got 'x'"),
        ({"buffer": CachedReplayBuffer(ReplayBuffer(10), 2, 5)}, ValueError, "has 2 rings for 3 environments"),
    ],
)
def test_wrong_arguments_of_the_constructor(changes, error, message):
    with pytest.raises(error, match=re.escape(message)):
        Collector(**{"policy": ScriptedPolicy(), "env": vector(*(Scripted() for _ in range(3))), **changes})


def test_buffers_of_every_kind():
    for buffer in (
        None,
        VectorReplayBuffer(30, 5),
        PrioritizedVectorReplayBuffer(30, 3, alpha=0.6, beta=0.4),
        CachedReplayBuffer(ReplayBuffer(30), 3, 5),
    ):
        c = Collector(ScriptedPolicy(), vector(*(Scripted() for _ in range(3))), buffer)
        assert c.collect(n_episode=5).lens.tolist() == [3] * 5
    single = Collector(ScriptedPolicy(), vector(Scripted()), ReplayBuffer(10))
    assert (single.collect(n_step=4).n_collected_steps, len(single.buffer)) == (4, 4)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_vector_environments_of_gymnasium(mode):
    env = SyncVectorEnv([lambda: Scripted(2), lambda: Scripted(3)], autoreset_mode=mode)
    c = Collector(ScriptedPolicy(), env, VectorReplayBuffer(200, 2))
    assert c.collect(n_step=12).n_collected_steps == 12
    rows = rings(c)[0]
    assert rows.obs_next[:4].tolist() == [[0, 1], [0, 2], [1, 1], [1, 2]]
    assert rows.terminated[:4].tolist() == [False, True, False, True]
    assert sorted(c.evaluate(n_episode=3).lens.tolist()) == [2, 2, 3]
    assert sorted(c.collect(n_episode=4).lens.tolist()) in ([2, 2, 2, 3], [2, 2, 3, 3])


def test_an_error_within_a_step_ends_the_episodes():
    class Fragile(Scripted):
        broke = False

        def step(self, action):
            if (self.episode, self.step_count) == (0, 2) and not self.broke:
                self.broke = True
                raise ZeroDivisionError
            return super().step(action)

    c = collector(Scripted(9), Fragile(9))
    with pytest.raises(ZeroDivisionError):
        c.collect(n_step=10)
    c.collect(n_step=4)
    for rows in rings(c):
        assert rows.obs.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
        assert rows.truncated.tolist() == [False, True, False, False]
