"""Gymnasium's vector wrappers and tools with rlfast's vector environments."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers as single
from gymnasium.utils.performance import benchmark_vector_step
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as wrappers

from env.backends import BACKENDS
from env.beside import MODES, SPACES, Telling, assert_same, run_beside
from rlfast.env import DummyVectorEnv, NativeVectorEnv, as_vector_env
from scripted import Scripted

PICTURE = gym.spaces.Box(0, 255, (6, 8, 3), np.uint8)
MAKE = {
    "CartPole": lambda: gym.make("CartPole-v1", max_episode_steps=15, render_mode="rgb_array"),
    "Pendulum": lambda: gym.make("Pendulum-v1", max_episode_steps=7),
    "dict": lambda: Telling(SPACES["dict"], gym.spaces.Discrete(3)),
    "picture": lambda: Telling(PICTURE, gym.spaces.Discrete(3)),
}
ALL, ONE_ROW_A_STEP = tuple(MODES), (AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED)
RESETS_ITSELF = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)


def each(envs):
    """Applies Gymnasium's wrappers of single environments to every environment."""
    observed, half = single.TransformObservation, {"min_action": np.float32(-0.5), "max_action": np.float32(0.5)}
    envs = wrappers.VectorizeTransformObservation(envs, observed, func=np.cos, observation_space=None)
    envs = wrappers.VectorizeTransformAction(envs, single.RescaleAction, **half)
    return wrappers.VectorizeTransformReward(envs, single.ClipReward, min_reward=-3.0)


WRAPPERS = {  # the environment, the wrappers, and the modes that they take
    "statistics": ("CartPole", wrappers.RecordEpisodeStatistics, RESETS_ITSELF),
    "observation": ("CartPole", wrappers.NormalizeObservation, (AutoresetMode.NEXT_STEP,)),
    "reward": ("CartPole", wrappers.NormalizeReward, (AutoresetMode.NEXT_STEP,)),
    "clip": ("Pendulum", lambda e: wrappers.ClipReward(wrappers.ClipAction(e), -1.0, 1.0), ALL),
    "rescale": ("Pendulum", lambda e: wrappers.RescaleAction(e, np.float32(-1), np.float32(1)), ALL),
    "rescale observation": (
        "Pendulum",
        lambda e: wrappers.RescaleObservation(e, np.float32(-1), np.float32(1)),
        ONE_ROW_A_STEP,
    ),
    "transform": (
        "CartPole",
        lambda e: wrappers.TransformReward(wrappers.TransformObservation(e, np.sin), np.log1p),
        ONE_ROW_A_STEP,
    ),
    "action": ("Pendulum", lambda e: wrappers.TransformAction(e, lambda act: act / 2), ALL),
    "each": ("Pendulum", each, ONE_ROW_A_STEP),
    "dtype": ("CartPole", lambda e: wrappers.DtypeObservation(e, np.float64), ONE_ROW_A_STEP),
    "reshape": ("CartPole", lambda e: wrappers.ReshapeObservation(e, (2, 2)), ONE_ROW_A_STEP),
    "filter": ("dict", lambda e: wrappers.FlattenObservation(wrappers.FilterObservation(e, ["a"])), ONE_ROW_A_STEP),
    "gray": ("picture", wrappers.GrayscaleObservation, ONE_ROW_A_STEP),
    "list": ("dict", lambda e: wrappers.DictInfoToList(wrappers.RecordEpisodeStatistics(e)), RESETS_ITSELF),
}


def native(env, mode):
    id, steps = {"CartPole": ("CartPole-v1", 15), "Pendulum": ("Pendulum-v1", 7)}[env]
    return NativeVectorEnv(id, 3, autoreset_mode=mode, max_episode_steps=steps)


def face(make):
    return lambda env, mode: make([MAKE[env]] * 3, autoreset_mode=mode)


FACES = {
    **{name: face(make) for name, make in BACKENDS.items()},
    "gymnasium's": face(lambda fns, autoreset_mode: as_vector_env(SyncVectorEnv(fns, autoreset_mode=autoreset_mode))),
    "native": native,
}
SEVERAL = ("statistics", "clip", "list")
"""Of these, the default run tries all faces; of the others, the first and the native one."""


def cases():
    for name, (env, _, modes) in WRAPPERS.items():
        for mode in modes:
            for face in FACES:
                if face == "native" and env not in ("CartPole", "Pendulum"):
                    continue
                quick = face in {"in-process", "native"} or name in SEVERAL
                yield pytest.param(name, mode, face, marks=() if quick else pytest.mark.long)


def plain(value):
    """Returns infos without the durations of episodes."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items() if key not in {"t", "_t"}}
    return [plain(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("name", "mode", "face"), list(cases()))
def test_wrapped_ours_says_what_wrapped_theirs_says(name, mode, face):
    env, wrap, _ = WRAPPERS[name]
    theirs = SyncVectorEnv([MAKE[env]] * 3, autoreset_mode=mode)
    ours = FACES[face](env, mode)
    space = theirs.action_space
    space.seed(1)
    ours, theirs = wrap(ours), wrap(theirs)
    assert ours.observation_space == theirs.observation_space
    assert ours.single_action_space == theirs.single_action_space
    assert_same(plain(ours.reset(seed=3)[0]), plain(theirs.reset(seed=3)[0]))
    for _ in range(25):
        action = space.sample()
        got, want = ours.step(action), theirs.step(action)
        assert_same(plain(list(got)), plain(list(want)))
        if mode is AutoresetMode.DISABLED and (done := np.asarray(want[2]) | np.asarray(want[3])).any():
            options = [{"reset_mask": done.copy()} for _ in range(2)]
            assert_same(plain(ours.reset(options=options[0])[0]), plain(theirs.reset(options=options[1])[0]))
    ours.close()
    theirs.close()
    assert ours.unwrapped.closed
    assert isinstance(ours.unwrapped, gym.vector.VectorEnv)


def test_resetting_others_keeps_episode_statistics():
    """With Gymnasium's own they start anew everywhere: it takes the mask out of the options that the wrapper reads."""
    lengths = [2, 5]
    envs = wrappers.RecordEpisodeStatistics(
        DummyVectorEnv([lambda: Scripted(lengths.pop(0))] * 2, autoreset_mode="disabled")
    )
    envs.reset()
    ended = []
    for _ in range(5):
        *_, terminated, _, info = envs.step(np.zeros(2, int))
        if terminated.any():
            ended.append((info["episode"]["r"].tolist(), info["episode"]["l"].tolist()))
            envs.reset(options={"reset_mask": terminated})
    assert ended == [([2, 0], [2, 0]), ([2, 0], [2, 0]), ([0, 5], [0, 5])]


@pytest.mark.parametrize("kind", ["native", "in-process"])
def test_gymnasium_makes_ours_by_their_id(kind):
    def make(num_envs, **kwargs):
        if kind == "native":
            return NativeVectorEnv("CartPole-v1", num_envs, **kwargs)
        return DummyVectorEnv([partial(gym.make, "CartPole-v1", **kwargs)] * num_envs, autoreset_mode="next-step")

    gym.register("Ours-v3", vector_entry_point=make, max_episode_steps=6)
    try:
        envs = gym.make_vec("Ours-v3", 3)
    finally:
        del gym.registry["Ours-v3"]
    assert envs.spec.id == "Ours-v3"
    assert envs.spec.kwargs["num_envs"] == 3
    theirs = SyncVectorEnv([lambda: gym.make("CartPole-v1", max_episode_steps=6)] * 3)
    envs.action_space.seed(5)
    assert run_beside(envs, theirs, 14) >= 6
    envs.close()


def test_gymnasium_measures_ours():
    envs = DummyVectorEnv([MAKE["CartPole"]] * 2, autoreset_mode="next-step")
    assert benchmark_vector_step(envs, target_duration=0, seed=0) > 0
