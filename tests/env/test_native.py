"""Native environments beside Gymnasium's own, step by step."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from rlfast._core import native_envs
from rlfast.env.native import NativeBackend, NativeVectorEnv, ids, is_native

MODES = list(AutoresetMode)


def sync(id: str, num_envs: int, mode: AutoresetMode, **kwargs):
    """Gymnasium's vector environment of the same."""
    return gym.make_vec(id, num_envs, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}, **kwargs)


def assert_same(ours, theirs):
    """Values, dtypes and nesting."""
    assert type(ours) is type(theirs)
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        for key in ours:
            assert_same(ours[key], theirs[key])
    elif isinstance(ours, tuple) or (isinstance(ours, np.ndarray) and ours.dtype.hasobject):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    elif isinstance(ours, np.ndarray):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    else:
        assert ours == theirs


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
def test_spaces_metadata_and_spec_are_those_of_gymnasium(id):
    if id not in gym.registry:
        assert NativeVectorEnv(id, 1).spec is None
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
def test_misuse_raises_and_leaves_the_environments_usable():
    envs = NativeVectorEnv("CartPole-v1", 3)
    with pytest.raises(RuntimeError, match="environment 0: step needs a running episode: call reset first"):
        envs.step(np.zeros(3, int))
    envs.reset(seed=0)
    bad = {
        "got 2 actions for 3 environments": [0, 1],
        "single action": 1,
        "shape": np.zeros((3, 1), int),
        r"environment 2: action \[2\] is not among the integers from 0 to 1": np.array([0, 1, 2]),
        r"environment 1: action \[-1\] is not among": [0, -1, 5],
    }
    for match, actions in bad.items():
        with pytest.raises(ValueError, match=match):
            envs.step(actions)
    for actions in ([0.0, 1.0, 0.0], np.array([True, False, True]), [0, np.nan, 1], ["left"] * 3):
        with pytest.raises(TypeError, match="integers"):
            envs.step(actions)
    with pytest.raises(TypeError, match="no id"):
        envs.step([0], id=[0])
    with pytest.raises(ValueError, match="no options"):
        envs.reset(options={"low": 0.0})
    with pytest.raises(ValueError, match="a seed must be within 0"):
        envs.reset(seed=-1)
    theirs = sync("CartPole-v1", 3, AutoresetMode.NEXT_STEP)
    theirs.reset(seed=0)  # nothing above has moved ours
    for actions in (np.ones(3, np.int8), [0, 1, 1], np.arange(6)[::2] % 2):
        assert_same(envs.step(actions), theirs.step(np.asarray(actions)))
    envs.close()
    envs.close()
    for call in (envs.reset, lambda: envs.step([0, 0, 0]), lambda: envs.send([0, 0, 0]), envs.recv):
        with pytest.raises(RuntimeError, match="closed"):
            call()


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
    ],
)
def test_what_cannot_be_made_says_why(arguments, error, match):
    with pytest.raises(error, match=match):
        NativeVectorEnv(**{"id": "CartPole-v1", "num_envs": 2} | arguments)


def test_arguments_and_time_limits_reach_the_environments():
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
