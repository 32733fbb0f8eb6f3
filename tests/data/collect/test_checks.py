"""What collectors check of their arguments, and what one collect has counted."""

from contextlib import nullcontext
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from rlfast.data import (
    AsyncCollector,
    CachedReplayBuffer,
    Collector,
    PrioritizedReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
)
from rlfast.data.collect import checks
from rlfast.env import DummyVectorEnv
from rlfast.utils.arguments.checks import NonFiniteError, ObservationError
from scripted import Scripted, ScriptedPolicy


def envs(n=2, **options):
    return DummyVectorEnv([Scripted] * n, **options)


class Other(Collector):
    """Of a user's class, in whose file the constructor is called."""


def of_spaces(action_space=None, observation_space=None):
    policy = ScriptedPolicy()
    policy.action_space, policy.observation_space = action_space, observation_space
    return policy


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Collector(ScriptedPolicy(), Scripted()), "a single environment was given"),
        (lambda: Other(ScriptedPolicy(), Scripted()), "a single environment was given"),
        (lambda: setattr(Collector(ScriptedPolicy(), envs()), "env", Scripted()), "a single environment was given"),
        (lambda: Collector(of_spaces(Discrete(9)), envs()), "the policy's action_space is Discrete"),
        (lambda: AsyncCollector(ScriptedPolicy(), envs(wait_num=1)), "more transitions into the buffer than asked"),
        (lambda: Collector(ScriptedPolicy(), envs()).collect(n_step=3), "n_step=3 is not a multiple of the 2"),
        (lambda: Collector(ScriptedPolicy(), envs()).collect(n_step=3.5), "n_step=3.5 is not whole: 4 is taken"),
    ],
)
def test_warnings_name_the_line_of_the_user(make, message):
    with pytest.warns(UserWarning, match=message) as warned:
        made = make()
    assert [one.filename for one in warned] == [__file__]
    assert message[:8] != "a single" or made is None or made.collect(n_episode=1).lens.tolist() == [3]


# -- environments and spaces -------------------------------------------------------------------------------------------


def test_a_single_environment_is_wrapped():
    class Counted(Scripted):
        def __len__(self):
            return 1

    single, several = Scripted(), envs()
    assert [checks.is_single(env) for env in (single, several, "CartPole-v1", Counted())] == [True, *[False] * 3]
    with pytest.warns(UserWarning, match="is wrapped in a DummyVectorEnv"):
        vector = checks.as_vector(single)
    assert (len(vector), vector.workers[0].env) == (1, single)
    assert checks.as_vector(several) is several


class Spaces:
    """A vector environment of which only the spaces are asked for."""

    def __init__(self, action_space, observation_space=None):
        self.single_action_space, self.single_observation_space = action_space, observation_space
        self.action_space = gym.vector.utils.batch_space(action_space, 3)

    def __len__(self):
        return 3


BOX, WIDE = Box(-1.0, 1.0, (2,)), Box(-9.0, 9.0, (2,))


@pytest.mark.parametrize(
    ("own", "given"),
    [
        (WIDE, BOX),  # bounds may differ
        (Discrete(3, start=1), Discrete(3, start=1)),
        (MultiDiscrete([2, 3], start=[1, 1]), MultiDiscrete([2, 3], start=[1, 1])),
        (Tuple([WIDE, Discrete(3)]), Tuple([BOX, Discrete(3)])),
        (Dict(a=WIDE, b=Discrete(3)), Dict(a=BOX, b=Discrete(3))),
        (MultiBinary(3), MultiBinary(3)),
        ("no space", BOX),
        (None, BOX),
    ],
)
def test_spaces_that_fit(own, given, recwarn):
    checks.check_spaces(of_spaces(own, own), Spaces(given, given))
    checks.check_spaces(SimpleNamespace(), Spaces(given, given))
    checks.check_spaces(of_spaces(own, own), SimpleNamespace())
    assert not recwarn.list


@pytest.mark.parametrize(
    ("own", "given"),
    [
        (Box(-1.0, 1.0, (3,)), BOX),
        (Discrete(4), Discrete(3)),
        (Discrete(3, start=1), Discrete(3)),
        (MultiDiscrete([2, 3]), MultiDiscrete([2, 4])),
        (MultiDiscrete([2, 3], start=[0, 1]), MultiDiscrete([2, 3])),
        (Tuple([BOX, Discrete(3)]), Tuple([BOX, Discrete(4)])),
        (Dict(a=BOX), Dict(b=BOX)),
        (Dict(a=BOX), Dict(a=Discrete(2))),
        (MultiBinary(3), MultiBinary(4)),
        (MultiBinary(2), BOX),
        (gym.Space((3,), np.int8), MultiBinary(3)),
    ],
)
def test_spaces_that_do_not_fit_are_named(own, given):
    for name in ("action_space", "observation_space"):
        with pytest.warns(UserWarning, match=name) as warned:
            checks.check_spaces(SimpleNamespace(**{name: own}), Spaces(given, given))
        text = f"the policy's {name} is {own}, and that of the environments is {given}: is it made for them?"
        assert [str(one.message) for one in warned] == [text]


@pytest.mark.parametrize("name", ["action_space", "observation_space"])
def test_the_space_of_all_environments_together_does_not_fit(name):
    env, policy = gym.vector.SyncVectorEnv([Scripted, Scripted]), ScriptedPolicy()
    setattr(policy, name, getattr(env, name))
    with pytest.warns(UserWarning, match=rf"that of all 2 environments together: .* with envs.single_{name}$"):
        Collector(policy, env)
    setattr(policy, name, getattr(env, f"single_{name}"))
    Collector(policy, env)


# -- policies and buffers ----------------------------------------------------------------------------------------------


def test_missing_methods_of_policies_are_named():
    checks.check_policy(ScriptedPolicy(), exploration_noise=True)
    by_forward = SimpleNamespace(forward=print, map_action=print)
    checks.check_policy(by_forward, exploration_noise=False)
    for policy, noise, lacks in (
        (SimpleNamespace(), False, ", which has no forward, map_action"),
        (SimpleNamespace(forward=5, map_action=print), False, ", which has no forward"),
        (by_forward, True, ", which has no exploration_noise"),
        (SimpleNamespace(), True, ", which has no forward, map_action, exploration_noise"),
        (ScriptedPolicy, False, ""),
    ):
        with pytest.raises(TypeError) as error:
            checks.check_policy(policy, exploration_noise=noise)
        assert str(error.value) == f"policy must be an ActingPolicy, such as DQNPolicy(...), got {policy!r:.200}{lacks}"


@pytest.mark.parametrize(
    ("buffer", "env_num", "message"),
    [
        (VectorReplayBuffer(30, 3), 4, "VectorReplayBuffer has 3 rings for 4 environments: it needs one for each"),
        (CachedReplayBuffer(ReplayBuffer(50), 2, 5), 3, "CachedReplayBuffer has 2 rings for 3 environments"),
        (ReplayBuffer(30), 2, r"use VectorReplayBuffer\(total_size=30, buffer_num=2\)"),
        (PrioritizedReplayBuffer(30, 0.6, 0.4), 2, r"use PrioritizedVectorReplayBuffer\(total_size=30, buffer_num=2\)"),
        (ReplayBuffer(0), 1, "ReplayBuffer has no room: its size is 0"),
        (VectorReplayBuffer, 1, "buffer must be a ReplayBuffer, got <class"),
        (5, 1, "buffer must be a ReplayBuffer, got 5, which has no add, reset"),
    ],
)
def test_buffers_that_cannot_keep_environments_apart(buffer, env_num, message):
    with pytest.raises((TypeError, ValueError), match=f"^(.*: )?{message}"):
        checks.check_buffer(buffer, env_num)


@pytest.mark.parametrize(
    ("buffer", "env_num", "rows"),
    [
        (VectorReplayBuffer(30, 3), 3, [10] * 3),
        (VectorReplayBuffer(30, 3), 2, [10, 10]),
        (VectorReplayBuffer(30, 3), None, [10] * 3),
        (ReplayBuffer(7), 1, [7]),
        (ReplayBuffer(1), 1, [1]),
        (CachedReplayBuffer(ReplayBuffer(50), 2, 5), 2, None),
        (SimpleNamespace(add=print, reset=print, maxsize=3), 9, None),
    ],
)
def test_capacities_of_buffers_that_can(buffer, env_num, rows):
    if env_num is not None:
        checks.check_buffer(buffer, env_num)
    found = checks.row_capacities(buffer, env_num)
    assert (found if rows is None else found.tolist()) == rows


# -- errors ------------------------------------------------------------------------------------------------------------


class Named:
    """Environments of which only the space and the names are asked for."""

    def __init__(self, name="Wide-v0"):
        self.single_observation_space, self.name = BOX, name

    def get_env_attr(self, key, ids):
        assert (key, ids) == ("spec", [4])
        return [SimpleNamespace(id=self.name)] if self.name else [None]


NAN = np.array([[0.0, 1.0], [2.0, np.inf]])
OF_SHAPE = "gives observations of shape (3,), but its observation_space is Box(-1.0, 1.0, (2,), float32), and"
IS_NAN = "the policy cannot choose an action for environment 7, whose {} has inf at [1]: correct the environment, or"


@pytest.mark.parametrize(
    ("obs", "name", "error", "kind", "message"),
    [
        (NAN, "Wide-v0", ValueError("x"), NonFiniteError, IS_NAN.format("obs")),
        ({"a": {"b": NAN}}, "Wide-v0", ValueError("x"), NonFiniteError, IS_NAN.format("obs.a.b")),
        (np.zeros((2, 3)), "Wide-v0", ValueError("x"), ObservationError, f"environment 4 (Wide-v0) {OF_SHAPE}"),
        (np.zeros((2, 3)), None, ValueError("x"), ObservationError, f"environment 4 {OF_SHAPE}"),
        (np.zeros((2, 2)), "Wide-v0", ObservationError("odd"), ObservationError, "environment 4 (Wide-v0): odd"),
        (np.zeros((2, 2)), "Wide-v0", ValueError("x"), ValueError, "x"),
        (np.zeros((2, 2), int), "Wide-v0", ValueError("x"), ValueError, "x"),
        ({"a": np.zeros((2, 3))}, "Wide-v0", ValueError("x"), ValueError, "x"),
    ],
)
def test_errors_of_choices_name_the_environment(obs, name, error, kind, message):
    found = checks.choice_error(error, obs, np.array([4, 7]), Named(name))
    assert type(found) is kind
    assert str(found).startswith(message)
    assert (found is error) is (message == "x")


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        ([1.0, 2.0], None),
        ([1.0, np.nan], "environment 7 gave the reward nan after 12 environment steps"),
        ([[1.0, 2.0], [1.0, -np.inf]], r"environment 7 gave the reward \[  1. -inf\] after 12 environment steps"),
    ],
)
def test_rewards_that_are_not_finite_raise(rewards, message):
    with nullcontext() if message is None else pytest.raises(NonFiniteError, match=message):
        checks.check_rewards(np.array(rewards), np.array([4, 7]), 12)


# -- numbers -----------------------------------------------------------------------------------------------------------
