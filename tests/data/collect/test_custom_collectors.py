"""Collectors, policies, buffers and environments as users of Tianshou write them."""

from types import SimpleNamespace
from unittest.mock import MagicMock

import gymnasium as gym
import numpy as np
import pytest
import torch

from collecting import collector, rings, vector
from rlfast.data import AsyncCollector, Batch, Collector, CollectStats, ReplayBuffer, VectorReplayBuffer
from rlfast.data.collector import BaseCollector
from rlfast.env import BaseVectorEnv, DummyEnvWorker, DummyVectorEnv
from scripted import Scripted, ScriptedPolicy

# -- arguments ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Collector, AsyncCollector])
def test_constructor_takes_arguments_in_the_order_of_either_version(kind):
    policy, buffer = ScriptedPolicy(noise=lambda act: act + 1), VectorReplayBuffer(20, 2)
    for after_the_buffer in ((None, True), (True,), (np.True_,)):
        c = kind(policy, vector(Scripted(), Scripted()), buffer, *after_the_buffer)
        assert (c.exploration_noise, c.preprocess_fn) == (True, None)
        c.collect(2)
        assert buffer.act[[0, 10]].tolist() == [1, 1]
        buffer.reset()
    c = kind(policy, vector(Scripted(), Scripted()), buffer, lambda **_: None, False)
    assert c.exploration_noise is False
    assert callable(c.preprocess_fn)


def test_methods_take_arguments_in_the_order_of_either_version():
    env = Scripted(3)
    c = collector(env)

    def options():
        return env.reset_kwargs[-1]["options"]

    assert c.collect(2, None, False, None, True, {"options": {"x": 1}}).n_collected_steps == 2
    assert options() == {"x": 1}
    assert c.collect(None, 1, False, None, True, None).n_collected_episodes == 1
    c.collect(1, None, False, None, True, True, {"options": {"x": 2}})
    assert options() == {"x": 2}
    c.reset(False, {"options": {"x": 3}})
    assert (options(), c.collect_step, len(c.buffer) > 0) == ({"x": 3}, 0, True)
    c.collect(1)
    c.reset(True, False, {"options": {"x": 4}})
    assert (options(), c.collect_step, len(c.buffer)) == ({"x": 4}, 1, 0)
    c.reset(True, None)
    assert c.collect_step == 0


def test_class_may_be_indexed_by_its_statistics():
    c = Collector[CollectStats](ScriptedPolicy(), vector(Scripted()))
    assert type(c.collect(n_step=1)) is CollectStats


# -- resetting ---------------------------------------------------------------------------------------------------------


def test_resets_return_the_first_observations():
    c = collector(Scripted(3, info={"lives": 2}), Scripted(3))
    for obs, info in (c.reset(), c.reset_env()):
        assert obs.shape == (2, 2)
        assert isinstance(info, np.ndarray)
        assert info.tolist() == [{"lives": 2}, {}]
    assert collector(Scripted(3, dict_obs=True)).reset()[0].pos.tolist() == [[0, 0]]


def test_reset_before_collect_resets_the_counters():
    c = collector(Scripted(3))
    c.collect(n_step=2)
    c.collect(n_step=4, reset_before_collect=True)
    assert (c.collect_step, len(c.buffer)) == (4, 6)


def test_an_overridden_reset_is_called_by_the_constructor():
    class Own(Collector):
        def __init__(self, *args, **kwargs):
            self.calls = []
            super().__init__(*args, **kwargs)

        def reset(self, reset_buffer=True, gym_reset_kwargs=None):
            super().reset(reset_buffer, gym_reset_kwargs)
            self.calls.append(reset_buffer)

    env = Scripted(3)
    c = collector(env, kind=Own)
    assert (c.calls, env.resets) == ([False], 1)
    c.collect(n_step=2)
    assert (c.calls, env.resets) == ([False], 1)
    c.reset()
    c.collect(n_step=1, reset_before_collect=True)
    assert (c.calls, env.resets) == ([False, True, False], 3)


class Counted(Collector):
    """Counts resets of the environments, and gives each its number."""

    resets = 0

    def reset_env(self, gym_reset_kwargs=None):
        self.resets += 1
        return super().reset_env({"options": {"number": self.resets}, **(gym_reset_kwargs or {})})


def test_an_overridden_reset_env_is_called_where_all_begin():
    env = Scripted(3)
    c = collector(env, kind=Counted)
    assert c.resets == 0
    for steps in (2, 2):
        c.collect(n_step=steps)
        assert (c.resets, env.reset_kwargs[0]["options"]) == (1, {"number": 1})
    c.collect(n_episode=1)
    c.collect(n_episode=1, gym_reset_kwargs={"seed": 3})
    assert (c.resets, env.reset_kwargs[-1]) == (2, {"seed": 3, "options": {"number": 2}})
    c.evaluate(1)
    assert c.resets == 3
    c.collect(n_episode=2, gym_reset_kwargs={"seed": 4, "options": {"x": 1}})
    assert env.reset_kwargs[-2:] == [{"seed": seed, "options": {"x": 1}} for seed in (4, None)]


def test_an_overridden_reset_env_may_take_no_argument():
    class Bare(Collector):
        def reset_env(self):
            return super().reset_env()

    c = collector(Scripted(3), kind=Bare)
    c.reset()
    c.collect(n_episode=1)
    assert c.collect(n_episode=1).lens.tolist() == [3]


def test_an_overridden_reset_env_may_reset_in_its_own_way():
    class Shifted(Collector):
        def reset_env(self, gym_reset_kwargs=None):
            obs, _ = self.env.reset()
            return obs + 50, [{"lives": 7}] * len(obs)

    envs = Scripted(9), Scripted(9)
    c = collector(*envs, kind=Shifted)
    c.collect(n_step=4)
    assert [env.resets for env in envs] == [1, 1]
    assert [rows.obs.tolist() for rows in rings(c)] == [[[50, 50], [0, 1]]] * 2
    assert c.policy.seen[0].info.lives.tolist() == [7, 7]
    c.collect(n_episode=1)
    c.collect(n_step=2)
    assert rings(c)[1].truncated.tolist() == [False, True, False]  # the episode that was running


class Constant(BaseCollector):
    """Collects by a method of its own, and always takes action 2."""

    def reset_env(self, gym_reset_kwargs=None):
        self.obs, info = super().reset_env(gym_reset_kwargs)
        return self.obs, info

    def _collect(self, n_step=None, n_episode=None, random=False, render=None, gym_reset_kwargs=None):
        self.given = gym_reset_kwargs
        for _ in range(n_step // self.env_num):
            act = np.full(self.env_num, 2)
            obs_next, rew, terminated, truncated, info = self.env.step(act)
            row = Batch(obs=self.obs, act=act, rew=rew, terminated=terminated, truncated=truncated,
                        obs_next=obs_next, info=info)  # fmt: skip
            self.buffer.add(row, buffer_ids=np.arange(self.env_num))
            self.obs = obs_next
        self.collect_step += n_step
        return CollectStats(n_collected_steps=n_step)


def test_an_overridden_collect_method_follows_one_reset():
    env = Scripted(9, info={"lives": 2})
    c = collector(env, Scripted(9), kind=Constant)
    assert [c.exploration_noise, c.raise_on_nan_in_buffer, c.is_closed] == [False] * 3
    assert c.action_space == c.env.action_space
    assert c.collect(n_step=4, gym_reset_kwargs={"options": {"x": 1}}).n_collected_steps == 4
    assert (c.buffer[:].act.tolist(), c.collect_step) == ([2] * 4, 4)
    c.collect(n_step=2)
    assert [one["options"] for one in env.reset_kwargs] == [{"x": 1}]
    c.env = vector(env)
    assert c.reset_env()[1].tolist() == [{"lives": 2}]
    c.collect(n_step=1)
    assert env.resets == 2
    c.collect(n_step=1, reset_before_collect=True, gym_reset_kwargs={"seed": 3, "options": {}})
    assert (env.reset_kwargs[-1]["seed"], c.given) == (3, {"options": {}})
    assert len(c.buffer) == 8


def test_an_overridden_collect_method_beside_an_own_reset():
    class Own(Constant):
        def reset_env(self, gym_reset_kwargs=None):
            self.obs, info = self.env.reset()
            return self.obs, info

    env = Scripted(9)
    c = collector(env, kind=Own)
    c.collect(n_step=1)
    c.collect(n_step=1)
    assert env.resets == 1


# -- what the collector holds ------------------------------------------------------------------------------------------


def test_data_is_what_the_next_actions_are_chosen_from():
    envs = Scripted(2, info={"lives": 1}), Scripted(3, info={"lives": 2})
    c = collector(*envs, policy=ScriptedPolicy(act=lambda batch: np.arange(len(batch.obs))))
    assert c.data.obs.tolist() == [[0, 0], [0, 0]]  # the constructor of 1.0 resets
    assert (c.data.info.lives.tolist(), c.data.rew.is_empty()) == ([1, 2], True)
    assert [env.resets for env in envs] == [1, 1]
    c.collect(n_step=4)
    assert c.data.obs.tolist() == [[1, 0], [0, 2]]
    assert c.data.obs_next.tolist() == [[0, 2], [0, 2]]
    assert c.data.done.tolist() == c.data.terminated.tolist() == [True, False]
    assert (c.data.act.tolist(), c.data.rew.tolist(), c.data.policy.is_empty()) == ([0, 1], [1, 1], True)
    assert len(c.data) == 2
    c.collect(n_episode=2)
    resets = [env.resets for env in envs]
    assert c.data.act.is_empty()
    assert c.data.obs[:, 1].tolist() == [0, 0]
    c.collect(n_step=2)
    assert [env.resets for env in envs] == [number + 1 for number in resets]


def test_data_begins_episodes_that_a_collect_left_to_begin():
    c = collector(Scripted(9), Scripted(1))
    c.collect(n_step=3, exact=True)  # the second environment is not needed after its episode
    assert c.data.obs.tolist() == [[0.0, 2.0], [1.0, 0.0]]


def test_the_policy_sees_the_step_before_as_attributes():
    seen = []

    class Policy(ScriptedPolicy):
        def __call__(self, batch, state=None):
            assert set(batch.keys()) == {"obs", "info"}
            assert len(batch) == len(batch.obs)
            empty = isinstance(batch.rew, Batch) and batch.rew.is_empty() and batch.done.is_empty()
            seen.append(None if empty else (batch.rew.tolist(), batch.act.tolist(), batch.done.tolist()))
            assert not any(hasattr(copy, "rew") for copy in (Batch(batch), batch[:1]))
            return super().__call__(batch, state)

        def exploration_noise(self, act, batch):
            return act + (0 if isinstance(batch.obs_next, Batch) else batch.obs_next[:, 1].astype(int) % 2)

    envs = Scripted(1, reward=lambda step: -step), Scripted(3, reward=lambda step: step)
    c = collector(*envs, policy=Policy(), exploration_noise=True)
    c.collect(n_episode=3)
    assert seen == [
        None,
        ([-1, 1], [0, 0], [True, False]),
        ([2], [1], [False]),  # the first environment has left
    ]
    assert rings(c)[1].act.tolist() == [0, 1, 0]
    seen.clear()
    c.collect(n_step=2)
    assert seen == [None]


def test_environments_may_be_replaced():
    c = collector(Scripted(2), Scripted(2))
    c.collect(n_step=2)
    c.env = vector(Scripted(5), Scripted(5))
    c.collect(n_step=4)
    first = rings(c)[0]
    assert (first.obs[:, 1].tolist(), first.truncated.tolist()) == ([0, 0, 1], [True, False, False])
    c.env = vector(Scripted(5))
    assert (c.env_num, c.collect(n_step=3).n_collected_steps) == (1, 3)
    with pytest.raises(ValueError, match="2 rings for 3 environments"):
        c.env = vector(Scripted(), Scripted(), Scripted())


def test_the_buffer_may_be_replaced():
    c = collector(Scripted(3), Scripted(3))
    c.collect(n_step=4)
    c._assign_buffer(other := VectorReplayBuffer(20, 2))
    c.collect(n_step=4)
    assert (c.buffer is other, len(other)) == (True, 4)
    with pytest.raises(AssertionError, match="1 rings for 2 environments"):
        c._assign_buffer(VectorReplayBuffer(20, 1))


# -- policies ----------------------------------------------------------------------------------------------------------


class Forward:
    """A policy with a ``forward`` and no base class of rlfast."""

    def forward(self, batch, state=None):
        self.state = state
        return {"act": [1] * len(batch.obs), "state": np.ones(len(batch.obs))}

    def map_action(self, act):
        return act


def test_a_policy_needs_the_methods_that_are_called():
    c = collector(Scripted(3), policy=Forward())
    assert c.collect(n_step=3).n_collected_steps == 3
    assert (c.buffer[:].act.tolist(), c.policy.state.tolist()) == ([1, 1, 1], [1.0])
    with pytest.raises(TypeError, match="random actions need a policy with map_action_inverse, got"):
        c.collect(n_step=1, random=True)
    assert len(c.buffer) == 3


ACTIONS = {
    "floats": lambda n: np.ones(n),
    "32 bits": lambda n: np.ones(n, np.int32),
    "a list": lambda n: [1] * n,
    "a tensor": lambda n: torch.ones(n, dtype=torch.int64),
    "a tensor with gradient": lambda n: torch.ones(n, requires_grad=True),
    "unsigned": lambda n: np.ones(n, np.uint8),
    "flags": lambda n: np.ones(n, bool),
}


@pytest.mark.parametrize("kind", ACTIONS)
def test_actions_of_any_number_type(kind):
    env = Scripted(3)
    env.action_space = gym.spaces.Box(0.0, 2.0, ())
    c = collector(env, policy=ScriptedPolicy(act=lambda batch: ACTIONS[kind](len(batch.obs))))
    c.collect(n_step=4)
    assert env.actions == c.buffer[:].act.tolist() == [1] * 4


def test_actions_may_be_mapped_to_another_shape():
    class Chooses(ScriptedPolicy):
        action_space = gym.spaces.Box(-1.0, 1.0, (1,))

        def map_action(self, act):
            return (act[:, 0] > 0).astype(int)

    env = Scripted(3, actions=2)
    with pytest.warns(UserWarning, match="action_space"):
        c = collector(env, policy=Chooses(act=lambda batch: np.full((len(batch.obs), 1), 0.5)))
    c.collect(n_step=2)
    assert env.actions == [1, 1]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_one_action_for_all_environments_raises(count):
    envs = [Scripted(3) for _ in range(count)]
    c = collector(*envs, policy=ScriptedPolicy(act=lambda _: np.zeros(2)))
    c.policy.action_space = gym.spaces.Box(-1.0, 1.0, (2,))
    with pytest.raises(ValueError, match=r"must have the shape \(\.\.\., 2\), got \(2,\)"):
        c.collect(n_step=count)
    assert ([env.actions for env in envs], len(c.buffer)) == ([[]] * count, 0)


def test_a_policy_may_answer_with_any_object():
    class Answer(SimpleNamespace):
        def get(self, key, default=None):
            return getattr(self, key, default)

    class Policy(ScriptedPolicy):
        def __call__(self, batch, state=None):
            return Answer(act=np.zeros(len(batch.obs), int), policy={"v": torch.ones(len(batch.obs))}, state=None)

    c = collector(Scripted(3), policy=Policy())
    c.collect(n_step=2)
    assert c.buffer[:].policy.v.tolist() == [1, 1]


def test_a_policy_may_be_a_mock():
    policy = MagicMock()
    policy.return_value = Batch(act=np.zeros(2, int))
    policy.map_action.side_effect = lambda act: act
    c = collector(Scripted(3), Scripted(3), policy=policy)
    assert (c.collect(n_step=6).n_collected_steps, policy.call_count) == (6, 3)


# -- buffers -----------------------------------------------------------------------------------------------------------


def test_a_buffer_of_a_users_class():
    class Rows:
        def __init__(self):
            self.batches = []

        def reset(self, keep_statistics=False):
            self.batches.clear()

        def add(self, batch, buffer_ids=None):
            self.batches.append(batch)
            done = batch.terminated | batch.truncated
            return np.arange(len(done)), np.where(done, 7.0, 0.0), np.where(done, 3, 0), np.zeros(len(done), int)

    c = Collector(ScriptedPolicy(), vector(Scripted(3), Scripted(3)), Rows())
    stats = c.collect(n_episode=2)
    assert (stats.returns.tolist(), stats.lens.tolist(), len(c.buffer.batches)) == ([7.0, 7.0], [3, 3], 3)
    c.reset()
    assert c.buffer.batches == []


def test_a_buffer_may_override_add():
    class Shifted(ReplayBuffer):
        def add(self, batch, buffer_ids=None):
            batch.rew = batch.rew + 1
            return super().add(batch, buffer_ids)

    c = Collector(ScriptedPolicy(), vector(Scripted(3)), Shifted(10))
    assert c.collect(n_episode=1).returns.tolist() == [6.0]


# -- environments ------------------------------------------------------------------------------------------------------


ODD = {
    "arrays of one": lambda step: (np.array([step * 1.0]), np.array([step == 3]), np.array([False])),
    "integers": lambda step: (step, int(step == 3), 0),
    "floats": lambda step: (float(step), float(step == 3), 0.0),
    "NumPy's": lambda step: (np.float32(step), np.bool_(step == 3), np.int64(0)),
    "arrays without axes": lambda step: (np.array(step * 1.0), np.array(step == 3), np.array(False)),
}


@pytest.mark.parametrize("kind", ODD)
def test_rewards_and_flags_of_any_form(kind):
    class Odd(Scripted):
        def step(self, action):
            obs, _, _, _, info = super().step(action)
            return (obs, *ODD[kind](self.step_count), info)

    c = collector(Odd(), Odd())
    stats = c.collect(n_episode=2)
    assert (stats.returns.ravel().tolist(), stats.lens.tolist(), stats.returns_stat.mean) == ([6.0] * 2, [3, 3], 6.0)
    assert c.buffer[:].terminated.tolist() == [False, False, True] * 2
    assert c.buffer[:].rew.ravel().tolist() == [1, 2, 3] * 2


@pytest.mark.parametrize("kind", [DummyVectorEnv, BaseVectorEnv])
def test_vector_environments_may_override_step(kind):
    class Finite(kind):
        """Raises an exception after some steps."""

        left = 4

        def step(self, action, id=None):
            if not self.left:
                raise StopIteration
            self.left -= 1
            return super().step(action, id)

    envs = Finite([lambda: Scripted(2)] * 2, **({"worker_fn": DummyEnvWorker} if kind is BaseVectorEnv else {}))
    c = Collector(ScriptedPolicy(), envs, VectorReplayBuffer(20, 2))
    assert c.env is envs
    with pytest.raises(StopIteration):
        c.collect(n_step=10**18)
    assert len(c.buffer) == 8
