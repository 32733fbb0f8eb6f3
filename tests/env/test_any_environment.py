"""Environments without spaces, with different ones, or that violate them, in every kind of vector environment."""

import itertools
import threading
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from env.backends import BACKENDS
from env.odd import Graph, Plain, Showing, Words, box
from rlfast._core import answer_columns
from rlfast.env import DummyVectorEnv, SubprocVectorEnv
from scripted import Scripted


def same(got, want):
    """Returns whether two nested observations are equal."""
    if isinstance(want, dict):
        return isinstance(got, dict) and got.keys() == want.keys() and all(same(got[key], want[key]) for key in want)
    if isinstance(want, np.ndarray):
        return got.dtype == want.dtype and np.array_equal(got, want)
    return type(got) is type(want) and got == want


# -- observations ----------------------------------------------------------------------------------------------------

OBJECTS = {
    "graphs": lambda k: Graph(k + 2),
    "graphs of one size": lambda _: Graph(2),
    "words": lambda k: "word" * k,
    "lists": lambda k: [0] * (k + 1),
    "arrays of several shapes": lambda k: np.zeros((2, k + 1)),
    "dicts of several keys": lambda k: {"a" if k else "b": np.ones(2)},
    "dicts of several shapes": lambda k: {"a": np.ones(k + 1)},
    "nothing": lambda _: None,
}


@pytest.mark.parametrize("declares", [False, True])
@pytest.mark.parametrize("name", OBJECTS)
def test_observations_may_be_anything(face, name, declares):
    show = OBJECTS[name]
    own = {"space": Words()} if declares else {}
    envs = face([lambda k=k: Showing(**own, value=lambda step, k=k: show((k + step) % 3)) for k in range(3)])
    obs, infos = envs.reset()
    assert (type(infos), infos.dtype, infos.tolist()) == (np.ndarray, object, [{}, {}, {}])
    for step in range(1, 4):
        assert (type(obs), obs.dtype, obs.shape) == (np.ndarray, object, (3,))
        assert all(same(obs[k], show((k + step - 1) % 3)) for k in range(3))
        obs, rew, terminated, _, infos = envs.step([None] * 3 if face.kind != "workers" else [1] * 3)
        assert (rew.tolist(), terminated.tolist()) == ([1, 1, 1], [False] * 3)
        assert (type(infos), [info["env_id"] for info in infos]) == (np.ndarray, [0, 1, 2])
    assert envs.observation_space == [Words() if declares else None] * 3
    assert envs.action_space == [None] * 3


class OneArray(gym.Env):
    """Environments of this class return the same arrays, which each of them overwrites."""

    action_space = spaces.Discrete(90)
    shared, reward, ended = np.zeros(2, np.float32), np.zeros(()), np.zeros((), np.bool_)
    objects = np.array([None, shared], object)

    def __init__(self, number, form):
        self.number, self.form = number, form
        if form != "objects":
            self.observation_space = spaces.Dict(a=box(99.0)) if form == "dict" else box(99.0)

    def reset(self, *, seed=None, options=None):
        return self.step(0)[0], {"shared": self.shared}

    def step(self, action):
        self.shared[:] = (self.number, action)
        self.reward[()], self.ended[()] = self.number, action > 0
        obs = {"array": self.shared, "dict": {"a": self.shared}, "objects": self.objects}[self.form]
        numbers = (self.reward, self.ended) if self.number else (float(self.reward), bool(self.ended))
        return obs, *numbers, False, {"shared": self.shared}


SHARING = [
    *itertools.product(["in-process", "process"], [None, "same-step", "next-step"], ["array", "dict"]),
    ("in-process", None, "objects"),  # the others need a space
]


@pytest.mark.parametrize(("kind", "mode", "form"), SHARING)
def test_environments_may_share_what_they_return(kind, mode, form):
    def numbers(obs):
        if form == "objects":
            return [row[1].tolist() for row in obs]
        return (obs["a"] if form == "dict" else obs).tolist()

    with BACKENDS[kind]([lambda k=k: OneArray(k, form) for k in range(3)], autoreset_mode=mode) as envs:
        obs, info = envs.reset_rows()
        assert numbers(obs) == [one["shared"].tolist() for one in info.dicts()] == [[0, 0], [1, 0], [2, 0]]
        rows = envs.exchange(np.array([0, 5, 0]))
        assert numbers(rows.obs_next) == [[0, 0], [1, 5], [2, 0]]
        assert (rows.rew.tolist(), rows.terminated.tolist()) == ([0, 1, 2], [False, True, False])
        shown = [one["shared"].tolist() for one in rows.info.dicts()]
        assert shown == [[0, 0], [1, 0 if mode == "same-step" else 5], [2, 0]]


@pytest.mark.parametrize("last", [1, True, np.float32(0.1), np.int8(-3), np.uint64(2**63), np.bool_(1), np.zeros(())])
@pytest.mark.parametrize("flag", [True, np.True_, 1, np.ones(()), ""])
def test_rewards_and_flags_of_any_type(last, flag):
    answers = [(0, 0.5, False, np.False_, {}), (1, last, flag, flag, {"a": 1})]
    obs, infos, numbers = answer_columns(answers)
    assert (obs, infos) == ([0, 1], [{}, {"a": 1}])
    plain = isinstance(flag, bool | np.bool_) and isinstance(last, float | int | np.number) and last is not True
    assert (numbers is not None) == plain
    if numbers is not None:
        assert [(one.dtype, one.tolist()) for one in numbers] == [
            ("f8", [0.5, float(last)]),
            *[("?", [False, True])] * 2,
        ]


@pytest.mark.parametrize("reward", [np.complex64(1), np.timedelta64(1), 10**400, None, "1", Words()])
def test_rewards_that_are_no_numbers_are_left_to_numpy(reward):
    assert answer_columns([(0, reward, False, False, {})])[2] is None


@pytest.mark.parametrize("own", [{}, {"space": Words()}, {"space": Words((2,), np.int16)}])
def test_arrays_whose_space_says_no_shape_are_stacked(face, own):
    envs = face([lambda k=k: Showing(**own, value=np.full(2, k, np.int16)) for k in range(3)])
    obs, _ = envs.reset()
    assert (obs.dtype, obs.tolist()) == (np.int16, [[0, 0], [1, 1], [2, 2]])
    assert envs.reset([2])[0].tolist() == [[2, 2]]


@pytest.mark.parametrize("length", [lambda k: 2, lambda k: k % 3, lambda k: 0], ids=["equal", "other", "none"])
@pytest.mark.parametrize("nested", [False, True])
def test_tuples_of_a_space_of_sequences_stay_objects(face, length, nested):
    """They were refused in this process, or in a dict became columns of one length, filled up with zeros."""
    space = spaces.Sequence(box(2))
    space = spaces.Dict(x=box(2), s=space) if nested else space

    def value(k, step):
        row = tuple(np.full(2, k + step, np.float32) for _ in range(length(k + step)))
        return {"x": np.full(2, k, np.float32), "s": row} if nested else row

    envs = face([lambda k=k: Showing(space, lambda step, k=k: value(k, step)) for k in range(3)])
    obs, _ = envs.reset()
    for step in range(1, 4):
        assert (type(obs), obs.dtype, obs.shape) == (np.ndarray, object, (3,))
        for k in range(3):
            want = value(k, step - 1)
            got, want = (obs[k]["s"], want["s"]) if nested else (obs[k], want)
            assert type(got) is tuple
            assert [one.tolist() for one in got] == [one.tolist() for one in want]
        obs = envs.step([1] * 3)[0]


def test_non_gymnasium_envs_are_accepted(face):
    envs = face([lambda: Plain(lambda step: [step, 7])] * 2)
    obs, infos = envs.reset(level=3)
    assert obs.tolist() == [[0, 7]] * 2
    assert [info["step"] for info in infos] == [0, 0]
    assert envs.get_env_attr("resets") == [[{"level": 3}]] * 2  # further arguments of reset reach the environments
    envs.step([1, 2])
    if face.kind != "workers":  # those of this test know Gymnasium's environments alone
        envs.set_env_attr("rewards", (5.0,))
        assert envs.get_env_attr("rewards") == [(5.0,)] * 2
    envs.step([3, 4])
    assert envs.get_env_attr("actions") == [[1, 3], [2, 4]]
    assert envs.observation_space == envs.action_space == [None, None]


@pytest.mark.parametrize("name", ["words", "graphs"])
def test_gymnasium_protocol_gives_tuples(face, name):
    show = OBJECTS[name]
    envs = face(
        [lambda k=k: Showing(Words((3,), np.float32), lambda step, k=k: show((k + step) % 3)) for k in range(2)],
        autoreset_mode="next-step",
    )
    assert envs.reset()[0] == (show(0), show(1))
    assert envs.step(["left", "right"])[0] == (show(1), show(2))
    assert isinstance(envs.observation_space, spaces.Tuple)


# -- spaces ----------------------------------------------------------------------------------------------------------


def test_spaces_with_other_bounds_are_batched(face):
    envs = face([lambda k=k: Showing(box(k + 1), np.full(2, k, np.float32), spaces.Discrete(k + 2)) for k in range(3)])
    obs, _ = envs.reset()
    assert (obs.dtype, obs.tolist()) == (np.float32, [[0, 0], [1, 1], [2, 2]])
    assert envs.observation_space == [box(1), box(2), box(3)]
    assert [space.n for space in envs.action_space] == [2, 3, 4]
    obs, *_ = envs.step(np.array([1, 2, 3]))
    assert (obs.dtype, obs.shape) == (np.float32, (3, 2))
    assert envs.get_env_attr("actions") == [[1], [2], [3]]


def test_unstackable_spaces_give_object_arrays(face):
    shown = [np.zeros(1, np.float32), np.zeros(2, np.float32), {"a": 1}]
    declared = [box(1, (1,)), box(1, (2,)), spaces.Dict(a=spaces.Discrete(3))]
    acts = [spaces.Discrete(2), box(1, (2,)), spaces.Dict(left=spaces.Discrete(2))]
    envs = face([lambda k=k: Showing(declared[k], shown[k], acts[k]) for k in range(3)])
    obs, _ = envs.reset()
    assert (obs.dtype, obs.shape) == (object, (3,))
    assert all(same(obs[k], shown[k]) for k in range(3))
    assert envs.observation_space == declared
    assert envs.action_space == acts
    actions = [1, np.array([0.5, 0.25], np.float32), {"left": 1}]
    envs.step(actions)
    got = envs.get_env_attr("actions")
    assert all(same(got[k][0], actions[k]) for k in range(3))
    assert envs.step(actions[:2], id=[0, 1])[0].shape == (2,)


def test_gymnasium_protocol_requires_equal_spaces(face):
    fns = [lambda k=k: Showing(box(k + 1), np.full(2, k, np.float32), spaces.Discrete(2)) for k in range(3)]
    with pytest.raises(
        RuntimeError, match=r"observation_mode='same'.*environment 1 is Box.*observation_mode='different'"
    ):
        face(fns, autoreset_mode="same-step")
    envs = face(fns, autoreset_mode="same-step", observation_mode="different")
    assert envs.single_observation_space == box(1)
    assert envs.observation_space.high[:, 0].tolist() == [1, 2, 3]
    assert envs.reset()[0].tolist() == [[0, 0], [1, 1], [2, 2]]
    wide = box(9, (3, 2)), box(9)
    envs = face(fns, autoreset_mode="same-step", observation_mode=wide)
    assert (envs.observation_space, envs.single_observation_space) == wide
    with pytest.raises(RuntimeError, match="do not share a common shape and dtype"):
        face(fns, autoreset_mode="same-step", observation_mode=(box(9, (3, 4)), box(9, (4,))))
    acts = [lambda k=k: Showing(box(), None, spaces.Discrete(k + 2)) for k in range(2)]
    with pytest.raises(RuntimeError, match=r"Some environments have an action space different from `Discrete\(2\)`"):
        face(acts, autoreset_mode="disabled")


# -- what does not fit -----------------------------------------------------------------------------------------------

UNFIT = {  # the space, what is shown, and the dtype of the batch
    "shape": (box(), np.zeros(3, np.float32), np.float32),
    "too large for uint8": (box(255, dtype=np.uint8), np.full(2, 300), np.int64),
    "fractions for integers": (box(255, dtype=np.uint8), np.full(2, 0.5), np.float64),
    "beyond float32": (box(), np.full(2, 1e300), np.float64),
    "words": (box(), np.array(["a", "b"]), np.dtype("<U1")),
    "another kind": (spaces.Dict(a=box()), np.zeros(2), np.float64),
    "a dict with more": (spaces.Dict(a=box()), {"a": np.zeros(2, np.float32), "b": np.int64(1)}, object),
    "a number for a tuple": (spaces.Tuple((box(), box())), 3, np.int64),
}


@pytest.mark.parametrize("name", UNFIT)
def test_unfit_observation_passes_unchanged(face, name):
    space, value, dtype = UNFIT[name]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        envs = face([lambda: Showing(space, value, spaces.Discrete(2))] * 2)
        rows = [envs.reset()[0]] + [envs.step([0, 1])[0] for _ in range(3)]
    for obs in rows:
        assert obs.dtype == dtype
        assert all(same(row, value) or np.array_equal(row, value) for row in obs)
    mine = [str(one.message) for one in told if "is not in its space" in str(one.message)]
    assert len(mine) == (face.kind == "process")  # once


def test_rows_that_fit_stand_beside_those_that_do_not():
    values = [np.full(2, 0.5, np.float32), np.full(2, 1e300), np.zeros(3, np.float32)]
    envs = SubprocVectorEnv(
        [lambda k=k: Showing(box(), lambda step: values[k] if step == 1 else values[0]) for k in range(3)],
        num_workers=2,
    )
    assert envs.reset()[0].dtype == np.float32
    with pytest.warns(UserWarning, match="environment 1 returned an observation that is not in its space.*pickled"):
        obs = envs.step([0, 0, 0])[0]
    assert all(same(obs[k], values[k]) for k in range(3))
    obs = envs.step([0, 0, 0])[0]
    assert (obs.dtype, obs.tolist()) == (np.float32, [[0.5, 0.5]] * 3)
    obs = envs.step([0, 0], id=[2, 0])[0]
    assert obs.tolist() == [[0.5, 0.5]] * 2
    envs.close()


def test_large_unfit_observations_beside_shared_ones():
    big = (200, 200)
    envs = SubprocVectorEnv(
        [lambda k=k: Showing(box(9, big), lambda s: np.full((1, 1) if k and s == 2 else big, s)) for k in range(2)],
        num_workers=1,
    )
    envs.reset()
    held = envs.step([0, 0])[0]
    with pytest.warns(UserWarning, match="shape"):
        obs = envs.step([0, 0])[0]
    assert [row.shape for row in obs] == [big, (1, 1)]
    assert [row.max() for row in obs] == [2, 2]
    assert held.shape == (2, *big)
    assert (held == 1).all()
    envs.close()


@pytest.mark.parametrize(
    ("space", "value", "error"),
    [(box(), np.zeros(3, np.float32), ValueError), (spaces.Discrete(3), 0.5, (TypeError, ValueError))],
)
def test_gymnasiums_protocol_refuses_what_does_not_fit(face, space, value, error):
    envs = face([lambda: Showing(space, value, spaces.Discrete(2))] * 2, autoreset_mode="next-step")
    with pytest.raises(error, match="dtype"):
        envs.reset()


def test_workers_cast_to_space_dtype():
    envs = SubprocVectorEnv([lambda: Showing(box(9, dtype=np.uint8), [5.0, True])], num_workers=1)
    assert envs.reset()[0].dtype == np.uint8
    envs.close()
    assert DummyVectorEnv([lambda: Showing(box(9, dtype=np.uint8), [5.0, True])]).reset()[0].dtype == np.float64


# -- actions ---------------------------------------------------------------------------------------------------------

ACTIONS = {
    "outside": np.array([7, -3, 2**40]),
    "floats": np.array([0.5, 1.0, np.nan]),
    "with an axis of one": np.array([[0], [1], [2]]),
    "words": ["left", "right", "up"],
    "objects": [None, (1, 2), [3]],
    "of several shapes": [np.zeros(1), np.zeros(2), 3],
    "flags": np.array([True, False, True]),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_python_env_gets_out_of_space_actions(face, name):
    actions = ACTIONS[name]
    if face.kind == "workers" and name == "objects":
        pytest.skip("None is a reset for such workers, here and in Tianshou")
    for mode in (None, "disabled"):
        envs = face([lambda: Showing(box(), None, spaces.Discrete(3))] * 3, autoreset_mode=mode)
        envs.reset()
        for given in (actions, np.array([1, 2, 0]), actions):
            envs.step(given)
        got = envs.get_env_attr("actions")
        for k in range(3):
            first, usual, again = got[k]
            np.testing.assert_equal(first, actions[k])
            np.testing.assert_equal(again, actions[k])
            assert usual == [1, 2, 0][k]  # nothing is left of the odd one


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (box(), np.array([1e300, 0])),
        (spaces.MultiBinary(2), np.array([300, 1])),
        (spaces.MultiDiscrete([2, 2]), np.array([0.5, 1])),
        (box(dtype=np.int8), np.array([200, 1])),
    ],
)
def test_actions_are_not_cut_on_their_way(face, space, action):
    envs = face([lambda: Showing(box(), None, space)] * 2)
    envs.reset()
    envs.step(np.array([action, action]))
    np.testing.assert_array_equal(envs.get_env_attr("actions")[1][0], action)


def test_parts_of_nested_actions_may_be_odd(face):
    space = spaces.Dict(a=spaces.Discrete(3), b=spaces.Dict(c=box()))
    envs = face([lambda: Showing(box(), None, space)] * 2, autoreset_mode="disabled")
    envs.reset()
    envs.step({"a": np.array([0.5, 7]), "b": {"c": np.zeros((2, 2), np.float32)}, "more": 1})
    assert [own[0]["a"] for own in envs.get_attr("actions")] == [0.5, 7]
    assert envs.get_attr("actions")[0][0]["b"]["c"].dtype == np.float32
    with pytest.raises(KeyError, match="the actions have no part 'b'"):
        envs.step({"a": np.array([1, 2])})
    envs.step([{"a": 1}, {"b": 2}])  # one for each, and no elements of the space
    assert [own[1] for own in envs.get_attr("actions")] == [{"a": 1}, {"b": 2}]
    envs.step([{"a": k, "b": {"c": np.full(2, k)}} for k in range(2)])
    assert [own[2]["b"]["c"].tolist() for own in envs.get_attr("actions")] == [[0, 0], [1, 1]]


def test_a_failure_tells_the_odd_action():
    class Picky(Scripted):
        def step(self, action):
            if action == "left":
                raise KeyError("not left")
            return super().step(action)

    envs = SubprocVectorEnv([Picky] * 2, num_workers=1)
    envs.reset()
    with pytest.raises(KeyError, match=r"environment 1 failed in step\(action='left'\): KeyError: 'not left'"):
        envs.step([0, "left"])
    envs.close()


# -- episodes --------------------------------------------------------------------------------------------------------


def test_step_after_end_of_episode(face):
    envs = face([lambda: Scripted(2)] * 2)
    envs.reset()
    rows = [envs.step([0, 0]) for _ in range(4)]
    assert [row[2].tolist() for row in rows] == [[False] * 2, [True] * 2, [True] * 2, [True] * 2]
    assert [row[0][0].tolist() for row in rows] == [[0, 1], [0, 2], [0, 3], [0, 4]]
    assert envs.reset(-1)[0].tolist() == [[1, 0]]  # from the end
    assert envs.step([0], id=[-1])[-1][0]["env_id"] == 1


def test_step_before_first_reset(face):
    envs = face([lambda: Showing(value=lambda step: [step])] * 2)
    assert envs.step([5, 6])[0].tolist() == [[1], [1]]


def test_out_of_order_ids(face):
    envs = face([lambda: gym.make("CartPole-v1")] * 2)
    with pytest.raises(gym.error.ResetNeeded, match=r"Cannot call env.step"):
        envs.step([0, 0])


# -- rewards, flags and seeds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reward", "shape"),
    [
        (1, (2,)),
        (True, (2,)),
        (np.float32(1), (2,)),
        (np.array(1), (2,)),
        (np.array([1]), (2, 1)),
        ([1, 1, 1], (2, 3)),
        (np.ones(3, np.float32), (2, 3)),
    ],
)
def test_rewards_of_any_type(face, reward, shape):
    envs = face([lambda: Plain(rewards=(reward,))] * 2)
    envs.reset()
    for _ in range(2):
        rew = envs.step([0, 0])[1]
        assert (rew.dtype, rew.shape, rew.min(), rew.max()) == (np.float64, shape, 1, 1)


FLAGS = [
    (True, False),
    (1, 0),
    (1.0, 0.0),
    tuple(np.array([True, False])),
    tuple(np.array([[True], [False]])),
    (2, None),
]


@pytest.mark.parametrize(("yes", "no"), FLAGS)
def test_flags_of_any_type(face, yes, no):
    envs = face([lambda: Plain(flags=((yes, no), (no, yes)))] * 2)
    envs.reset()
    _, _, terminated, truncated, _ = envs.step([0, 0])
    assert (terminated.dtype, terminated.tolist(), truncated.tolist()) == (bool, [True] * 2, [False] * 2)
    _, _, terminated, truncated, _ = envs.step([0, 0])
    assert (truncated.dtype, terminated.tolist(), truncated.tolist()) == (bool, [False] * 2, [True] * 2)


class Seeded(Plain):
    """An environment of Gym's old interface: a method ``seed``, and a ``reset`` without a seed."""

    def seed(self, seed):
        self.given = seed

    def reset(self):
        return super().reset()


@pytest.mark.parametrize("kind", sorted(BACKENDS.keys() - {"workers"}))
def test_an_environment_is_seeded_by_its_own_method(kind):
    envs = BACKENDS[kind]([Seeded] * 3)
    assert envs.seed(5) == [[5], [6], [7]]
    assert envs.get_env_attr("given") == [5, 6, 7]
    assert envs.get_env_attr("resets") == [[], [], []]
    envs.seed([3, None, 1])
    assert envs.get_env_attr("given") == [3, None, 1]
    envs.reset()
    envs.close()


def test_a_number_of_zero_to_wait_for_is_all_of_them(face):
    envs = face([Scripted] * 3, wait_num=0)
    assert (envs.is_async, envs.wait_num) == (False, 3)


def test_infos_may_be_any_mapping(face):
    from collections import OrderedDict, UserDict

    class Telling(Plain):
        def step(self, action):
            return *super().step(action)[:-1], self.kinds[self.steps - 1]

    def make():
        env = Telling()
        env.kinds = [OrderedDict(a=1), UserDict(a=2), None]
        return env

    envs = face([make] * 2)
    envs.reset()
    assert [envs.step([0, 0])[-1][1] for _ in range(3)] == [{"a": 1, "env_id": 1}, {"a": 2, "env_id": 1}, {"env_id": 1}]


def test_a_space_that_cannot_be_sent_counts_as_none():
    class Stuck(Words):
        def __init__(self):
            super().__init__()
            self.lock = threading.Lock()

    with SubprocVectorEnv([lambda: Showing(Stuck(), "word")], num_workers=1) as envs:
        assert envs.reset()[0].tolist() == ["word"]
        assert envs.single_observation_space is None
