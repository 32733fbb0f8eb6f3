"""Every backend gives environments elements of their action space, and returns what they showed at that time."""

import warnings
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from env.agreement import Scripted, batched, found_of, same, space_of, wanted_of, widened
from env.backends import threaded
from rlfast.env import DummyVectorEnv, NativeVectorEnv, SubprocVectorEnv, as_vector_env

MODES = [None, *AutoresetMode]
STEPS = 10


def adapted(kind, **options):
    def make(env_fns, autoreset_mode):
        return as_vector_env(kind(env_fns, autoreset_mode=autoreset_mode, **options))

    return make


QUICK = {"dummy": DummyVectorEnv, "Gymnasium's": adapted(SyncVectorEnv)}
SLOW = {
    "workers": threaded,
    "process": partial(SubprocVectorEnv, num_workers=1),
    "processes": partial(SubprocVectorEnv, num_workers=2),
    "processes, pipes": partial(SubprocVectorEnv, num_workers=2, doorbell="pipe", context="fork"),
    "Gymnasium's processes": adapted(AsyncVectorEnv, shared_memory=False),
}


def check(seed, kinds, modes=MODES):
    """Plays in random spaces with each of the kinds, in each of the modes."""
    rng = np.random.default_rng(seed)
    shown, taken = space_of(rng), space_of(rng)
    scripts = [[shown.sample() for _ in range(2 * STEPS + 1)] for _ in range(2)]
    steps = [[taken.sample() for _ in range(2)] for _ in range(STEPS)]
    wide = [[widened(taken, action) for action in step] for step in steps]
    forms = {"list": steps, "wide list": wide, "wide": [batched(taken, step) for step in wide]}
    form = list(forms)[seed % 3]
    for mode in modes:
        wanted = [wanted_of(Scripted(shown, taken, scripts[i], i, reuses=False), mode, STEPS) for i in range(2)]
        for name, make in kinds.items():
            if mode is None and "Gymnasium" in name:
                continue
            # Gymnasium resets before it copies the final observation of SAME_STEP.
            reuses = not ("Gymnasium" in name and mode is AutoresetMode.SAME_STEP)
            told = f"seed {seed}, {name}, {mode}, {form} of {taken}, shows {shown}"
            fns = [partial(Scripted, shown, taken, scripts[i], i, reuses) for i in range(2)]
            envs = make(fns, autoreset_mode=mode)
            try:
                found = found_of(envs, mode, forms[form])
                assert all(map(same, wanted, found)), told
                assert envs.get_env_attr("strangers") == [[], []], told
                assert min(envs.get_env_attr("steps")) > 0
            finally:
                envs.close()


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="gymnasium")
        yield


@pytest.mark.parametrize("part", range(8))
def test_backends_in_this_process(part):
    for seed in range(part, 160, 8):
        check(seed, QUICK)


@pytest.mark.parametrize("kind", SLOW)
def test_backends_elsewhere(kind):
    count = 12 if "process" in kind and "Gymnasium" not in kind else 4
    for seed in range(1000, 1000 + count):
        check(seed, {kind: SLOW[kind]})


def native(id, mode):
    return NativeVectorEnv(id, 2, autoreset_mode=mode)


def of_envpool(id, mode):
    envpool = pytest.importorskip("envpool")
    if mode is not AutoresetMode.NEXT_STEP:
        pytest.skip("it has one mode")
    return as_vector_env(envpool.make(id, env_type="gymnasium", num_envs=2, num_threads=1, seed=3))


@pytest.mark.filterwarnings("ignore:.*precision lowered by casting:UserWarning")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "id", ["CartPole-v1", "Pendulum-v1", "MountainCarContinuous-v0", "Acrobot-v1", "FrozenLake-v1"]
)
@pytest.mark.parametrize("make", [native, of_envpool])
def test_different_spaces_same_actions(make, id, mode):
    taken = gym.make(id).action_space
    taken.seed(0)
    steps = [[taken.sample() for _ in range(2)] for _ in range(STEPS)]
    exact = [np.array(step, taken.dtype) for step in steps]
    wide = [[widened(taken, action) for action in step] for step in steps]
    found = []
    for actions in (exact, steps, wide, [batched(taken, step) for step in wide]):
        envs = make(id, mode)
        if make is native:
            envs.seed(5)
        found.append(found_of(envs, mode, actions))
        envs.close()
    assert len(found[0][0][1]) == STEPS
    assert all(same(found[0], other) for other in found)


@pytest.mark.long
@pytest.mark.parametrize("part", range(100))
def test_many_spaces(part):
    for number, seed in enumerate(range(10_000 + part, 110_000, 100)):
        some = [*QUICK][: 3 if number % 5 == 0 else 1]  # many spaces, or all backends of this process
        check(seed, {name: QUICK[name] for name in some}, [MODES[number % 4]])
        if number % 100 == 0:
            check(seed, SLOW)
