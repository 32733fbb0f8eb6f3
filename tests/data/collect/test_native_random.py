"""Random actions that are drawn in Rust, for whole collects."""

import gymnasium as gym
import numpy as np
import pytest

from native_collecting import MODES, SPACE, cart_poles, collector, dqn, seed_spaces
from rlfast.data.collect import native_steps
from rlfast.env import DummyVectorEnv, NativeVectorEnv
from rlfast.policy import RandomPolicy

ENVS = 3


class MapsBack(RandomPolicy):
    def map_action_inverse(self, act):
        return 1 - act


class Maps(RandomPolicy):
    def map_action(self, act):
        return 1 - act


def random_policy(kind=RandomPolicy, space=SPACE):
    return kind(action_space=space)


def started(policy, envs=None, mode="auto", **options):
    one = collector(policy, cart_poles(envs=ENVS) if envs is None else envs, mode, rows=200, **options)
    one.reset(gym_reset_kwargs={"seed": 2})
    seed_spaces(one)
    one.collect(n_step=ENVS, random=True)  # the first rows tell the buffer what its columns are
    return one


@pytest.fixture
def calls(monkeypatch) -> list:
    """The numbers of vector steps of each call of the engine that took any."""
    taken, original = [], native_steps.collect

    def collect(*args, **options):
        answer = original(*args, **options)
        if answer[3]:
            taken.append(answer[3])
        return answer

    monkeypatch.setattr(native_steps, "collect", collect)
    return taken


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", [dqn, random_policy])
def test_one_call_takes_all_steps_but_the_last(make, mode, calls):
    one = started(make(), cart_poles(mode, ENVS))
    one.collect(n_step=60 * ENVS, random=True)
    assert sum(calls) >= 59  # with steps that only reset an environment
    calls.clear()
    one.collect(n_episode=8, random=True)
    assert sum(calls) > 8
    assert sorted(set(one.buffer.act.tolist())) == [0, 1]


BOX = gym.spaces.Box(-2, 2, (1,))
IN_PYTHON = {
    "inverse map": (lambda: random_policy(MapsBack), None, "auto"),
    "map": (lambda: random_policy(Maps), None, "auto"),
    "native_acting": (dqn, None, False),
    "environments": (dqn, lambda: DummyVectorEnv([lambda: gym.make("CartPole-v1")] * ENVS), "auto"),
    "Box": (lambda: random_policy(space=BOX), lambda: NativeVectorEnv("Pendulum-v1", ENVS), "auto"),
}


@pytest.mark.parametrize(("make", "envs", "mode"), IN_PYTHON.values(), ids=IN_PYTHON)
def test_other_random_actions_are_drawn_in_python(make, envs, mode, calls):
    one = started(make(), envs and envs(), mode)
    one.collect(n_step=20 * ENVS, random=True)
    assert not calls
    assert len(np.unique(one.buffer.act)) >= 2


def test_overridden_inverse_map_is_applied(calls):
    acts = []
    for kind in (MapsBack, RandomPolicy):
        one = started(random_policy(kind))
        one.collect(n_step=10 * ENVS, random=True)
        acts.append(np.stack([ring.act[:4] for ring in one.buffer.buffers]))
    assert (acts[0] == 1 - acts[1]).any()
    assert sum(calls) == 9


def test_hooks_are_called_for_random_actions(calls):
    one, seen = started(dqn()), []
    one.collect(n_step=5 * ENVS, random=True)
    assert calls == [4]
    other = started(dqn(), preprocess_fn=lambda **_: seen.append(1))
    other.collect(n_step=20 * ENVS, random=True)
    assert (calls, len(seen) >= 20) == ([4], True)
    one.set_on_step_hook(lambda *_: seen.clear())
    one.collect(n_step=5 * ENVS, random=True)
    assert (calls, seen) == ([4], [])


def test_hidden_states_are_cleared(calls):
    one = started(dqn())
    one._episodes.hidden = np.ones((ENVS, 2))
    one.collect(n_step=5 * ENVS, random=True)
    assert not calls
    assert not one._episodes.hidden.any()
