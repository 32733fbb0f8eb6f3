"""Hindsight goals, compared with SB3's and with their definition."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed: pip install '.[sb3]'")
from stable_baselines3 import her as host
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize
from stable_baselines3.her.goal_selection_strategy import GoalSelectionStrategy

from interop.sb3.comparing import assert_same, sampled_alike
from interop.streams import Step
from rlfast.interop import sb3

GOAL = spaces.Box(-1e6, 1e6, (2,))
GOALS = spaces.Dict(observation=spaces.Box(-1e6, 1e6, (3,)), achieved_goal=GOAL, desired_goal=GOAL)
DISCRETE = spaces.Discrete(2)
COLUMNS = ("actions", "rewards", "dones", "timeouts", "ep_start", "ep_length", "_current_ep_start")


class Judge:
    """The part of a vector environment that buffers need; a reward shows which goals it was computed from."""

    def __init__(self):
        self.infos = []

    def env_method(self, name, achieved, desired, infos, indices):
        assert (name, indices) == ("compute_reward", [0])
        self.infos.append(infos)
        seen = np.array([info.get("step", 0) for info in infos])
        flat = [part.reshape(len(part), -1).astype(float) for part in (achieved, desired)]
        return [flat[0][:, 0] + 1000 * flat[1][:, 1] + 1e-3 * seen]


def stream(envs, count, *, ends=0.15, seed=0):
    """Achieved goals number the steps: ``[step, env]``."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        number = np.stack([np.full(envs, i), np.arange(envs)], axis=1).astype(np.float32)
        obs, next_obs = (
            {
                "observation": rng.random((envs, 3)),
                "achieved_goal": number + k,
                "desired_goal": np.full((envs, 2), -7.0),
            }
            for k in (0, 0.5)
        )
        done = rng.random(envs) < ends
        infos = [{"step": i, "TimeLimit.truncated": bool(flag and rng.random() < 0.5)} for flag in done]
        yield Step(obs, next_obs, rng.integers(0, 2, envs), rng.normal(size=envs), done, infos)


def both(capacity, envs=1, **kwargs):
    arguments = {"env": Judge(), "n_envs": envs, "device": "cpu", **kwargs}
    return (module.HerReplayBuffer(capacity, GOALS, DISCRETE, **arguments) for module in (sb3, host))


@pytest.mark.pitfall("D3")
@pytest.mark.parametrize("copying", [True, False])
@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_samples_are_the_hosts(strategy, envs, copying):
    kwargs = {"goal_selection_strategy": strategy, "copy_info_dict": copying, "n_sampled_goal": 3}
    ours, theirs = both(60, envs, **kwargs)
    assert isinstance(ours, host.HerReplayBuffer)
    for i, step in enumerate(stream(envs, 70)):
        ours.add(*step)
        theirs.add(*step)
        if (theirs.ep_length > 0).any():
            sampled_alike(ours, theirs, 13, i)
    for name in COLUMNS:
        assert_same(getattr(ours, name), getattr(theirs, name), name)
    assert ours.her_ratio == theirs.her_ratio
    if copying:
        assert_same(ours.infos, theirs.infos)


@pytest.mark.parametrize("saving", [True, False])
def test_normalized_samples_are_the_hosts(saving):
    ours, theirs = (
        module.HerReplayBuffer(40, GOALS, DISCRETE, Judge(), device="cpu", optimize_memory_usage=flag)
        for module, flag in ((sb3, saving), (host, False))
    )
    env = VecNormalize(DummyVecEnv([Goals]))
    for statistics in env.obs_rms.values():
        statistics.update(np.random.default_rng(0).normal(2, 3, (50, *statistics.mean.shape)))
    for i, step in enumerate(stream(1, 60)):
        ours.add(*step)
        theirs.add(*step)
        if (theirs.ep_length > 0).any():
            sampled_alike(ours, theirs, 10, i, env)


class Goals(gymnasium.Env):
    observation_space, action_space = GOALS, DISCRETE


def test_goals_come_from_the_rows_own_episode():
    buffer, _ = both(50, 2)
    for step in stream(2, 80):
        buffer.add(*step)
    batch = buffer.sample(500)
    virtual = batch.observations["desired_goal"][:, 0] != -7.0
    assert int(virtual.sum()) == 400
    assert not virtual[:100].any()
    achieved = batch.next_observations["achieved_goal"][virtual]
    goals = batch.observations["desired_goal"][virtual]
    assert (goals[:, 0] >= achieved[:, 0]).all()
    assert (goals[:, 1] == achieved[:, 1]).all()
    ends = np.flatnonzero(buffer.dones.any(axis=1))
    assert len(ends) > 3
    assert_same(batch.next_observations["desired_goal"], batch.observations["desired_goal"])


@pytest.mark.parametrize("part", ["_get_real_samples", "_get_virtual_samples", "_sample_goals"])
def test_a_subclass_may_change_a_part(part):
    def change(buffer, *args):
        found = getattr(super(type(buffer), buffer), part)(*args)
        return found - 3 if part == "_sample_goals" else found._replace(rewards=found.rewards * 10)

    ours, theirs = (
        type("Own", (module.HerReplayBuffer,), {part: change})(60, GOALS, DISCRETE, Judge(), device="cpu")
        for module in (sb3, host)
    )
    for step in stream(1, 70):
        ours.add(*step)
        theirs.add(*step)
    sampled_alike(ours, theirs, 13, 0)


def test_sampling_needs_finished_episode():
    buffer, _ = both(20)
    for step in stream(1, 5, ends=0):
        buffer.add(*step)
    with pytest.raises(RuntimeError, match="end of the first episode"):
        buffer.sample(1)


def test_an_overwritten_episode_is_no_longer_drawn():
    buffer, _ = both(10)
    ended = [step._replace(done=np.array([i in (3, 9)])) for i, step in enumerate(stream(1, 14))]
    for step in ended[:10]:
        buffer.add(*step)
    assert buffer.ep_length[:, 0].tolist() == [4] * 4 + [6] * 6
    buffer.sample(2)
    buffer.add(*ended[10])
    assert buffer.ep_length[:, 0].tolist() == [0] * 4 + [6] * 6
    assert set(buffer.sample(100).next_observations["achieved_goal"][:, 0].tolist()) == {i + 0.5 for i in range(4, 10)}


def test_lengths_written_by_hand_count():
    buffer, _ = both(10)
    for i, step in enumerate(stream(1, 8)):
        buffer.add(*step._replace(done=np.array([i in (3, 7)])))
    buffer.sample(4)
    buffer.ep_length[:4] = 0
    assert buffer.sample(50).next_observations["achieved_goal"][:, 0].min() == 4.5


def test_images_as_goals():
    """Observations and next observations of images share an array; a goal is written into neither's other half."""
    image = spaces.Box(0, 255, (4, 40, 40), np.uint8)
    space = spaces.Dict(observation=image, achieved_goal=image, desired_goal=image)
    ours, theirs = (module.HerReplayBuffer(30, space, DISCRETE, Judge(), device="cpu") for module in (sb3, host))
    rng = np.random.default_rng(0)
    obs = {key: rng.integers(0, 256, (1, 4, 40, 40), np.uint8) for key in space}
    for i in range(24):
        next_obs = {
            key: np.concatenate((part[:, 1:], rng.integers(0, 256, (1, 1, 40, 40), np.uint8)), 1)
            for key, part in obs.items()
        }
        for buffer in (ours, theirs):
            buffer.add(obs, next_obs, np.array([1]), np.array([0.5]), np.array([i % 6 == 5]), [{}])
        obs = next_obs
    sampled_alike(ours, theirs, 10, 0)


@pytest.mark.parametrize("envs", [1, 3])
@pytest.mark.parametrize("at", [7, 21, 33])
def test_truncating_the_last_trajectory(envs, at):
    buffers = list(both(20 * envs, envs))
    for step in stream(envs, at, ends=0.1, seed=2):
        for buffer in buffers:
            buffer.add(*step)
    for buffer in buffers:
        with pytest.warns(UserWarning, match="truncated"):
            buffer.truncate_last_trajectory()
    for name in COLUMNS:
        assert_same(getattr(buffers[0], name), getattr(buffers[1], name), name)
    sampled_alike(*buffers, 20, 0)


@pytest.mark.parametrize("again", [lambda b: pickle.loads(pickle.dumps(b)), copy.deepcopy], ids=["pickle", "deepcopy"])
def test_a_copy_waits_for_its_environment(again):
    buffer, _ = both(30, 2)
    for step in stream(2, 25):
        buffer.add(*step)
    buffer.sample(3)
    twin = again(buffer)
    with pytest.raises(AssertionError, match="set_env"):
        twin.sample(10)
    twin.set_env(Judge())
    with pytest.raises(ValueError, match="already"):
        twin.set_env(Judge())
    for i, step in enumerate(stream(2, 20, seed=9)):
        sampled_alike(twin, buffer, 10, i)
        twin.add(*step)
        buffer.add(*step)


def test_reset_forgets_episodes():
    buffer, _ = both(30)
    for step in stream(1, 25):
        buffer.add(*step)
    buffer.reset()
    with pytest.raises(RuntimeError):
        buffer.sample(1)


def test_strategies_by_name_and_by_value():
    one, _ = both(8, goal_selection_strategy="FINAL")
    other, _ = both(8, goal_selection_strategy=GoalSelectionStrategy.FINAL)
    assert one.goal_selection_strategy is other.goal_selection_strategy is GoalSelectionStrategy.FINAL
    with pytest.raises(KeyError):
        next(both(8, goal_selection_strategy="past"))
    with pytest.raises(AssertionError, match="must be one of"):
        next(both(8, goal_selection_strategy=3))


def test_without_new_goals_nobody_is_asked():
    buffer, _ = both(30, n_sampled_goal=0)
    for step in stream(1, 25):
        buffer.add(*step)
    assert (buffer.sample(20).observations["desired_goal"] == -7).all()
    assert buffer.env.infos == []
