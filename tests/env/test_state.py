import operator
import random
import threading
from collections import deque
from enum import Enum
from functools import partial

import gymnasium as gym
import mujoco
import numpy as np
import pytest
from gymnasium import spaces

from rlfast.data.plain_data import pack, unpack
from rlfast.env import DummyVectorEnv, NativeVectorEnv, SubprocVectorEnv
from rlfast.env.state import capture, restore, set_space_streams, space_streams


def play(env, steps):
    """What happens under random actions, as bytes."""
    seen = []
    for _ in range(steps):
        obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        seen.append((np.asarray(obs).tobytes(), float(reward), terminated, truncated))
        if terminated or truncated:
            seen.append(np.asarray(env.reset()[0]).tobytes())
    return seen


def recorded(env):
    env = gym.wrappers.RecordEpisodeStatistics(gym.wrappers.FrameStackObservation(env, 3))
    return gym.wrappers.NormalizeReward(gym.wrappers.NormalizeObservation(env), gamma=0.9)


WRAPPERS = {
    "memory": recorded,
    "time": gym.wrappers.TimeAwareObservation,
    "reward": lambda env: gym.wrappers.TransformReward(env, lambda reward: 2 * reward),
    "observation": lambda env: gym.wrappers.TransformObservation(env, operator.neg, env.observation_space),
    "space": lambda env: gym.wrappers.TransformObservation(env, operator.neg, spaces.Box(-9, 9, (4,))),
    "action": lambda env: gym.wrappers.TransformAction(env, lambda action: 1 - action, env.action_space),
}
CASES = [
    *(
        (partial(gym.make, name), steps)
        for name in (
            "CartPole-v1",
            "Pendulum-v1",
            "Acrobot-v1",
            "MountainCar-v0",
            "MountainCarContinuous-v0",
            "FrozenLake-v1",
            "CliffWalking-v1",
            "Blackjack-v1",
        )
        for steps in (0, 1, 37)
    ),
    *((partial(gym.make, f"{task}-v5"), 37) for task in ("HalfCheetah", "Ant", "Humanoid", "InvertedDoublePendulum")),
    *((lambda wrap=wrap: wrap(gym.make("CartPole-v1", max_episode_steps=20)), 50) for wrap in WRAPPERS.values()),
]


@pytest.mark.parametrize("seed", [2, None])
@pytest.mark.parametrize(("make", "steps"), CASES)
def test_an_environment_goes_on_exactly_in_a_new_one(make, steps, seed):
    env = make()
    env.reset(seed=1)
    if seed is not None:
        env.action_space.seed(seed)
    play(env, steps)
    state = unpack(*pack(capture(env)))
    expected = play(env, 300)
    for other in (make(), env):  # also over itself
        restore(other, state)
        assert play(other, 300) == expected


class Mode(Enum):
    SLOW = 1
    FAST = 2


class Helper:
    def __init__(self):
        self.history = [1]
        self.partner = None


class Odd(gym.Env):
    """Holds whatever it is given beside a helper that knows its environment's list, and a queue of itself."""

    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Discrete(2)

    def __init__(self, **held):
        self.helper = Helper()
        self.list = self.helper.history
        self.ring = deque([self.list, (np.float32(2.5), {3: {4}})], maxlen=3)
        self.ring.append(self.ring[0])
        self.helper.partner = self.helper
        self.stream = random.Random(5)
        self.mode = Mode.SLOW
        self.letters = np.array([["a", "bc"]])
        vars(self).update(held)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, False, {}


def test_state_in_containers_is_restored():
    def make(**more):
        return Odd(x={"f": [len, (np.float32, Mode.FAST)], "q": deque([max]), **more})

    env, other = make(n=3), make(n=4)
    restore(other, unpack(*pack(capture(env))))
    assert other.x == env.x
    for now in ({}, {"f": [], "q": deque()}, {"f": (), "q": []}, {"f": [max], "q": deque([max])}):
        with pytest.raises(NotImplementedError, match=r"Odd.x\['f'\]\[0\] was builtins.len and is a builtins."):
            restore(Odd(x=now), capture(env))


def test_what_is_one_object_stays_one(monkeypatch):
    monkeypatch.setattr(Helper, "__module__", "pygame_of_a_user")  # which is no part of pygame
    env, other = Odd(), Odd()
    env.list.append(7)
    env.stream.random()
    state = unpack(*pack(capture(env)))
    helper = other.helper
    restore(other, state)
    assert other.helper is helper
    assert other.helper.partner is helper
    assert other.list == [1, 7]
    assert other.list is other.helper.history is other.ring[0] is other.ring[2]
    assert other.ring.maxlen == 3
    assert other.ring[1] == (2.5, {3: {4}})
    assert type(other.ring[1][0]) is np.float32
    assert other.stream.random() == env.stream.random()
    assert other.letters.tolist() == [["a", "bc"]]


def test_attributes_that_came_later_are_gone():
    env, other = Odd(), Odd()
    other.late = 3
    restore(other, capture(env))
    assert not hasattr(other, "late")


PLUGIN = """<mujoco><extension><plugin plugin="mujoco.pid"><instance name="p"/></plugin></extension>
<worldbody><body><joint name="j"/><geom size="1"/></body></worldbody>
<actuator><plugin plugin="mujoco.pid" instance="p" joint="j"/></actuator></mujoco>"""


@pytest.mark.parametrize(
    "held",
    [
        {"x": threading.Lock()},
        {"x": np.array([object()])},
        {"x": [Helper()]},
        {"x": iter([1])},
        {"x": (i for i in [1])},
        {"x": type("Sub", (list,), {})()},
        {"x": memoryview(b"1")},
        {"x": mujoco.MjData(mujoco.MjModel.from_xml_string(PLUGIN))},
    ],
)
def test_unserializable_state_is_named(held):
    with pytest.raises(NotImplementedError, match=r"Odd\.x.* is a .*, whose state cannot be written down"):
        capture(Odd(**held))


def test_arrays_that_share_their_memory_are_refused():
    array = np.arange(6)
    with pytest.raises(NotImplementedError, match=r"Odd\.y shares its memory"):
        capture(Odd(x=array[:3], y=array[2:]))
    capture(Odd(x=array[:3]))
    capture(Odd(x=array, y=array))


def test_state_of_different_env_is_refused():
    state = capture(Odd(number=1))
    with pytest.raises(NotImplementedError, match=r"was Mode\.SLOW and is"):
        restore(Odd(mode=Mode.FAST), state)
    with pytest.raises(NotImplementedError, match=r"helper was .*Helper and is a builtins.int now"):
        other = Odd(helper=1, number=9)
        restore(other, state)
    assert other.number == 9
    with pytest.raises(NotImplementedError, match=r"is a .* now and was"):
        restore(gym.make("CartPole-v1"), capture(gym.make("Pendulum-v1")))
    with pytest.raises(NotImplementedError, match="layers now and had"):
        restore(gym.wrappers.TimeLimit(Odd(), 3), {"layers": capture(gym.wrappers.TimeLimit(Odd(), 3))["layers"][:1]})


def test_a_simulator_goes_on_with_its_contacts_and_only_with_its_model():
    envs = [gym.make("Ant-v5") for _ in range(3)]
    envs[0].reset(seed=0)
    one, other = (env.unwrapped.data for env in envs[:2])
    while not one.ncon:
        envs[0].step(envs[0].action_space.sample())
    envs[0].unwrapped.mujoco_renderer.viewer = threading.Lock()
    restore(envs[1], state := unpack(*pack(capture(envs[0]))))
    assert (other.time, other.contact.pos.tolist()) == (one.time, one.contact.pos.tolist())
    envs[2].unwrapped.model.opt.gravity[2] = -3.7
    with pytest.raises(NotImplementedError, match=r"AntEnv\.model was model .* and is a .*MjModel now"):
        restore(envs[2], state)
    envs[0].unwrapped.height = one.qpos[2:3]
    with pytest.raises(NotImplementedError, match=r"AntEnv\.height is an array in the memory of another library"):
        capture(envs[0])


class Willing(Odd):
    def __init__(self):
        super().__init__(x=threading.Lock())
        self.count = 0

    def step(self, action):
        self.count += 1
        return super().step(action)

    def get_state(self):
        return {"count": self.count}

    def set_state(self, state):
        self.count = state["count"]


def test_an_environment_that_offers_its_state_is_asked():
    env, other = (gym.wrappers.TimeLimit(Willing(), 10) for _ in range(2))
    env.reset()
    play(env, 3)
    restore(other, unpack(*pack(capture(env))))
    assert other.unwrapped.count == 3
    assert [other.step(0)[3] for _ in range(7)] == [False] * 6 + [True]


@pytest.mark.parametrize("seed", [3, None])
def test_streams_of_nested_spaces(seed):
    space = spaces.Dict({"a": spaces.Tuple([spaces.Discrete(99), spaces.Box(0, 1, (2,))]), "b": spaces.MultiBinary(4)})
    if seed is not None:
        space.seed(seed)
    streams, first = unpack(*pack(space_streams(space))), space.sample()
    set_space_streams(space, streams)
    np.testing.assert_equal(space.sample(), first)


def test_vector_environments_keep_who_is_in_an_episode():
    def make():
        return DummyVectorEnv(
            [lambda k=k: gym.make("CartPole-v1", max_episode_steps=k + 1) for k in range(3)], autoreset_mode="disabled"
        )

    envs = make()
    envs.reset(seed=0)
    envs.step([0, 0, 0])  # the first is over now
    state = unpack(*pack(envs.get_state()))
    envs.send([1, 1], [1, 2])
    other = make()
    other.set_state(state)
    with pytest.raises(RuntimeError, match=r"environments \[0\] are in no episode"):
        other.send([0], [0])
    other.send([1, 1], [1, 2])
    np.testing.assert_array_equal(other.recv().obs, envs.recv().obs)


@pytest.mark.parametrize("mode", [None, "disabled", "next-step", "same-step"])
@pytest.mark.parametrize("kind", ["native", "in-process", "process"])
def test_all_modes_of_all_backends_go_on_exactly(mode, kind):
    def make():
        if kind == "native":
            return NativeVectorEnv("CartPole-v1", 3, autoreset_mode=mode, max_episode_steps=7)
        kinds = {"in-process": DummyVectorEnv, "process": partial(SubprocVectorEnv, num_workers=2)}
        return kinds[kind]([lambda: gym.make("CartPole-v1", max_episode_steps=7)] * 3, autoreset_mode=mode)

    def act(envs, steps):
        answers = []
        for k in range(steps):
            if mode in (None, "disabled") and k % 7 == 0:
                answers.append(envs.reset_rows()[0])
            envs.send(np.array([k % 2, 1, 0]))
            rows = envs.recv()
            answers += [rows.obs, rows.obs_next, rows.done, rows.rew]
        return b"".join(np.asarray(answer).tobytes() for answer in answers)

    envs = make()
    envs.reset(seed=4)
    act(envs, 14)
    order = [2, 0, 1]
    state = unpack(*pack(envs.get_state(order)))
    expected = act(envs, 20)
    for other in (make(), envs):
        other.set_state(state, order)
        assert act(other, 20) == expected
        other.close()
    with pytest.raises(ValueError, match="states of 3 environments for 2"):
        make().set_state(state, [0, 1])


def test_a_process_says_what_it_cannot_write_down():
    with SubprocVectorEnv([lambda: Odd(x=memoryview(b"1")), Odd], num_workers=1) as envs:
        envs.reset()
        with pytest.raises(NotImplementedError, match=r"Odd\.x is a .*memoryview, whose state cannot"):
            envs.get_state([0])
        assert len(envs.get_state([1])) == 1
