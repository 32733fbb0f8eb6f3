"""Unusual calls give the same results and errors as with Gymnasium's vector environments."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from env.backends import BACKENDS
from env.beside import assert_same
from env.odd import Showing, Words, box
from rlfast.env import DummyVectorEnv, SubprocVectorEnv
from scripted import Scripted


class Fussy(Scripted):
    """An environment that raises an error at a chosen step."""

    def __init__(self, fails="", **kwargs) -> None:
        super().__init__(9, **kwargs)
        self.fails = fails
        if fails == "init":
            raise ValueError("cannot be made")

    def reset(self, *, seed=None, options=None):
        if self.fails == "reset":
            raise KeyError("cannot be reset")
        return super().reset(seed=seed, options=options)

    def step(self, action):
        if self.fails == "step":
            raise IndexError("cannot step")
        return super().step(action)

    def method(self, x=1, *, y=2):
        if x == "bad":
            raise ZeroDivisionError("no such x")
        return x, y


def limited():
    return gym.wrappers.TimeLimit(Scripted(9), 5)


FUSSY = [Fussy] * 3
ONCE = [Fussy, Fussy, partial(Fussy, "step")]
MASK = np.array([True, False, True])
CALLS = {  # the functions that make the environments, and what is called
    "a single action": (FUSSY, lambda e: e.step(1)),
    "no action": (FUSSY, lambda e: e.step(None)),
    "few actions": (FUSSY, lambda e: e.step([1, 1])),
    "many actions": (FUSSY, lambda e: e.step([1, 1, 1, 1])),
    "actions outside": (FUSSY, lambda e: (e.step(np.array([5, -1, 0])), e.get_attr("actions"))),
    "floats": (FUSSY, lambda e: (e.step(np.array([0.5, 1, 0])), e.get_attr("actions"))),
    "words": (FUSSY, lambda e: (e.step(["a", "b", "c"]), e.get_attr("actions"))),
    "mask of a list": (FUSSY, lambda e: e.reset(options={"reset_mask": [True, False, False]})),
    "mask of integers": (FUSSY, lambda e: e.reset(options={"reset_mask": np.array([1, 0, 0])})),
    "mask of another length": (FUSSY, lambda e: e.reset(options={"reset_mask": np.array([True])})),
    "mask with another axis": (FUSSY, lambda e: e.reset(options={"reset_mask": MASK[:, None]})),
    "mask of nobody": (FUSSY, lambda e: e.reset(options={"reset_mask": np.zeros(3, bool)})),
    "mask": (FUSSY, lambda e: (e.step([0, 0, 0]), e.reset(options={"reset_mask": MASK.copy(), "level": 3}))),
    "mask and seeds": (
        FUSSY,
        lambda e: (e.reset(seed=[3, 4, 5], options={"reset_mask": MASK.copy()}), e.np_random_seed),
    ),
    "mask and few seeds": (FUSSY, lambda e: e.reset(seed=[3, 5], options={"reset_mask": MASK.copy()})),
    "options": (FUSSY, lambda e: (e.reset(options={"level": 1}), e.get_attr("reset_kwargs"))),
    "few seeds": (FUSSY, lambda e: e.reset(seed=[1, 2])),
    "seeds, and none": (FUSSY, lambda e: (e.reset(seed=[1, None, 3])[0], e.np_random_seed[::2])),
    "a negative seed": (FUSSY, lambda e: e.reset(seed=-4)),
    "a seed of a half": (FUSSY, lambda e: e.reset(seed=1.5)),
    "few values": (FUSSY, lambda e: e.set_attr("length", [1, 2])),
    "a value for each": (FUSSY, lambda e: (e.set_attr("length", [1, 2, 5]), e.get_attr("length"))),
    "a value for all": (FUSSY, lambda e: (e.set_attr("length", "abc"), e.get_attr("length"))),
    "a new attribute": (FUSSY, lambda e: (e.set_attr("own", 4), e.get_attr("own"))),
    "an attribute of a wrapper": (
        [limited] * 3,
        lambda e: (e.set_attr("_max_episode_steps", 1), e.get_attr("_max_episode_steps"), e.step([0, 0, 0])),
    ),
    "no such attribute": (FUSSY, lambda e: e.get_attr("nope")),
    "no such method": (FUSSY, lambda e: e.call("nope")),
    "calls": (FUSSY, lambda e: (e.call("method", 5, y=6), e.call("length"), e.call("render"), e.render())),
    "a call that raises": (FUSSY, lambda e: e.call("method", "bad")),
    "a call with too much": (FUSSY, lambda e: e.call("method", 1, 2, 3)),
    "a step that raises": (ONCE, lambda e: e.step([0, 0, 0])),
    "a reset that raises": ([Fussy, partial(Fussy, "reset")], None),
    "a constructor that raises": ([partial(Fussy, "init")] * 2, None),
    "other observations": ([lambda k=k: Showing(box(k + 1), None, spaces.Discrete(2)) for k in range(2)], None),
    "other actions": ([lambda k=k: Showing(box(), None, spaces.Discrete(k + 2)) for k in range(2)], None),
    "an observation of another shape": ([lambda: Showing(box(), np.zeros(3), spaces.Discrete(2))], None),
    "words of its own": (
        [lambda: Showing(Words(), None, Words())] * 2,
        lambda e: (e.step(("a", "b")), e.get_attr("actions")),
    ),
    "words in a dict": (
        [lambda: Showing(spaces.Dict(w=Words((2,), np.float32), x=box()), None, spaces.Discrete(2))] * 2,
        lambda e: e.step([0, 1]),
    ),
    "actions in a tuple": (
        [lambda: Showing(box(), None, spaces.Tuple((Words(), spaces.Discrete(3))))] * 2,
        lambda e: (e.action_space.seed(3), e.step(e.action_space.sample()), e.get_attr("actions")),
    ),
    "no part of an action": (
        [lambda: Showing(box(), None, spaces.Dict(a=spaces.Discrete(3), b=box()))] * 2,
        lambda e: e.step({"a": np.array([0, 1])}),
    ),
    "more parts of an action": (
        [lambda: Showing(box(), None, spaces.Dict(a=spaces.Discrete(3)))] * 2,
        lambda e: (e.step({"a": np.array([0, 1]), "c": 1})[1], e.get_attr("actions")),
    ),
    "what it says of itself": (FUSSY, lambda e: (e.metadata, e.num_envs, e.closed, e.spec, e.render_mode)),
    "assigned attributes": (FUSSY, lambda e: [assigned(e, name) for name in ASSIGNED]),
    "closed twice": (FUSSY, lambda e: (e.close(), e.close(), e.closed)),
    "an unknown argument": (FUSSY, lambda e: e.reset(level=3)),
    "by position": (FUSSY, lambda e: e.reset(3)),
}
ASSIGNED = ("action_space", "observation_space", "single_action_space", "metadata", "render_mode", "spec")


def assigned(envs, name):
    setattr(envs, name, ("mine", name))
    return getattr(envs, name)


def said(kind, fns, call, **options):
    """Returns the result of a call, or the error that it raises."""
    envs = None
    try:
        envs = kind(fns, **options)
        first = envs.reset(seed=3)
        return first if call is None else (first, call(envs))
    except Exception as error:
        return error
    finally:
        if isinstance(envs, AsyncVectorEnv):  # whose close() may wait for ever after an error
            envs.closed = True
            for process in envs.processes:
                process.terminate()
                process.join()
        elif envs is not None:
            envs.close()


FACES = {name: BACKENDS[name] for name in ("in-process", "process")}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", CALLS)
def test_calls_are_answered_as_gymnasium_answers_them(name, face):
    fns, call = CALLS[name]
    want = said(SyncVectorEnv, fns, call)
    got = said(partial(FACES[face], autoreset_mode="next-step"), fns, call)
    if not isinstance(want, Exception):
        if isinstance(got, Exception):
            raise got
        assert_same(plain(got), plain(want))
        return
    assert isinstance(got, type(want)), (got, want)
    for words in ("got length=", "Got `2` values", "reset_mask", "Unable to iterate over the following elements"):
        assert words not in str(want) or words in str(got)


def plain(value):
    """Converts tuples to lists, and NumPy's numbers to Python's."""
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    return value.item() if isinstance(value, np.generic) else value


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"observation_mode": "abc"}, ValueError, "Invalid `observation_mode`"),
        ({"observation_mode": (1, 2)}, TypeError, "Expected both elements of observation_mode to be Spaces"),
        ({"autoreset_mode": "never"}, ValueError, "never"),
    ],
)
def test_bad_modes(face, options, error, words):
    with pytest.raises(error, match=words):
        FACES[face](FUSSY, **{"autoreset_mode": "disabled", **options})
    with pytest.raises(error):
        SyncVectorEnv(FUSSY, **options)


def test_spaces_of_other_shapes_cannot_be_batched():
    fns = [lambda k=k: Showing(box(1, (k + 1,)), None, spaces.Discrete(2)) for k in range(2)]
    for kind in (SyncVectorEnv, partial(DummyVectorEnv, autoreset_mode="next-step")):
        with pytest.raises(ValueError, match="to be equal"):
            kind(fns, observation_mode="different")


def test_local_envs_are_reachable():
    envs = DummyVectorEnv(FUSSY)
    assert [type(env) for env in envs.envs] == FUSSY
    with SubprocVectorEnv(FUSSY, num_workers=1) as elsewhere:
        assert not hasattr(elsewhere, "envs")


def test_what_gymnasium_calls_by_other_names_is_taken():
    with SubprocVectorEnv(
        FUSSY, autoreset_mode="next-step", shared_memory=False, copy=False, daemon=False, num_workers=1
    ) as envs:
        assert envs.reset()[0].shape == (3, 2)
    assert DummyVectorEnv(FUSSY, autoreset_mode="next-step", copy=False).reset()[0].shape == (3, 2)


@pytest.mark.parametrize("face", FACES)
def test_a_closed_environment_says_so(face):
    envs = FACES[face](FUSSY, autoreset_mode="next-step")
    envs.reset()
    envs.close()
    for ask in (envs.reset, lambda: envs.step([0, 0, 0]), lambda: envs.call("method"), envs.render):
        with pytest.raises(gym.error.ClosedEnvironmentError, match=r"after a call to `close\(\)`") as caught:
            ask()
        assert isinstance(caught.value, RuntimeError)


def test_the_pool_must_know_of_steps_and_resets():
    with SubprocVectorEnv(FUSSY, autoreset_mode="next-step", num_workers=1) as envs:
        envs.reset()
        for name in ("reset", "step", "close"):
            with pytest.raises(ValueError, match=f"Trying to call function `{name}` with `call`"):
                envs.call(name)


INFOS = {
    "a flag": True,
    "a word": np.str_("x"),
    "a date": np.datetime64("2020-01-01"),
    "a large number": 2**70,
    "objects": np.array([1, "a"], dtype=object),
    "an array without axes": np.array(3.0),
    "a complex number": 1j,
    "nothing": None,
    "a dict of dicts": {"b": 1, "c": {"d": "x"}},
    "an empty dict": {},
}


@pytest.mark.parametrize("key", ["a", "final_obs", 3])
@pytest.mark.parametrize("name", INFOS)
def test_infos_collate_like_gymnasium(name, key):
    def make(k, n=3):
        return Scripted(9, info={key: INFOS[name]} if k == 1 else {})

    answers = []
    for kind in (SyncVectorEnv, partial(DummyVectorEnv, autoreset_mode="next-step")):
        envs = kind([partial(make, k) for k in range(3)])
        try:
            answers.append(envs.reset()[1])
        except OverflowError:  # theirs, of a number that no dtype has
            answers.append({key: np.array([None, INFOS[name], None]), f"_{key}": np.array([False, True, False])})
    assert_same(answers[1], answers[0])


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_calls_are_answered_as_by_gymnasiums_processes(name):
    fns, call = CALLS[name]
    want = said(partial(AsyncVectorEnv, shared_memory=False), fns, call)
    got = said(partial(SubprocVectorEnv, autoreset_mode="next-step", num_workers=2), fns, call)
    if isinstance(want, Exception):
        assert isinstance(got, type(want)), (got, want)
    else:
        assert_same(plain(got), plain(want))
