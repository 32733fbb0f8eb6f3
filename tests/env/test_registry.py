import logging
import sys
import time

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import rlfast
from rlfast.env import DummyVectorEnv, NativeVectorEnv, SubprocVectorEnv
from rlfast.env.process.measure import Measurement
from scripted import Scripted


class Quick(Scripted):
    pass


class Slow(Scripted):
    def step(self, action):
        time.sleep(0.001)
        return super().step(action)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    for kind in (Quick, Slow):
        gym.register(f"{kind.__name__}-v0", kind, max_episode_steps=7)
    module = type(sys)("brought_along")
    module.__file__ = __file__
    monkeypatch.setitem(sys.modules, "brought_along", module)
    yield
    for name in ("Quick-v0", "Slow-v0", "Late-v0"):
        gym.registry.pop(name, None)


def made(*args, **kwargs):
    envs = rlfast.make_vec(*args, **kwargs)
    envs.close()
    return envs


def test_native_where_there_is_one(caplog):
    with caplog.at_level(logging.INFO, "rlfast.env.registry"):
        envs = made("CartPole-v1", 5)
    assert isinstance(envs, NativeVectorEnv)
    assert (envs.placement, envs.num_envs, envs.autoreset_mode) == ("native", 5, AutoresetMode.NEXT_STEP)
    assert repr(envs) == "NativeVectorEnv(CartPole-v1, num_envs=5, native, NEXT_STEP)"
    assert repr(envs) in caplog.text


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"wrappers": [gym.wrappers.RecordEpisodeStatistics]}, "wrappers were given"),
        ({"render_mode": "rgb_array"}, "it does not render"),
    ],
)
def test_what_native_ones_cannot_do_is_done_otherwise_and_told(options, why, caplog):
    with caplog.at_level(logging.INFO, "rlfast.env.registry"):
        envs = made("CartPole-v1", 1, **options)
    assert isinstance(envs, DummyVectorEnv)
    assert f"DummyVectorEnv(CartPole-v1, num_envs=1, in-process, NEXT_STEP) (not native: {why})" in caplog.text
    with pytest.raises(ValueError, match=f"CartPole-v1 cannot be native: {why}"):
        made("CartPole-v1", 1, backend="native", **options)


def test_an_argument_that_the_native_one_does_not_take(caplog):
    with caplog.at_level(logging.INFO, "rlfast.env.registry"):
        envs = made("CartPole-v1", 1, disable_env_checker=True)
    assert envs.placement == "in-process"
    assert "disable_env_checker" in caplog.text
    with pytest.raises(TypeError, match="disable_env_checker"):
        made("CartPole-v1", 1, backend="native", disable_env_checker=True)


def test_who_registers_an_id_anew_gets_their_own():
    spec = gym.registry["CartPole-v1"]
    gym.registry["CartPole-v1"] = gym.envs.registration.EnvSpec("CartPole-v1", entry_point=Quick)
    try:
        envs = rlfast.make_vec("CartPole-v1", 1)
        assert isinstance(envs.call("unwrapped")[0], Quick)
    finally:
        gym.registry["CartPole-v1"] = spec


@pytest.mark.parametrize(("seconds", "placement"), [(0.001, "process"), (0.0, "in-process")])
def test_workers_where_they_pay(seconds, placement, monkeypatch):
    monkeypatch.setattr("rlfast.env.process.measure.cores", lambda: 2)
    monkeypatch.setattr("rlfast.env.process.measure.measure", lambda _: Measurement(seconds))
    envs = made("Slow-v0", 4)
    assert isinstance(envs, SubprocVectorEnv)
    assert (envs.placement, envs.num_envs) == (placement, 4)


def test_one_environment_starts_no_workers():
    assert type(made("Slow-v0", 1)) is DummyVectorEnv


@pytest.mark.parametrize(
    ("backend", "placement"), [("native", "native"), ("process", "process"), ("in-process", "in-process")]
)
def test_asked_for(backend, placement):
    envs = rlfast.make_vec("CartPole-v1", 2, backend=backend, autoreset_mode="same-step", max_episode_steps=3)
    assert envs.placement == placement
    obs, _ = envs.reset(seed=4)
    np.testing.assert_allclose(obs[1], gym.make("CartPole-v1").reset(seed=5)[0], rtol=1e-6)
    for _ in range(3):
        *_, truncated, info = envs.step(np.zeros(2, int))
    assert truncated.tolist() == [True, True]
    assert info["_final_obs"].tolist() == [True, True]
    envs.close()


def test_ids_with_modules_and_specs():
    sys.modules["brought_along"].Late = Quick
    gym.register("Late-v0", "brought_along:Late")
    assert made("brought_along:Late-v0", 2, backend="in-process").spec.id == "Late-v0"
    spec = gym.spec("CartPole-v1")
    assert made(spec, 2).placement == "native"
    spec = gym.make("CartPole-v1", max_episode_steps=4).spec
    envs = rlfast.make_vec(spec, 2)
    assert envs.placement == "native"
    envs.reset()
    assert [envs.step(np.zeros(2, int))[3].all() for _ in range(4)] == [False, False, False, True]
    wrapped = gym.wrappers.FlattenObservation(gym.make("CartPole-v1")).spec
    assert made(wrapped, 1).placement == "in-process"


def test_tianshous_protocol_and_more_arguments():
    envs = rlfast.make_vec(
        "Quick-v0",
        2,
        backend="in-process",
        autoreset_mode=None,
        wrappers=[gym.wrappers.FlattenObservation, lambda env: gym.wrappers.TransformReward(env, lambda r: r + 1)],
        vector_kwargs={"wait_num": 1},
        length=2,
    )
    assert envs.is_async
    envs.reset()
    *_, infos = envs.step([0, 0])
    assert [info["env_id"] for info in infos] == [0, 1]
    assert envs.step([0, 0])[1:3][0].tolist() == [2, 2]
    assert envs.get_env_attr("length") == [2, 2]


@pytest.mark.parametrize(
    ("args", "options", "error", "message"),
    [
        (("Quick-v0", 2), {"backend": "gpu"}, ValueError, "one of .*'native'.*, got 'gpu'"),
        (("Quick-v0", 0), {}, ValueError, "num_envs must be at least 1, got 0"),
        (("Quick-v0", 2), {"backend": "native"}, ValueError, "Quick-v0 cannot be native: there is no Quick-v0 in Rust"),
        (("NoSuchThing-v0", 2), {}, gym.error.NameNotFound, "NoSuchThing"),
        (("CartPole-v1", 2), {"autoreset_mode": "later"}, ValueError, "got 'later'"),
    ],
)
def test_bad_arguments(args, options, error, message):
    with pytest.raises(error, match=message):
        made(*args, **options)
