"""Native environments, compared with Gymnasium's step by step."""

import os
import pickle
import subprocess
import sys
from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from env.beside import assert_same
from rlfast._core import native_envs
from rlfast.env import DummyVectorEnv
from rlfast.env.backends.native import NativeBackend
from rlfast.env.native import NativeVectorEnv, ids, is_native

MODES = list(AutoresetMode)


def sync(id: str, num_envs: int, mode: AutoresetMode, **kwargs):
    """Gymnasium's vector environment of the same."""
    return gym.make_vec(id, num_envs, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}, **kwargs)


@pytest.mark.pitfall("E1")
@pytest.mark.pitfall("E2")
@pytest.mark.pitfall("E3")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("num_envs", [1, 3])
def test_steps_resets_and_infos_are_those_of_gymnasium(mode, num_envs):
    ours = NativeVectorEnv("CartPole-v1", num_envs, autoreset_mode=mode, max_episode_steps=20)
    theirs = sync("CartPole-v1", num_envs, mode, max_episode_steps=20)
    rng = np.random.default_rng(num_envs)
    assert_same(ours.reset(seed=11), theirs.reset(seed=11))
    ends = np.zeros(2, int)
    for step in range(400):
        action = rng.integers(0, 2, num_envs) if step % 100 < 50 else np.arange(num_envs) % 2 ^ step % 2
        answer = ours.step(action)
        assert_same(answer, theirs.step(action))
        ends += answer[2].sum(), answer[3].sum()
        if mode is AutoresetMode.DISABLED and (over := answer[2] | answer[3]).any():
            seed = [step] * num_envs if step % 3 else None
            again = [envs.reset(seed=seed, options={"reset_mask": over}) for envs in (ours, theirs)]
            assert_same(*again)
    assert (ends > 5 * num_envs).all()  # of both kinds


@pytest.mark.filterwarnings("ignore:.*out of date")
@pytest.mark.parametrize("id", ids())
def test_spaces_metadata_spec_match_gymnasium(id):
    if id not in gym.registry:
        assert NativeVectorEnv(id, 1).spec.id == id  # older ones have a spec of our own
        return
    ours, theirs = NativeVectorEnv(id, 3), gym.make(id)
    assert ours.single_observation_space == theirs.observation_space
    assert ours.single_action_space == theirs.action_space
    assert ours.observation_space == gym.vector.utils.batch_space(theirs.observation_space, 3)
    assert ours.spec.id == theirs.spec.id == id
    assert ours.spec.max_episode_steps == theirs.spec.max_episode_steps == dict(native_envs())[id]
    assert ours.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP


def test_only_exact_ids_are_native():
    assert is_native("CartPole-v1")
    assert not is_native("CartPole")


@pytest.mark.pitfall("E8")
def test_misuse_leaves_envs_usable():
    envs, theirs = NativeVectorEnv("CartPole-v1", 3), sync("CartPole-v1", 3, AutoresetMode.NEXT_STEP)
    with pytest.raises(RuntimeError, match="environment 0: step needs a running episode: call reset first"):
        envs.step(np.zeros(3, int))
    for each in (envs, theirs):
        each.reset(seed=0)
    for match, actions in {
        "shape": np.zeros((3, 1), int),
        r"environment 2: action \[2\] is not among the integers from 0 to 1": np.array([0, 1, 2]),
        r"environment 1: action \[-1\] is not among": [0, -1, 5],
    }.items():
        with pytest.raises(ValueError, match=match):
            envs.step(actions)
    for actions in (np.array([True, False, True]), [0, np.nan, 1]):
        with pytest.raises(TypeError, match="integers"):
            envs.step(actions)
    with pytest.raises(ValueError, match="a seed must be within 0"):
        envs.reset(seed=-1)
    for actions in (np.ones(3, np.int8), [0, 1, 1], np.arange(6)[::2] % 2):
        assert_same(list(envs.step(actions)), list(theirs.step(np.asarray(actions))))


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"id": "CartPole-v7"}, ValueError, "no native environment CartPole-v7, only CartPole-v0, CartPole-v1"),
        ({"num_envs": 0}, ValueError, "at least one environment, got 0"),
        ({"num_envs": -1}, ValueError, "at least one environment, got -1"),
        ({"max_episode_steps": 0}, ValueError, "must be positive, or -1 for no limit, got 0"),
        ({"autoreset_mode": "sometimes"}, ValueError, "NEXT_STEP"),
        ({"gravity": 9.8}, TypeError, "takes no argument gravity, only sutton_barto_reward"),
        ({"sutton_barto_reward": 1}, ValueError, "sutton_barto_reward must be a bool, got 1"),
        ({"sutton_barto_reward": object()}, TypeError, "must be a number, a string, a bool"),
        ({"id": "FrozenLake-v1", "map_name": None}, ValueError, r"a random map.*give one as desc=.*generate"),
        ({"id": "FrozenLake-v1", "map_name": "5x5"}, ValueError, "must be 4x4 or 8x8, got 5x5"),
    ],
)
def test_what_cannot_be_made_says_why(arguments, error, match):
    with pytest.raises(error, match=match):
        NativeVectorEnv(**{"id": "CartPole-v1", "num_envs": 2} | arguments)


def test_kwargs_and_time_limit_reach_envs():
    envs = NativeVectorEnv("CartPole-v1", 2, sutton_barto_reward=True, max_episode_steps=3, autoreset_mode="disabled")
    assert envs.spec.max_episode_steps == 3
    assert envs.spec.kwargs["sutton_barto_reward"] is True
    envs.reset(seed=0)
    answers = [envs.step([0, 1]) for _ in range(3)]
    assert [answer[1].tolist() for answer in answers] == [[0.0, 0.0]] * 3
    assert [answer[3].tolist() for answer in answers] == [[False] * 2] * 2 + [[True] * 2]
    assert NativeVectorEnv("CartPole-v1", 2, max_episode_steps=-1).spec.max_episode_steps is None


def test_send_and_recv_give_rows():
    envs = NativeBackend("CartPole-v1", 4, autoreset_mode=AutoresetMode.SAME_STEP, max_episode_steps=2)
    everyone = np.arange(4)
    first, info = envs.reset(everyone, [5, 6, 7, 8], None)
    assert (first.shape, info.columns()) == ((4, 4), {})
    envs.send(np.array([1, 0]), np.array([2, 0]))
    rows = envs.recv(2)
    assert (rows.env_id.tolist(), rows.valid, rows.obs is rows.obs_next) == ([2, 0], None, True)
    envs.send(np.array([1, 0]), np.array([2, 0]))
    envs.send(np.array([1]), np.array([1]))
    rows = envs.recv(3)
    assert rows.env_id.tolist() == [2, 0, 1]
    assert rows.truncated.tolist() == [True, True, False]
    assert (rows.obs[:2] != rows.obs_next[:2]).any(axis=1).all()
    np.testing.assert_array_equal(rows.obs[2], rows.obs_next[2])
    assert np.abs(rows.obs[:2]).max() <= 0.05  # as all first observations


def test_answers_are_never_overwritten():
    envs = NativeVectorEnv("CartPole-v1", 7, autoreset_mode="same-step")
    rng = np.random.default_rng(0)
    held = [(envs.reset(seed=1)[0],)]
    held += [envs.step(rng.integers(0, 2, 7))[:4] for _ in range(1000)]
    copies = [[array.copy() for array in answer] for answer in held]
    for _ in range(1000):
        envs.step(rng.integers(0, 2, 7))
    for answer, copy in zip(held, copies, strict=True):
        for array, then in zip(answer, copy, strict=True):
            np.testing.assert_array_equal(array, then)
    arrays = [array for answer in held for array in answer]
    assert not any(np.shares_memory(one, other) for one, other in pairwise(arrays))


PROGRAM = """
import os, sys, zlib
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:int(sys.argv[1])])
import numpy as np
from rlfast.env.native import NativeVectorEnv
for mode in ("next-step", "same-step"):
    for id in ("CartPole-v1", "Pendulum-v1", "Taxi-v4"):
        envs, digest = NativeVectorEnv(id, 3000, autoreset_mode=mode, max_episode_steps=30), 0
        envs.action_space.seed(0)
        envs.reset(seed=5)
        for _ in range(80):
            obs, rew, terminated, truncated, info = envs.step(envs.action_space.sample())
            arrays = [obs, rew, terminated, truncated, *info.get("final_obs", [])]
            for array in arrays:
                if array is not None:
                    digest = zlib.crc32(np.asarray(array).tobytes(), digest)
        print(mode, id, digest)
"""


@pytest.mark.pitfall("E9")
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be chosen here")
def test_results_do_not_depend_on_the_number_of_cores():
    told = [
        subprocess.run([sys.executable, "-c", PROGRAM, cores], capture_output=True, text=True, check=True).stdout
        for cores in ("1", "2")
    ]
    assert told[0] == told[1]
    assert len(told[0].splitlines()) == len(set(told[0].splitlines())) == 6


@pytest.mark.pitfall("E9")
def test_seed_none_draws_from_numpy_once():
    def first(seed):
        np.random.seed(seed)
        return NativeVectorEnv("CartPole-v1", 50).reset()[0]

    np.testing.assert_array_equal(first(3), first(3))
    assert len(np.unique(np.concatenate([first(3), first(4)]), axis=0)) == 100
    np.random.seed(8)
    envs = NativeVectorEnv("CartPole-v1", 2)
    seeded, _ = envs.reset(seed=[1, None])
    assert not np.array_equal(envs.reset()[0], seeded)  # goes on, and does not start again
    np.random.seed(8)
    before = np.random.get_state()[1].tolist()
    envs = NativeVectorEnv("CartPole-v1", 2)
    np.testing.assert_array_equal(envs.reset(seed=np.int64(1))[0][0], seeded[0])
    envs.reset()
    assert np.random.get_state()[1].tolist() == before


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("id", ["CartPole-v1", "Pendulum-v1", "Taxi-v4", "Blackjack-v1", "MountainCarContinuous-v0"])
def test_a_stored_state_goes_on_to_the_bit(id, mode):
    def run(envs, steps):
        answers = []
        for _ in range(steps):
            answers.append(envs.step(envs.action_space.sample()))
            if mode is AutoresetMode.DISABLED and (over := answers[-1][2] | answers[-1][3]).any():
                answers.append(envs.reset(options={"reset_mask": over}))
        return answers

    one, other = (NativeVectorEnv(id, 3, autoreset_mode=mode, max_episode_steps=9) for _ in range(2))
    one.reset(seed=1)
    run(one, 14)
    state = pickle.loads(pickle.dumps(one.get_state()))
    other.set_state(state)
    one.action_space.seed(2)
    other.action_space.seed(2)
    assert_same(run(one, 40), run(other, 40))


def test_a_state_of_others_changes_nothing():
    envs = NativeVectorEnv("CartPole-v1", 2)
    envs.reset(seed=1)
    before = envs.get_state()
    taxi = NativeVectorEnv("Taxi-v4", 1)
    taxi.reset(seed=0)
    for states in (before[:1], [before[1], before[0] | {"state": b"?"}], [before[1], *taxi.get_state()]):
        with pytest.raises(ValueError, match=r"states of 1 environments for 2|environment 1: the saved state"):
            envs.set_state(states)
        np.testing.assert_equal(envs.get_state(), before)


def test_tianshous_protocol():
    envs = NativeVectorEnv("CartPole-v1", 4, autoreset_mode=None, max_episode_steps=2)
    theirs = DummyVectorEnv([lambda: gym.make("CartPole-v1", max_episode_steps=2)] * 4)
    assert envs.observation_space == theirs.observation_space
    assert [spec.id for spec in envs.spec] == ["CartPole-v1"] * 4
    assert_same(envs.reset(seed=3), theirs.reset(seed=3))
    for action, id in (([1, 0], [3, 1]), ([0, 1, 1, 0], None)):
        if id is None:
            assert_same(envs.reset(id=[0, 2], seed=[7, 8]), theirs.reset(id=[0, 2], seed=[7, 8]))
        one, other = envs.step(action, id), theirs.step(action, id)
        assert_same(one[:4], other[:4])
        assert one[4].tolist() == other[4].tolist()
    with pytest.raises(RuntimeError, match="environment 1: step needs a running episode"):
        envs.step([0, 0, 0, 0])
    with pytest.raises(IndexError, match="distinct"):
        envs.step([0, 0], id=[1, 1])
    with pytest.raises(IndexError, match="within 0 and 3"):
        envs.reset(id=4)


def test_a_step_does_not_overtake_answers_that_wait():
    envs = NativeVectorEnv("CartPole-v1", 3)
    envs.reset(seed=0)
    envs.send([0], [1])
    with pytest.raises(RuntimeError, match=r"environments \[1\] are stepping"):
        envs.step([0, 0, 0])
    envs.send([1, 1], [2, 0])
    assert envs.recv().env_id.tolist() == [1, 2, 0]
    with pytest.raises(RuntimeError, match="no environment is stepping"):
        envs.recv()
    assert envs.step([0, 0, 0])[1].tolist() == [1.0] * 3


@pytest.mark.parametrize("mode", [None, *MODES])
def test_an_exchange_is_a_send_and_a_recv(mode):
    twins = [NativeVectorEnv("CartPole-v1", 3, autoreset_mode=mode) for _ in range(2)]
    for env in twins:
        env.reset_rows(seed=0)
    rng = np.random.default_rng(0)
    for step in range(200):
        some = None if step % 5 else np.array([2, 0])
        action = rng.integers(0, 2, 3 if some is None else 2)
        ours = twins[0].exchange(action, some)
        twins[1].send(action, some)
        theirs = twins[1].recv()
        for name in ("env_id", "obs", "obs_next", "rew", "terminated", "truncated", "valid"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
        if mode in (None, AutoresetMode.DISABLED) and ours.done.any():
            for env in twins:
                env.reset_rows(ours.env_id[ours.done])
    assert not len(twins[0].waiting_id)


def test_an_exchange_waits_its_turn():
    env = NativeVectorEnv("CartPole-v1", 2)
    env.reset(seed=0)
    env.send(np.zeros(2, int))
    with pytest.raises(RuntimeError, match="are stepping"):
        env.exchange(np.zeros(2, int))
    env.recv()
    with pytest.raises(ValueError, match="action"):
        env.exchange(np.array([0, 2]))
    assert env.exchange(np.zeros(2, int)).rew.tolist() == [1, 1]
    env.close()
    with pytest.raises(RuntimeError, match="closed"):
        env.exchange(np.zeros(2, int))


@pytest.mark.parametrize("name", ["send", "recv", "_take"])
def test_who_overrides_a_part_sees_every_exchange(name):
    seen = []

    def watched(self, *args, **kwargs):
        seen.append(name)
        return getattr(NativeVectorEnv, name)(self, *args, **kwargs)

    env = type("Watched", (NativeVectorEnv,), {name: watched})("CartPole-v1", 2)
    env.reset(seed=0)
    env.exchange(np.zeros(2, int))
    assert seen == [name]


def test_attributes_and_rendering():
    envs = NativeVectorEnv("CartPole-v1", 2, render_mode=None)
    assert envs.get_attr("spec") == (envs.spec, envs.spec)
    with pytest.raises(AttributeError, match="no attribute 'gravity', only action_space"):
        envs.get_attr("gravity")
    with pytest.raises(AttributeError, match="no attribute 'gravity' to set"):
        envs.set_attr("gravity", 1.0)
    with pytest.raises(NotImplementedError, match=r"gymnasium.make\(id, render_mode"):
        envs.render()
    with pytest.raises(TypeError, match="takes no argument render_mode"):
        NativeVectorEnv("CartPole-v1", 2, render_mode="human")


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300, -np.inf])
def test_actions_that_are_not_finite_are_refused(bad):
    envs = NativeVectorEnv("Pendulum-v1", 2)
    envs.reset(seed=0)
    for actions in (np.array([[0], [bad]], np.float64), [[0.0], [bad]]):
        with pytest.raises(ValueError, match="environment 1: action"):
            envs.step(actions)
    again = NativeVectorEnv("Pendulum-v1", 2)
    again.reset(seed=0)
    np.testing.assert_equal(envs.get_state(), again.get_state())
    assert np.isfinite(envs.step(np.array([[5.0], [-5.0]], np.float32))[0]).all()  # beyond its bounds: clipped


def test_infos_and_final_infos_are_those_of_gymnasium():
    ours = NativeVectorEnv("Taxi-v4", 3, autoreset_mode="same-step", max_episode_steps=5)
    theirs = sync("Taxi-v4", 3, AutoresetMode.SAME_STEP, max_episode_steps=5)
    rng = np.random.default_rng(1)
    assert_same(ours.reset(seed=4)[1]["action_mask"], theirs.reset(seed=4)[1]["action_mask"])
    finals = 0
    for _ in range(40):
        action = rng.integers(0, 6, 3)
        one, other = ours.step(action)[4], theirs.step(action)[4]
        finals += "final_info" in one
        np.testing.assert_equal(one, other)
    assert finals == 8
