"""Misuse of every kind of vector environment raises one error that names the argument, and steps no environment."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rlfast.env import DummyVectorEnv, NativeVectorEnv, ShmemVectorEnv, SubprocVectorEnv, as_vector_env
from scripted import Scripted


def cart_pole():
    return gym.make("CartPole-v1")


def of_envpool():
    envpool = pytest.importorskip("envpool")
    return as_vector_env(envpool.make("CartPole-v1", env_type="gymnasium", num_envs=3, seed=0))


def of_gymnasium(mode):
    return lambda: as_vector_env(SyncVectorEnv([cart_pole] * 3, autoreset_mode=mode))


KINDS = {
    "in-process": lambda: DummyVectorEnv([cart_pole] * 3),
    "processes": lambda: SubprocVectorEnv([cart_pole] * 3, num_workers=2),
    "processes, pipes": lambda: SubprocVectorEnv([cart_pole] * 3, num_workers=1, doorbell="pipe"),
    **{
        f"native, {mode}": lambda mode=mode: NativeVectorEnv("CartPole-v1", 3, autoreset_mode=mode)
        for mode in (None, "disabled", "same-step", "next-step")
    },
    **{f"gymnasium's, {mode.value}": of_gymnasium(mode) for mode in AutoresetMode},
    "envpool": of_envpool,
}


@pytest.fixture(params=KINDS)
def envs(request):
    made = KINDS[request.param]()
    yield made
    made.close()


def state(envs):
    """Returns the visible state that the next step depends on."""
    try:
        return [repr(one["state"]) for one in envs.get_state()]
    except NotImplementedError:
        return None


@pytest.mark.pitfall("E8")
@pytest.mark.filterwarnings("ignore:.*seed:UserWarning")
def test_a_mistake_is_told_and_changes_nothing(envs):
    python = envs.placement in {"in-process", "process"}
    if not python:
        for ask in (envs.step, envs.send):
            with pytest.raises(RuntimeError, match="reset"):
                ask(np.zeros(3, int))
    with pytest.raises(RuntimeError, match="no environment is stepping"):
        envs.recv()
    envs.reset()
    before = state(envs)
    for ask in (envs.step, envs.send):
        with pytest.raises(ValueError, match="got 2 actions for 3 environments"):
            ask([0, 1])
        with pytest.raises(ValueError, match="got 4 actions for 3 environments"):
            ask(np.zeros(4, int))
        with pytest.raises(TypeError, match="Unable to iterate over the following elements"):
            ask(1)
        if python:
            continue  # the environments decide
        with pytest.raises(ValueError, match=r"2\]? .*environment 1|environment 1: action \[2\]"):
            ask(np.array([0, 2, 1]))
        with pytest.raises(TypeError, match="integers"):
            ask([0.5, 0.0, 1.0])
        with pytest.raises(TypeError, match="integers"):
            ask(["left", "right", "left"])
    for ids, error in (([0, 0, 1], IndexError), ([3], IndexError), ([-4], IndexError), ("a", TypeError)):
        with pytest.raises(error, match="got"):
            envs.send(np.zeros(3, int), ids)
    assert state(envs) == before
    envs.send(np.zeros(3, int))
    for again in (lambda: envs.send(np.zeros(3, int)), lambda: envs.step(np.zeros(3, int)), envs.reset):
        with pytest.raises(RuntimeError, match="are stepping"):
            again()
    rows = envs.recv()
    assert (rows.env_id.tolist(), rows.rew.tolist()) == ([0, 1, 2], [1, 1, 1])
    assert envs.step(np.ones(3, int))[1].tolist() == [1, 1, 1]
    envs.close()
    envs.close()
    for ask in (envs.reset, envs.recv, lambda: envs.step(np.zeros(3, int)), lambda: envs.send(np.zeros(3, int))):
        with pytest.raises(RuntimeError, match="is closed: make a new one"):
            ask()


class Wrong(gym.Env):
    """StepResults its second step with ``answer``."""

    observation_space = gym.spaces.Box(-1, 1, (2,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, answer=None):
        self.answer = answer

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        return self.answer if self.steps == 2 else (np.zeros(2, np.float32), 0.0, False, False, {})


@pytest.mark.parametrize("kind", [DummyVectorEnv, SubprocVectorEnv])
def test_only_functions_make_environments(kind):
    with pytest.raises(TypeError, match=r"env_fns\[1\] must be a function .*got TimeLimit: write lambda: gym.make"):
        kind([cart_pole, cart_pole()])
    with pytest.raises(TypeError, match=r"env_fns must be a list of functions .*got function: write \[env_fn\] \* n"):
        kind(cart_pole)
    with pytest.raises(TypeError, match=r"env_fns must be a list of functions .*got int"):
        kind(3)
    envs = kind(cart_pole for _ in range(2))
    assert envs.reset()[0].shape == (2, 4)
    envs.close()


@pytest.mark.parametrize("none", [[], np.zeros(0, int)])
def test_a_reset_of_no_environment(envs, none):
    envs.reset()
    before = state(envs)
    with pytest.raises(ValueError, match="id is empty, so there is nothing to reset"):
        envs.reset_rows(none)
    assert state(envs) == before


RIGHT = (np.zeros(2, np.float32), 0.0, False, False, {})


@pytest.mark.parametrize("kind", [DummyVectorEnv, SubprocVectorEnv])
@pytest.mark.parametrize("mode", [None, "SAME_STEP", "NEXT_STEP"])
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            (np.zeros(2, np.float32), 0.0, False, {}),
            "must give .obs, reward, terminated, truncated, info.*got 4 values",
        ),
        (None, "must give .obs, reward, terminated, truncated, info.*got <class 'NoneType'>"),
        ((np.zeros(2, np.float32), "high", False, False, {}), "could not convert string to float: 'high'"),
        ((np.zeros(2, np.float32), None, False, False, {}), "a number as its reward, or .* each agent, got None"),
        ((np.zeros(2, np.float32), [1.0, None], False, False, {}), r"or .* for each agent, got \[1.0, None\]"),
        ((np.zeros(2, np.float32), np.array([None]), False, False, {}), "or .* for each agent, got array"),
    ],
)
def test_wrong_answer_names_env_and_restarts(kind, mode, answer, message):
    envs = kind([lambda: Wrong(RIGHT), lambda: Wrong(answer)], autoreset_mode=mode)
    envs.reset()
    for _ in range(2):
        envs.step([0, 1])
        with pytest.raises(Exception, match=message) as failed:
            envs.step([0, 1])
        assert "environment 1" in str(failed.value) or "environment 1" in failed.value.__notes__[0]
        envs.reset()
    assert envs.step([0, 1])[1].tolist() == [0.0, 0.0]
    envs.close()


def test_one_environment_is_not_several():
    env = Wrong(RIGHT)
    with pytest.raises(ValueError, match="several env_fns return the same environment"):
        DummyVectorEnv([lambda: env] * 2)


@pytest.mark.parametrize("kind", [DummyVectorEnv, SubprocVectorEnv])
def test_rewards_of_different_shapes_are_named(kind):
    ones = ((RIGHT[0], 1.0, *RIGHT[2:]), (RIGHT[0], np.ones(2), *RIGHT[2:]))
    envs = kind([lambda one=one: Wrong(one) for one in ones])
    envs.reset()
    envs.step([0, 1])
    with pytest.raises(ValueError, match=r"inhomogeneous|one shape") as failed:
        envs.step([0, 1])
    text = "".join([str(failed.value), *getattr(failed.value, "__notes__", [])])
    assert "rewards of all environments must be of one shape, got [(), (2,)]" in text
    envs.close()


@pytest.mark.parametrize("kind", [DummyVectorEnv, SubprocVectorEnv, ShmemVectorEnv])
def test_an_iterator_gives_environments_once(kind):
    makers = (Scripted for _ in range(2))
    with kind(makers) as envs:
        assert len(envs) == 2
    with pytest.raises(ValueError, match="this generator is empty: an iterator can be used only once, so give a list"):
        kind(makers)
    with pytest.raises(ValueError, match="got an empty list"):
        kind([])
