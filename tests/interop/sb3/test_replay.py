"""Replay buffers compared with SB3's, and features that only rlfast's have."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
import torch as th
from gymnasium import spaces

pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed: pip install '.[sb3]'")
from stable_baselines3.common import buffers as host
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from interop.sb3.comparing import assert_same, sampled_alike
from interop.streams import ACTIONS, IMAGE, OBSERVATIONS, steps
from rlfast.interop import sb3

COLUMNS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
PAIRS = [(obs, "discrete") for obs in OBSERVATIONS] + [("box", act) for act in ACTIONS if act != "discrete"]
BOX, DISCRETE = OBSERVATIONS["box"], ACTIONS["discrete"]


def kinds(obs_space):
    return ["DictReplayBuffer"] if isinstance(obs_space, spaces.Dict) else ["ReplayBuffer", "NStepReplayBuffer"]


def both(kind, *args, **kwargs):
    return getattr(sb3, kind)(*args, device="cpu", **kwargs), getattr(host, kind)(*args, device="cpu", **kwargs)


@pytest.mark.parametrize("timeouts", [True, False])
@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize(("obs", "act"), PAIRS)
def test_samples_are_the_hosts(obs, act, envs, timeouts):
    obs_space, act_space = OBSERVATIONS[obs], ACTIONS[act]
    for kind in kinds(obs_space):
        ours, theirs = both(kind, 20, obs_space, act_space, n_envs=envs, handle_timeout_termination=timeouts)
        assert isinstance(ours, getattr(host, kind))
        for i, step in enumerate(steps(obs_space, act_space, envs, 30)):
            ours.add(*step)
            theirs.add(*copy.deepcopy(step))  # it reshapes what it is given
            assert (ours.pos, ours.full, ours.size()) == (theirs.pos, theirs.full, theirs.size())
            sampled_alike(ours, theirs, 16, i)
        for name in COLUMNS:
            assert_same(getattr(ours, name), getattr(theirs, name), name)


@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize("kind", ["ReplayBuffer", "NStepReplayBuffer", "DictReplayBuffer"])
def test_normalized_samples_are_the_hosts(kind, envs):
    obs_space = spaces.Dict(vector=BOX) if kind == "DictReplayBuffer" else BOX
    ours, theirs = both(kind, 30, obs_space, DISCRETE, n_envs=envs)
    env = VecNormalize(DummyVecEnv([lambda: Still(obs_space)] * envs))
    for statistics in env.obs_rms.values() if kind == "DictReplayBuffer" else [env.obs_rms]:
        statistics.update(np.random.default_rng(0).normal(2, 3, (50, 3)))
    env.ret_rms.update(np.random.default_rng(1).normal(1, 4, 50))
    for i, step in enumerate(steps(obs_space, DISCRETE, envs, 40)):
        ours.add(*step)
        theirs.add(*copy.deepcopy(step))
        sampled_alike(ours, theirs, 8, i, env)


class Still(gymnasium.Env):
    action_space = DISCRETE

    def __init__(self, observation_space):
        self.observation_space = observation_space


# -- saving memory -----------------------------------------------------------------------------------------------------


@pytest.mark.pitfall("B4")
@pytest.mark.parametrize("timeouts", [True, False])
@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize("obs", OBSERVATIONS)
@pytest.mark.parametrize("n_steps", [None, 3])
def test_saving_memory_changes_no_sample(obs, envs, timeouts, n_steps):
    obs_space = OBSERVATIONS[obs]
    kind = kinds(obs_space)[0] if n_steps is None else "NStepReplayBuffer"
    more = {} if n_steps is None else {"n_steps": n_steps}
    arguments = {"n_envs": envs, "handle_timeout_termination": timeouts, "device": "cpu", **more}
    saving = getattr(sb3, kind)(20, obs_space, DISCRETE, optimize_memory_usage=True, **arguments)
    # The host has no n-step buffer for dicts: the plain one of ours, which the test above compares, stands for it.
    plain = (sb3 if n_steps else host).__dict__[kind] if n_steps else getattr(host, kind)
    plain = plain(20, obs_space, DISCRETE, **arguments)
    for step in steps(obs_space, DISCRETE, envs, 33):
        saving.add(*step)
        plain.add(*copy.deepcopy(step))
        np.random.seed(0)
        rows = np.random.randint(0, saving.size(), 16)
        ours = saving._get_samples(rows)
        np.random.seed(0)
        np.random.randint(0, saving.size(), 16)
        assert_same(ours, plain._get_samples(rows))


@pytest.mark.parametrize("envs", [1, 3])
def test_the_saving_mode_draws_as_the_hosts(envs):
    ours, theirs = both(
        "ReplayBuffer", 20, BOX, DISCRETE, n_envs=envs, optimize_memory_usage=True, handle_timeout_termination=False
    )
    for i, step in enumerate(steps(BOX, DISCRETE, envs, 33, timeouts=0.0)):
        ours.add(*step)
        theirs.add(*copy.deepcopy(step))  # it reshapes what it is given
        np.random.seed(i)
        one = ours.sample(8)
        np.random.seed(i)
        other = theirs.sample(8)
        going_on = (other.dones == 0).reshape(-1)  # after an end the host's next observation is of another episode
        for name in ("observations", "actions", "rewards", "dones"):
            assert_same(getattr(one, name), getattr(other, name), name)
        if ours.full:
            assert_same(one.next_observations[going_on], other.next_observations[going_on])


def test_atari_frames_are_kept_once():
    stack = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    buffer = sb3.ReplayBuffer(600, stack, DISCRETE, device="cpu", n_envs=2)
    rng = np.random.default_rng(0)
    obs = rng.integers(0, 256, (2, 4, 84, 84), np.uint8)
    for _ in range(300):
        next_obs = np.concatenate((obs[:, 1:], rng.integers(0, 256, (2, 1, 84, 84), np.uint8)), axis=1)
        buffer.add(obs, next_obs, np.zeros(2, int), np.zeros(2), np.zeros(2, bool), [{}, {}])
        obs = next_obs
    assert 84 * 84 < buffer.nbytes / 600 < 84 * 84 * 1.1


# -- writing -----------------------------------------------------------------------------------------------------------


def test_the_size_is_shared_by_the_environments():
    assert [sb3.ReplayBuffer(10, BOX, DISCRETE, n_envs=n).buffer_size for n in (1, 3, 20)] == [10, 3, 1]


def test_rows_cast_and_broadcast_like_host():
    ours, theirs = both("ReplayBuffer", 5, BOX, ACTIONS["float64"], n_envs=1)
    for buffer in (ours, theirs):
        buffer.add(np.arange(3), np.full((1, 1, 3), 0.1), np.array([[0.1, 0.2]]), 1, [True], [{}])
    for name in COLUMNS:
        assert_same(getattr(ours, name)[:1], getattr(theirs, name)[:1], name)


def test_extend_and_reset():
    ours, theirs = both("ReplayBuffer", 8, BOX, DISCRETE, n_envs=2)
    rows = [np.stack(column) for column in zip(*(step[:5] for step in steps(BOX, DISCRETE, 2, 6)), strict=True)]
    infos = [step.infos for step in steps(BOX, DISCRETE, 2, 6)]
    for buffer in (ours, theirs):
        buffer.extend(*rows, infos)
    sampled_alike(ours, theirs, 8, 0)
    ours.reset()
    assert (ours.pos, ours.full, ours.size()) == (0, False, 0)
    with pytest.raises(ValueError, match="nothing to sample"):
        ours.sample(1)
    ours.extend(*(column[:1] for column in rows), infos[:1])
    np.testing.assert_array_equal(ours.observations[0], rows[0][0])


@pytest.mark.parametrize(
    ("obs", "changed", "error"),
    [
        ("box", {"obs": np.zeros((2, 4))}, ValueError),
        ("box", {"next_obs": np.zeros((3, 3))}, ValueError),
        ("box", {"action": np.zeros(3)}, ValueError),
        ("box", {"reward": np.zeros(3)}, ValueError),
        ("box", {"infos": [{}] * 3}, ValueError),
        ("dict", {"next_obs": {"vector": np.zeros((2, 3))}}, KeyError),
    ],
)
def test_a_refused_row_changes_nothing(obs, changed, error):
    buffer = sb3.ReplayBuffer(8, OBSERVATIONS[obs], DISCRETE, n_envs=2, device="cpu")
    good, bad = steps(OBSERVATIONS[obs], DISCRETE, 2, 2)
    buffer.add(*good)
    with pytest.raises(error):
        buffer.add(*bad._replace(**changed))
    assert (buffer.pos, buffer.size()) == (1, 1)
    buffer.add(*bad)
    np.testing.assert_array_equal(buffer.rewards[1], bad.reward.astype(np.float32))


def test_pos_cannot_be_moved_by_hand():
    buffer = sb3.ReplayBuffer(8, BOX, DISCRETE)
    step, other = steps(BOX, DISCRETE, 1, 2)
    buffer.add(*step)
    buffer.pos = 0
    with pytest.raises(RuntimeError, match="by hand"):
        buffer.add(*other)


# -- columns -----------------------------------------------------------------------------------------------------------


def test_writable_columns_are_views():
    buffer = sb3.ReplayBuffer(8, BOX, DISCRETE, n_envs=2, device="cpu")
    for step in steps(BOX, DISCRETE, 2, 4):
        buffer.add(*step)
    buffer.rewards[:] = 7
    buffer.dones[:], buffer.timeouts[:] = 1, 0
    buffer.actions = np.full((4, 2, 1), 2)
    batch = buffer.sample(5)
    assert batch.rewards.tolist() == [[7.0]] * 5
    assert batch.dones.tolist() == [[1.0]] * 5
    assert batch.actions.tolist() == [[2]] * 5


def test_observations_are_read_only():
    buffer = sb3.ReplayBuffer(8, BOX, DISCRETE)
    with pytest.raises(AttributeError, match=r"add\(\) or extend\(\)"):
        buffer.observations = np.zeros((8, 1, 3))
    with pytest.raises(ValueError, match="read-only"):
        buffer.observations[0] = 1


@pytest.mark.parametrize("kind", ["ReplayBuffer", "NStepReplayBuffer"])
@pytest.mark.parametrize("envs", [1, 2])
def test_rows_from_the_end_and_rows_that_are_not_there(kind, envs):
    ours, theirs = both(kind, 8 * envs, BOX, DISCRETE, n_envs=envs)
    for step in steps(BOX, DISCRETE, envs, 10):
        ours.add(*step)
        theirs.add(*step)
    for rows in (np.array([0, -1, 7, -8]), np.array([3, 2], np.int32), np.array([], int)):
        np.random.seed(0)
        one = ours._get_samples(rows)
        np.random.seed(0)
        assert_same(one, theirs._get_samples(rows))
    for row in (8, -9):
        with pytest.raises(IndexError, match="between -8 and 7"):
            ours._get_samples(np.array([0, row]))


# -- samples -----------------------------------------------------------------------------------------------------------


@pytest.mark.pitfall("B6")
@pytest.mark.parametrize("obs", ["box", "image", "dict"])
def test_samples_outlive_their_rows(obs):
    obs_space = OBSERVATIONS[obs]
    buffer = sb3.ReplayBuffer(10, obs_space, DISCRETE, device="cpu")
    for step in steps(obs_space, DISCRETE, 1, 10):
        buffer.add(*step)
    batch = buffer.sample(16)
    before = copy.deepcopy(batch)
    for step in steps(obs_space, DISCRETE, 1, 20, seed=1):
        buffer.add(*step)
    assert_same(batch, before)


def test_tensors_follow_buffer_device():
    buffer = sb3.ReplayBuffer(8, BOX, DISCRETE, device="cpu")
    for step in steps(BOX, DISCRETE, 1, 4):
        buffer.add(*step)
    assert {part.device.type for part in buffer.sample(4)[:5]} == {"cpu"}
    buffer.device = th.device("meta")  # as the host does when it loads a buffer
    assert {part.device.type for part in buffer.sample(4)[:5]} == {"meta"}


def test_a_subclass_may_convert_tensors_its_own_way():
    class Half(sb3.ReplayBuffer):
        def to_torch(self, array, copy=True):
            tensor = super().to_torch(array, copy)
            return tensor.half() if tensor.dtype == th.float32 else tensor

    buffer = Half(8, BOX, DISCRETE, device="cpu")
    for step in steps(BOX, DISCRETE, 1, 4):
        buffer.add(*step)
    assert [part.dtype for part in buffer.sample(4)[:2]] == [th.float16, th.int64]
    array = np.zeros(2, np.float32)
    tensor = sb3.ReplayBuffer(8, BOX, DISCRETE, device="cpu").to_torch(array)
    array[:] = 1
    assert tensor.tolist() == [0, 0]


@pytest.mark.parametrize("kind", ["ReplayBuffer", "NStepReplayBuffer", "DictReplayBuffer"])
def test_a_subclass_may_normalize_its_own_way(kind):
    class Own:
        @staticmethod
        def _normalize_obs(obs, env=None):
            return {key: part * 2 for key, part in obs.items()} if isinstance(obs, dict) else obs * 2

        @staticmethod
        def _normalize_reward(reward, env=None):
            return np.clip(reward, -0.5, 0.5)

    obs_space = spaces.Dict(vector=BOX) if kind == "DictReplayBuffer" else BOX
    ours, theirs = (
        type(kind, (Own, getattr(module, kind)), {})(20, obs_space, DISCRETE, device="cpu") for module in (sb3, host)
    )
    for step in steps(obs_space, DISCRETE, 1, 12):
        ours.add(*step)
        theirs.add(*copy.deepcopy(step))
    sampled_alike(ours, theirs, 16, 0)


def test_a_dict_buffer_wants_a_dict():
    with pytest.raises(AssertionError, match="Dict obs space"):
        sb3.DictReplayBuffer(8, BOX, DISCRETE)


# -- copies ------------------------------------------------------------------------------------------------------------


@pytest.mark.pitfall("D5")
@pytest.mark.parametrize("again", [lambda b: pickle.loads(pickle.dumps(b)), copy.deepcopy], ids=["pickle", "deepcopy"])
@pytest.mark.parametrize("obs", ["box", "image", "dict"])
@pytest.mark.parametrize("kind", ["ReplayBuffer", "NStepReplayBuffer", "PrioritizedReplayBuffer"])
def test_a_copy_goes_on_as_the_original_would(kind, obs, again):
    obs_space = OBSERVATIONS[obs]
    buffer = getattr(sb3, kind)(20, obs_space, DISCRETE, n_envs=2, device="cpu", optimize_memory_usage=True)
    stream = list(steps(obs_space, DISCRETE, 2, 40))
    for step in stream[:13]:
        buffer.add(*step)
    twin = again(buffer)
    for i, step in enumerate(stream[13:]):
        buffer.add(*step)
        twin.add(*step)
        sampled_alike(buffer, twin, 8, i)
    for name in COLUMNS:
        assert_same(getattr(twin, name), getattr(buffer, name), name)


def test_frames_in_any_memory_order():
    buffer, theirs = both("ReplayBuffer", 20, IMAGE, DISCRETE, n_envs=2)
    for i, step in enumerate(steps(IMAGE, DISCRETE, 2, 15)):
        odd = [np.ascontiguousarray(part.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2) for part in step[:2]]
        assert not odd[0].flags.c_contiguous
        buffer.add(*odd, *step[2:])
        theirs.add(*copy.deepcopy(step))  # it reshapes what it is given
        sampled_alike(buffer, theirs, 8, i)
