import logging
import subprocess
import sys
import time

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import AcrobotEnv, CartPoleEnv
from gymnasium.envs.registration import EnvSpec, WrapperSpec
from gymnasium.vector import AutoresetMode

import rlfast
from machine import PATIENCE
from rlfast.env import DummyVectorEnv, NativeVectorEnv, SubprocVectorEnv
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
def test_native_fallback_is_logged(options, why, caplog):
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


@pytest.fixture
def registered_anew():
    """Registers an id of Gymnasium's in place of its own; afterwards it is as before."""
    kept = {}

    def register(id, entry_point, **options):
        kept.setdefault(id, gym.registry.get(id))
        gym.registry[id] = EnvSpec(id, entry_point=entry_point, **options)

    yield register
    for id, spec in kept.items():
        if spec is None:
            del gym.registry[id]
        else:
            gym.registry[id] = spec


CARTPOLE = "gymnasium.envs.classic_control.cartpole:CartPoleEnv"
ACROBOT = "gymnasium.envs.classic_control.acrobot:AcrobotEnv"
TIME_AWARE = WrapperSpec(
    "TimeAwareObservation", "gymnasium.wrappers:TimeAwareObservation", {"flatten": True, "normalize_time": False}
)


def lengths(envs):
    """Steps of an episode of each environment, pushed to the right."""
    envs.reset(seed=0)
    done, length = np.zeros(envs.num_envs, bool), np.zeros(envs.num_envs, int)
    while not done.all():
        length += ~done
        _, _, terminated, truncated, _ = envs.step(np.ones(envs.num_envs, int))
        done |= terminated | truncated
    return length.tolist()


@pytest.mark.parametrize("backend", ["auto", "process", "in-process"])
@pytest.mark.parametrize("entry", [Quick, f"{__name__}:Quick", ACROBOT])
def test_who_registers_an_id_anew_gets_their_own(registered_anew, backend, entry):
    registered_anew("CartPole-v1", entry)
    with rlfast.make_vec("CartPole-v1", 2, backend=backend, disable_env_checker=True) as envs:
        kind = AcrobotEnv if entry == ACROBOT else Quick
        assert [type(env).__name__ for env in envs.call("unwrapped")] == [kind.__name__] * 2
        assert envs.spec.entry_point == entry
    with pytest.raises(ValueError, match="CartPole-v1 cannot be native: CartPole-v1 is registered as"):
        rlfast.make_vec("CartPole-v1", 2, backend="native")


@pytest.mark.parametrize("backend", ["auto", "process", "in-process"])
@pytest.mark.parametrize("entry", [CARTPOLE, CartPoleEnv])
@pytest.mark.parametrize(("steps", "given", "want"), [(5, None, 5), (5, 3, 3), (None, 4, 4), (2000, None, 2000)])
def test_reregistered_class_keeps_values(registered_anew, backend, entry, steps, given, want):
    registered_anew("CartPole-v1", entry, max_episode_steps=steps, kwargs={"sutton_barto_reward": True})
    options = {} if given is None else {"max_episode_steps": given}
    with rlfast.make_vec("CartPole-v1", 2, backend=backend, **options) as envs:
        assert (envs.placement == "native") == (backend == "auto")
        assert envs.spec.max_episode_steps == want
        assert envs.spec.kwargs == {"sutton_barto_reward": True}
        assert envs.spec.entry_point == entry
        if want < 9:
            assert lengths(envs) == [want] * 2
        envs.reset()
        assert envs.step(np.zeros(2, int))[1].tolist() == [0.0, 0.0]  # Sutton and Barto's reward


def test_unsupported_registration_is_not_native(registered_anew, caplog):
    registered_anew("CartPole-v1", CARTPOLE, max_episode_steps=9, additional_wrappers=(TIME_AWARE,))
    with caplog.at_level(logging.INFO, "rlfast.env.registry"), rlfast.make_vec("CartPole-v1", 1) as envs:
        assert (envs.placement, envs.reset()[0].shape) == ("in-process", (1, 5))
        assert "not native: the registration has wrappers" in caplog.text
    registered_anew("CartPole-v1", CARTPOLE, kwargs={"render_mode": "rgb_array"})
    with rlfast.make_vec("CartPole-v1", 1) as envs:
        assert (envs.placement, envs.render_mode) == ("in-process", "rgb_array")
    registered_anew("CartPole-v1", CARTPOLE, kwargs={"no_such": 3})
    with pytest.raises(TypeError, match="no_such"):
        rlfast.make_vec("CartPole-v1", 1)


def test_a_limit_that_was_taken_away_stays_away(registered_anew):
    registered_anew("MountainCar-v0", gym.spec("MountainCar-v0").entry_point)
    for spec in ("MountainCar-v0", gym.make("MountainCar-v0", max_episode_steps=-1).spec):
        with rlfast.make_vec(spec, 1) as envs:
            assert (envs.placement, envs.spec.max_episode_steps) == ("native", None)
            envs.reset(seed=0)
            assert not any(envs.step([1])[3][0] for _ in range(210))


@pytest.mark.parametrize("placement", ["process", "in-process"])
def test_workers_where_they_pay(placement, monkeypatch):
    monkeypatch.setattr("rlfast.env.subproc.choose", lambda *_: (placement, "as measured"))
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


@pytest.mark.parametrize("backend", ["auto", "process", "in-process"])
def test_a_module_in_an_id_is_imported_in_this_process(tmp_path, monkeypatch, backend):
    (tmp_path / "brings_an_env.py").write_text(
        "import gymnasium as gym\n"
        "from scripted import Scripted\n"
        "gym.register('Brought-v0', entry_point=Scripted, disable_env_checker=True)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        with rlfast.make_vec("brings_an_env:Brought-v0", 2, backend=backend, length=5) as envs:
            assert envs.spec.id == "Brought-v0"
            assert envs.call("length") == (5, 5)
    finally:
        sys.modules.pop("brings_an_env", None)
        gym.registry.pop("Brought-v0", None)
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        rlfast.make_vec("no_such_module:CartPole-v1", 2, backend=backend)


def test_an_id_of_gymnasiums_with_a_module_is_native():
    assert made("gymnasium:CartPole-v1", 2).placement == "native"


@pytest.mark.parametrize("backend", ["auto", "process", "in-process"])
def test_the_namespace_ale_is_there(backend):
    pytest.importorskip("ale_py")
    with rlfast.make_vec("ALE/Pong-v5", 2, backend=backend, obs_type="ram") as envs:
        assert envs.reset(seed=0)[0].shape == (2, 128)
        assert envs.spec.id == "ALE/Pong-v5"


@pytest.mark.parametrize("id", ["ALE/Pong-v5", "PongNoFrameskip-v4"])
def test_games_are_there_from_the_start(id):
    pytest.importorskip("ale_py")
    script = f"from rlfast.env.registry import find_spec; print(find_spec({id!r}).entry_point)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert done.stdout == "ale_py.env:AtariEnv\n"


def test_the_namespace_ale_needs_a_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    for name in [name for name in gym.registry if name.startswith("ALE/")]:
        monkeypatch.delitem(gym.registry, name)
    with pytest.raises(gym.error.NamespaceNotFound, match=r"ALE/Pong-v5 needs ale_py: pip install '\.\[atari\]'"):
        rlfast.make_vec("ALE/Pong-v5", 2)


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
