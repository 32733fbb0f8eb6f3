"""The state of a collector: what it holds, what it restores, and what does not fit."""

import copy

import gymnasium as gym
import numpy as np
import pytest

from collecting import collector, count, vector
from rlfast.data import Batch, Collector, VectorReplayBuffer
from rlfast.data.collect import state as collector_state
from rlfast.data.plain_data import is_plain
from rlfast.env import NativeVectorEnv, VectorEnvNormObs
from rlfast.env.backends.info import Info
from scripted import Scripted, ScriptedPolicy


def wrapped(wrap, *envs):
    return Collector(ScriptedPolicy(), wrap(vector(*envs)), VectorReplayBuffer(50 * len(envs), len(envs)))


def test_a_restored_collector_equals_the_saved_one():
    def make():
        return collector(Scripted(5, info=lambda step: {"step": step}), Scripted(3), policy=ScriptedPolicy(state=count))

    first, second = make(), make()
    first.collect(n_step=8)
    state = first.state_dict()
    assert second.load_state_dict(copy.deepcopy(state)) == {}
    assert (second.collect_step, second.collect_episode) == (8, 1)
    assert second.collect_time == first.collect_time > 0
    for c in (first, second):
        c.policy.seen.clear()
        c.policy.states.clear()
        c.collect(n_step=6)
    for ours, theirs in zip(first.policy.seen, second.policy.seen, strict=True):
        np.testing.assert_array_equal(ours.obs, theirs.obs)
        assert ours.info.keys() == theirs.info.keys()
        np.testing.assert_array_equal(ours.info.step, theirs.info.step)
    assert [s.tolist() for s in first.policy.states] == [s.tolist() for s in second.policy.states]
    assert second.buffer.buffers[0][:].obs.tolist() == [[0, 4], [1, 0], [1, 1]]


def test_streams_of_random_actions_are_restored():
    first, second = (collector(Scripted(50, actions=1000), Scripted(50, actions=1000)) for _ in range(2))
    first.env.seed(3)
    first.collect(n_step=4, random=True)
    second.load_state_dict(first.state_dict())
    for c in (first, second):
        c.reset_buffer()
        c.collect(n_step=10, random=True)
    assert first.buffer[:].act.tolist() == second.buffer[:].act.tolist()
    assert len(set(first.buffer[:].act)) > 5


class Held(Scripted):
    """An environment whose state cannot be saved."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.simulator = memoryview(b"...")


def test_environments_that_cannot_be_restored_are_seeded_from_the_global_stream():
    first = collector(Held(9), Scripted(9), Held(9))
    first.collect(n_step=6)
    state, seeds = first.state_dict(), []
    assert [*state["envs"][0]] == ["why"]
    for _ in range(2):
        second = collector(Held(9), Scripted(9), Held(9))
        np.random.seed(3)
        before = np.random.get_state()[1].tolist()
        lost = second.load_state_dict(state)
        assert np.random.get_state()[1].tolist() == before  # drawn from a copy
        assert [*lost] == [0, 2]
        assert all("Held.simulator" in why for why in lost.values())
        seeds.append([second.env.workers[i].env.reset_kwargs[-1]["seed"] for i in (0, 2)])
        second.collect(n_step=3)
        rows = [part[:].obs.tolist() for part in second.buffer.buffers]
        assert rows[1] == [[0, 2]]
        assert [row[0][1] for row in (rows[0], rows[2])] == [0, 0]
    assert seeds[0] == seeds[1]
    expected = np.random.RandomState(3).randint(2**31, size=2).tolist()
    assert seeds[0] == expected
    assert seeds[0][0] != seeds[0][1]


class Unseen(Scripted):
    """An environment whose observations are objects."""

    def _obs(self):
        return np.array([object()], dtype=object)


@pytest.mark.parametrize("env", [lambda: Scripted(9, info={"what": object()}), lambda: Unseen(9)])
def test_objects_in_infos_or_observations_are_not_saved(env):
    first, second = (collector(env(), env()) for _ in range(2))
    first.collect(n_step=4)
    state = first.state_dict()
    assert is_plain(state)
    lost = second.load_state_dict(state)
    assert lost == dict.fromkeys((0, 1), "its observations or infos hold objects")


def test_reasons_of_environments_are_returned(monkeypatch):
    first, second = (collector(Scripted(9), Scripted(9)) for _ in range(2))
    first.collect(n_step=4)

    def refuse(states, ids):
        raise ValueError(f"of another game: {ids}")

    monkeypatch.setattr(second._envs, "set_state", refuse)
    assert second.load_state_dict(first.state_dict()) == {i: f"of another game: [{i}]" for i in range(2)}


def test_plain_data_restores_nested_values():
    names = np.array(["red", "blue"], dtype=object)
    whole = {"pair": (np.zeros(2), [Batch(h=np.ones(2), inner=Batch(c=np.ones(1)))]), "names": names, "n": np.arange(2)}
    plain = collector_state._plain(whole)
    assert is_plain(plain)
    back = collector_state._unplain(plain)
    assert (type(back["pair"]), type(back["pair"][1]), back["n"].tolist()) == (tuple, list, [0, 1])
    assert back["pair"][0].tolist() == [0.0, 0.0]
    (batch,) = back["pair"][1]
    assert isinstance(batch.inner, Batch)
    assert (batch.h.tolist(), batch.inner.c.tolist()) == ([1.0, 1.0], [1.0])
    assert (type(back), back["names"].dtype, back["names"].tolist()) == (dict, object, ["red", "blue"])


def test_the_stream_of_a_shared_space_is_restored():
    def native():
        return Collector(ScriptedPolicy(), NativeVectorEnv("CartPole-v1", 4), VectorReplayBuffer(400, 4))

    first, second = native(), native()
    first.collect(n_step=8, random=True)
    second.load_state_dict(first.state_dict())
    for c in (first, second):
        c.reset_buffer()
        c.collect(n_step=40, random=True)
    assert first.buffer[:].act.tolist() == second.buffer[:].act.tolist()


def test_a_state_that_is_not_plain_is_not_saved(monkeypatch):
    first = collector(Scripted(9), Scripted(9))
    first.collect(n_step=4)
    monkeypatch.setattr(type(first._envs), "get_state", lambda *_: [object()])
    second = collector(Scripted(9), Scripted(9))
    assert second.load_state_dict(first.state_dict()) == dict.fromkeys((0, 1), "its state holds objects")


def wide():
    env = Scripted(5)
    env.observation_space = gym.spaces.Box(-1.0, 1.0, (3,))
    return env


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: collector(Scripted(5)), "the state is of 2 environments, this collector has 1"),
        (
            lambda: wrapped(VectorEnvNormObs, Scripted(5), Scripted(5)),
            "the state is of environments with 0 wrappers, these have 1",
        ),
        (lambda: collector(wide(), wide()), "the state is of environments with observations (2,), these have (3,)"),
    ],
)
def test_a_state_of_other_environments_changes_nothing(other, message):
    first = collector(Scripted(5), Scripted(5))
    first.collect(n_step=4)
    second = other()
    with pytest.raises(ValueError, match=r"the state is of") as error:
        second.load_state_dict(first.state_dict())
    assert str(error.value) == message
    assert second.collect_step == 0


@pytest.mark.parametrize("name", ["collect_step", "collect_episode", "collect_time"])
@pytest.mark.parametrize("value", ["x" * 99, None, [3]])
def test_counters_are_numbers(name, value):
    first = collector(Scripted(5), Scripted(5))
    first.collect(n_step=4)
    state = first.state_dict()
    state["counters"][name] = value
    with pytest.raises(ValueError, match=r"of a collector cannot be") as error:
        first.load_state_dict(state)
    assert str(error.value) == f"{name} of a collector cannot be {value!r:.50}"
    assert first.collect_step == 4


def test_a_state_with_another_number_of_spaces_is_refused():
    first = collector(Scripted(5), Scripted(5))
    state = first.state_dict()
    state["spaces"] = state["spaces"][:1]
    with pytest.raises(ValueError, match="with 1 spaces, these have 2"):
        first.load_state_dict(state)


def test_statistics_of_wrappers_are_restored():
    def make():
        return wrapped(lambda env: VectorEnvNormObs(VectorEnvNormObs(env)), Scripted(5), Scripted(5))

    first, second = make(), make()
    first.collect(n_step=8)
    second.load_state_dict(first.state_dict())
    for ours, theirs in ((first.env, second.env), (first.env.venv, second.env.venv)):
        np.testing.assert_array_equal(ours.get_obs_rms().mean, theirs.get_obs_rms().mean)
        assert ours.get_obs_rms().count == theirs.get_obs_rms().count > 0


def test_an_unused_collector_has_a_state():
    first, second = collector(Scripted(5), Scripted(5)), collector(Scripted(5), Scripted(5))
    second.collect(n_step=4)
    assert second.load_state_dict(first.state_dict()) == {}
    assert second.collect(n_step=4).n_collected_steps == 4
    assert isinstance(second.buffer[:], Batch)


def test_infos_in_columns_stay_columns():
    first, second = collector(Scripted(9), Scripted(9)), collector(Scripted(9), Scripted(9))
    first.collect(n_step=4)
    first._episodes.info = Info(2, columns={"n": np.array([1, 2], np.int8)})
    state = first.state_dict()
    assert state["infos"]["dicts"] == [{"n": 1}, {"n": 2}]
    del state["envs"][0]["unstepped"]  # which states of older versions do not have
    assert second.load_state_dict(state) == {}
    column = second._episodes.infos(np.arange(2))["n"]
    assert (column.dtype, column.tolist(), second._episodes.info.dicts()) == (np.int8, [1, 2], [{"n": 1}, {"n": 2}])
    assert second._episodes.unstepped.tolist() == [False, False]
    second.load_state_dict({**state, "infos": None})
    assert second._episodes.info.dicts() == [{}, {}]
