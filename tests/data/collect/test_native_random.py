"""Random actions that are drawn in Rust, for whole collects."""

import gymnasium as gym
import numpy as np
import pytest

from rlfast.data import Collector, VectorReplayBuffer
from rlfast.data.collect import native_steps as native
from rlfast.env import DummyVectorEnv, NativeVectorEnv
from rlfast.policy import DQNPolicy, RandomPolicy
from rlfast.utils.net.common import Net

ENVS = 3
SPACE = gym.spaces.Discrete(2)


class Mapping(RandomPolicy):
    """A policy that maps random actions by a method of its own."""

    def map_action_inverse(self, act):
        return 1 - act


class Mapped(RandomPolicy):
    """A policy that maps the actions of environments by a method of its own."""

    def map_action(self, act):
        return 1 - act


def dqn(space=SPACE) -> DQNPolicy:
    return DQNPolicy(model=Net(4, 2, [8]), optim=None, action_space=space)


def cart_poles(mode=None) -> NativeVectorEnv:
    """Environments with a space for each of them, or with one for all where they reset themselves."""
    return NativeVectorEnv("CartPole-v1", ENVS, autoreset_mode=mode)


def collector(policy, envs, **options) -> Collector:
    one = Collector(policy, envs, VectorReplayBuffer(600, ENVS), **options)
    one.reset(gym_reset_kwargs={"seed": 2})
    for space in one.action_space if isinstance(one.action_space, list) else [one.action_space]:
        space.seed(3)
    one.collect(n_step=ENVS, random=True)  # the first rows tell the buffer what its columns are
    return one


@pytest.fixture
def calls(monkeypatch) -> list:
    """The numbers of vector steps of each call of the engine that took any."""
    taken, original = [], native.collect

    def collect(*args, **options):
        answer = original(*args, **options)
        if answer[3]:
            taken.append(answer[3])
        return answer

    monkeypatch.setattr(native, "collect", collect)
    return taken


@pytest.mark.parametrize("mode", [None, "NextStep", "SameStep"])
@pytest.mark.parametrize("make", [dqn, lambda: RandomPolicy(action_space=SPACE)])
def test_one_call_takes_all_steps_but_the_last(make, mode, calls):
    one = collector(make(), cart_poles(mode))
    one.collect(n_step=60 * ENVS, random=True)
    assert sum(calls) >= 59  # with steps that only reset an environment
    calls.clear()
    one.collect(n_episode=8, random=True)
    assert sum(calls) > 8
    assert sorted(set(one.buffer.act.tolist())) == [0, 1]


@pytest.mark.parametrize("mode", [None, "NextStep", "SameStep"])
def test_the_streams_of_spaces_go_on_where_vector_steps_would_leave_them(mode):
    left = []
    for native_acting in (True, False):
        with collector(dqn(), cart_poles(mode), native_acting=native_acting) as one:
            one.collect(n_episode=8, random=True)
            spaces = one.action_space if isinstance(one.action_space, list) else [one.action_space]
            left.append([[space.sample().tolist() for _ in range(20)] for space in spaces])
    assert left[0] == left[1]


@pytest.mark.parametrize(
    ("make", "envs", "options"),
    [
        (lambda: Mapping(action_space=SPACE), cart_poles, {}),
        (lambda: Mapped(action_space=SPACE), cart_poles, {}),
        (dqn, cart_poles, {"native_acting": False}),
        (dqn, lambda: DummyVectorEnv([lambda: gym.make("CartPole-v1")] * ENVS), {}),
        (
            lambda: RandomPolicy(action_space=gym.spaces.Box(-2, 2, (1,))),
            lambda: NativeVectorEnv("Pendulum-v1", ENVS),
            {},
        ),
    ],
)
def test_other_random_actions_are_drawn_in_python(make, envs, options, calls):
    one = collector(make(), envs(), **options)
    one.collect(n_step=20 * ENVS, random=True)
    assert not calls
    assert len(np.unique(one.buffer.act)) >= 2


def test_own_maps_of_random_actions_are_used(calls):
    acts = []
    for policy in (Mapping(action_space=SPACE), RandomPolicy(action_space=SPACE)):
        one = collector(policy, cart_poles())
        one.collect(n_step=10 * ENVS, random=True)
        acts.append(np.stack([ring.act[:4] for ring in one.buffer.buffers]))
    assert (acts[0] == 1 - acts[1]).any()
    assert sum(calls) == 9


def test_hooks_are_called_for_random_actions(calls):
    one = collector(dqn(), cart_poles())
    seen = []
    one.collect(n_step=5 * ENVS, random=True)
    assert calls == [4]
    other = Collector(
        dqn(), cart_poles(), VectorReplayBuffer(600, ENVS), preprocess_fn=lambda **kw: seen.append(1) or {}
    )
    other.reset()
    other.collect(n_step=20 * ENVS, random=True)
    assert calls == [4]
    assert len(seen) >= 20
    one.set_on_step_hook(lambda *_: seen.clear())
    one.collect(n_step=5 * ENVS, random=True)
    assert (calls, seen) == ([4], [])


def test_hidden_states_of_what_is_left_are_cleared(calls):
    one = collector(dqn(), cart_poles())
    one._episodes.hidden = np.ones((ENVS, 2))
    one.collect(n_step=5 * ENVS, random=True)
    assert not calls
    assert not one._episodes.hidden.any()
