"""Wrappers around vector environments of other libraries, and around those that a subclass changed."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from rlfast.data import Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv, VectorEnvNormObs, VectorEnvWrapper
from rlfast.env.adapters import AdaptedVectorEnv
from scripted import Scripted, ScriptedPolicy

LENGTH = 5


def make():
    return Scripted(LENGTH)


def envpool(num_envs=3, **options):
    return pytest.importorskip("envpool").make_gymnasium(
        "CartPole-v1", num_envs=num_envs, seed=1, max_episode_steps=LENGTH, **options
    )


def atari(num_envs=3):
    return pytest.importorskip("ale_py").AtariVectorEnv("pong", num_envs=num_envs)


OTHERS = {
    "sync": lambda: SyncVectorEnv([make] * 3),
    "same step": lambda: SyncVectorEnv([make] * 3, autoreset_mode="SameStep"),
    "disabled": lambda: SyncVectorEnv([make] * 3, autoreset_mode="Disabled"),
    "async": lambda: AsyncVectorEnv([make] * 3, context="fork"),
    "wrapped": lambda: gym.wrappers.vector.RecordEpisodeStatistics(SyncVectorEnv([make] * 3)),
    "envpool": envpool,
    "ale": atari,
}
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*precision lowered by casting:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]


class Shifting(VectorEnvWrapper):
    """A wrapper written for Tianshou."""

    def reset(self, id=None, **kwargs):
        obs, info = self.venv.reset(id, **kwargs)
        return obs + 100, info

    def step(self, action, id=None):
        obs, rew, *rest = self.venv.step(action, id)
        return (obs + 100, rew * 2, *rest)


class Bare(Shifting):
    def __init__(self, venv):
        self.venv = DummyVectorEnv([make] * 3) if venv is None else venv  # without super().__init__


@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_no_environment_of_ours_is_adapted(kind):
    other = OTHERS[kind]()
    envs = VectorEnvWrapper(other)
    assert isinstance(envs.venv, AdaptedVectorEnv)
    assert (envs.num_envs, len(envs), envs.env_num, envs.is_async) == (3, 3, 3, False)
    assert envs.single_action_space == other.single_action_space
    obs, info = envs.reset(seed=None if kind == "envpool" else 3)
    assert (len(obs), type(info)) == (3, dict)
    obs, rew, terminated, truncated, info = envs.step(np.zeros(3, int))
    assert (rew.dtype, terminated.dtype, truncated.dtype) == (np.float64, bool, bool)
    assert obs.shape == envs.observation_space.shape
    envs.close()
    assert envs.is_closed


@pytest.mark.parametrize("kind", OTHERS)
def test_collectors_see_through_them(kind):
    envs = VectorEnvWrapper(OTHERS[kind]())
    buffer = VectorReplayBuffer(60, 3)
    stats = Collector(ScriptedPolicy(), envs, buffer).collect(n_step=30)
    assert (stats.n_collected_steps, len(buffer)) == (30, 30)
    rows = buffer[:]
    if kind != "ale":
        assert set(stats.lens.tolist()) == {LENGTH}
    same = (rows.obs_next[:-1] == rows.obs[1:]).reshape(29, -1).all(1)
    same |= (rows.terminated | rows.truncated)[:-1] | (np.arange(1, 30) % 10 == 0)
    assert same.all()
    envs.close()


def test_other_attributes_through_wrapper():
    envs = VectorEnvNormObs(envpool())
    assert envs.config["num_envs"] == 3
    assert envs.all_env_ids.tolist() == [0, 1, 2]
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = envs.no_such_thing


@pytest.mark.parametrize("kind", ["envpool", "sync", "same step", "disabled", "async"])
def test_some_of_them_as_a_script_for_tianshou_asks(kind):
    envs = VectorEnvWrapper(OTHERS[kind]())
    for wrapper in (envs, envs.venv):
        wrapper.reset()
        obs, info = wrapper.reset([2, 0])
        assert len(obs) == 2
        assert info["env_id"].tolist() == [2, 0]
        obs, rew, _, _, info = wrapper.step(np.zeros(1, int), id=[1])
        assert (len(obs), rew.tolist(), info["env_id"].tolist()) == (1, [1.0], [1])
    envs.close()


def test_an_episode_of_each_is_reset_by_its_id():
    """The loop of scripts that know no autoreset."""
    envs = VectorEnvNormObs(envpool(), update_obs_rms=False)
    plain = VectorEnvWrapper(envpool())
    for one in (envs, plain):
        one.reset()
    ended = 0
    for _ in range(3 * LENGTH):
        act = np.ones(3, int)
        obs, _, terminated, truncated, _ = envs.step(act)
        done = np.flatnonzero(terminated | truncated)
        np.testing.assert_allclose(obs, plain.step(act)[0], atol=1e-6)
        if len(done):
            ended += len(done)
            np.testing.assert_allclose(envs.reset(env_id=done)[0], plain.reset(done)[0], atol=1e-6)
    assert ended == 9  # no step was lost to a reset


def test_asynchronous_ones_answer_in_groups():
    envs = VectorEnvWrapper(envpool(4, batch_size=2))
    assert envs.is_async
    envs.reset()
    *_, info = envs.step(np.zeros(4, int), id=[0, 1, 2, 3])
    assert len(info["env_id"]) == 2
    *_, more = envs.step(None, id=[])
    assert sorted([*info["env_id"].tolist(), *more["env_id"].tolist()]) == [0, 1, 2, 3]


def test_same_step_final_obs_of_some_envs():
    envs = VectorEnvWrapper(SyncVectorEnv([make] * 3, autoreset_mode="SameStep"))
    envs.reset()
    for _ in range(LENGTH):
        obs, *_, info = envs.step([0], id=[1])
    assert obs.tolist() == [[1, 0]]
    assert info["final_obs"][0].tolist() == [0, LENGTH]


@pytest.mark.parametrize("kind", ["sync", "envpool"])
def test_norm_obs_over_other_vector_envs(kind):
    def collected(envs):
        buffer = VectorReplayBuffer(60, 3)
        Collector(ScriptedPolicy(), envs, buffer).collect(n_step=21)
        envs.close()
        return buffer[:]

    raw = collected(OTHERS[kind]())
    envs = VectorEnvNormObs(OTHERS[kind]())
    scaled = collected(envs)
    rms = envs.get_obs_rms()
    first = raw.obs[[0, 7, 14]]
    assert rms.count >= 21 + len(first)
    last = raw.obs_next[[6, 13, 20]]
    np.testing.assert_allclose(scaled.obs_next[[6, 13, 20]], rms.norm(last), atol=1e-5)
    fixed = VectorEnvNormObs(OTHERS[kind](), update_obs_rms=False)
    fixed.set_obs_rms(rms)
    np.testing.assert_allclose(collected(fixed).obs, rms.norm(raw.obs), atol=1e-6)


@pytest.mark.parametrize("wrapper", [Shifting, Bare])
@pytest.mark.parametrize("kind", ["own", "sync", "same step", "disabled", "envpool"])
def test_wrappers_written_for_tianshou(kind, wrapper):
    if kind == "own" or (kind == "sync" and wrapper is Bare):
        other = DummyVectorEnv([make] * 3)
    else:
        other = VectorEnvWrapper(OTHERS[kind]()) if wrapper is Bare else OTHERS[kind]()
    for outer in (lambda envs: envs, VectorEnvWrapper):
        envs = outer(wrapper(other))
        obs, _ = envs.reset()
        assert (obs > 90).all()
        assert envs.step(np.zeros(3, int))[1].tolist() == [2, 2, 2]
        assert envs.step(np.zeros(1, int), [1])[1].tolist() == [2]
        buffer = VectorReplayBuffer(60, 3)
        stats = Collector(ScriptedPolicy(), envs, buffer).collect(n_step=30)
        assert (buffer[:].rew == 2).all()
        assert (buffer[:].obs > 90).all()
        assert set(stats.returns.tolist()) == {2.0 * LENGTH}
        if kind != "same step":  # the final observations are in infos, which this wrapper does not change
            assert (buffer[:].obs_next > 90).all()


def test_statistics_over_tianshou_wrapper():
    inner = Shifting(DummyVectorEnv([make] * 3))
    envs = VectorEnvNormObs(inner)
    assert envs.venv is inner
    envs.reset()
    assert envs.step(np.zeros(3, int))[1].tolist() == [2, 2, 2]
    np.testing.assert_allclose(envs.get_obs_rms().mean, [100, 100.5])


@pytest.mark.parametrize("mode", AutoresetMode)
def test_gymnasium_subclass_overrides_step(mode):
    class Doubling(DummyVectorEnv):
        def step(self, action, id=None):
            obs, rew, *rest = super().step(action, id)
            return (obs, rew * 2, *rest)

    for envs in (
        Doubling([make] * 3, autoreset_mode=mode),
        VectorEnvWrapper(Doubling([make] * 3, autoreset_mode=mode)),
    ):
        buffer = VectorReplayBuffer(60, 3)
        stats = Collector(ScriptedPolicy(), envs, buffer).collect(n_episode=4)
        assert stats.returns.tolist() == [2.0 * LENGTH] * 4
        assert (buffer[:].rew == 2).all()


def test_a_wrapper_may_be_given_another_environment():
    envs = VectorEnvWrapper(DummyVectorEnv([make] * 2))
    envs.reset()
    envs.venv = DummyVectorEnv([make] * 3)
    assert envs.reset()[0].shape == (3, 2)
    assert envs.step([0, 0, 0])[1].tolist() == [1, 1, 1]


def test_what_is_no_vector_environment_is_refused():
    for thing in (make(), "CartPole-v1", None):
        with pytest.raises(TypeError, match=r"expected a vector environment of rlfast\.env, Gymnasium, EnvPool or ale"):
            VectorEnvWrapper(thing)
