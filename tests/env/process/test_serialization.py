"""An id of Gymnasium means the same in workers as in the process that started them."""

import os
import sys
import textwrap
import threading
import types
from contextlib import suppress

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest

import rlfast
from rlfast.env import EnvFailure, ShmemVectorEnv, SubprocEnvWorker, SubprocVectorEnv
from rlfast.env.process.serialization import Registry, by_value
from scripted import Scripted

pytestmark = pytest.mark.filterwarnings("ignore:.*Overriding environment")

CONTEXTS = ["forkserver", "spawn", "fork"]
CARTPOLE = "gymnasium.envs.classic_control.cartpole:CartPoleEnv"


class Mine(Scripted):
    def __init__(self, length=7, render_mode=None):
        super().__init__(length)


@pytest.fixture(autouse=True)
def registry():
    with suppress(ImportError):
        import ale_py  # noqa: F401 - it registers its environments once
    kept = dict(gym.registry)
    yield gym.registry
    gym.registry.clear()
    gym.registry.update(kept)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module that registers ``Theirs-v0`` when it is imported, and imports it."""
    (tmp_path / "their_module.py").write_text(
        textwrap.dedent("""
            import gymnasium as gym
            import sys

            class Theirs(gym.Env):
                observation_space = gym.spaces.Box(0, 9, (1,))
                action_space = gym.spaces.Discrete(2)

                def __init__(self, number=1):
                    self.number = number

            gym.register("Theirs-v0", entry_point="their_module:Theirs", max_episode_steps=5)
            """)
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import their_module

    yield their_module
    del sys.modules["their_module"]


def in_workers(id, name, context="forkserver", **kwargs):
    """The attribute of the environment, made in workers."""
    fns = [lambda: gym.make(id, disable_env_checker=True, **kwargs)] * 2
    with SubprocVectorEnv(fns, context=context, num_workers=1) as envs:
        return envs.get_env_attr(name)


@pytest.mark.parametrize("context", CONTEXTS)
def test_an_id_registered_again_means_the_new_one(context):
    gym.register("CartPole-v1", CARTPOLE, max_episode_steps=1000, kwargs={"sutton_barto_reward": True})
    assert [spec.max_episode_steps for spec in in_workers("CartPole-v1", "spec", context)] == [1000] * 2
    assert in_workers("CartPole-v1", "_sutton_barto_reward", context) == [True] * 2
    gym.register("CartPole-v1", Mine, max_episode_steps=3)
    assert in_workers("CartPole-v1", "length", context) == [7] * 2
    assert [spec.entry_point for spec in in_workers("CartPole-v1", "spec", context)] == [Mine] * 2


def test_wrappers_of_a_registration_are_there():
    spec = gym.wrappers.TimeAwareObservation(gym.make("CartPole-v1")).spec
    gym.registry["CartPole-v1"] = spec
    assert [space.shape for space in in_workers("CartPole-v1", "observation_space")] == [(5,)] * 2


def test_an_id_that_was_taken_away_is_gone():
    del gym.registry["CartPole-v1"]
    with pytest.raises(EnvFailure, match="CartPole"):
        in_workers("CartPole-v1", "spec")


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_namespace_that_a_package_brings(capfd, context):
    pytest.importorskip("ale_py")
    from ale_py.registration import register_v5_envs

    register_v5_envs()  # what the first import does
    with SubprocVectorEnv([lambda: gym.make("ALE/Pong-v5", obs_type="ram")] * 2, context=context) as envs:
        assert envs.reset(seed=0)[0].shape == (2, 128)
    assert "Overriding" not in capfd.readouterr().err


@pytest.mark.parametrize("context", CONTEXTS)
def test_one_that_cannot_be_sent_is_left_out_alone(context):
    gym.register("Locked-v0", Mine, kwargs={"length": threading.Lock()})
    gym.register("Mine-v0", Mine)
    assert in_workers("Mine-v0", "length", context) == [7, 7]
    if context == "fork":
        return
    with pytest.raises(EnvFailure, match=r"the registration of Locked-v0 could not be sent .*cannot pickle .*lock"):
        in_workers("Locked-v0", "length", context)


def test_unreadable_registration_is_skipped():
    class Odd:
        def __reduce__(self):
            return (_only_here, ())

    gym.register("Odd-v0", Mine, kwargs={"length": Odd()})
    gym.register("Mine-v0", Mine)
    assert in_workers("Mine-v0", "length") == [7, 7]
    with pytest.raises(EnvFailure, match=r"the registration of Odd-v0 could not be sent .*not here"):
        in_workers("Odd-v0", "length")


def _only_here():
    raise LookupError("not here")


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("name", ["brought_along", "__main__"])
def test_classes_of_unimportable_module(monkeypatch, name, context):
    module = types.ModuleType(name)
    module.Late = type("Late", (Mine,), {"__module__": name})
    monkeypatch.setitem(sys.modules, name, module)
    gym.register("Late-v0", f"{name}:Late", max_episode_steps=4)
    assert in_workers("Late-v0", "length", context) == [7, 7]
    assert [spec.entry_point for spec in in_workers("Late-v0", "spec", context)] == [f"{name}:Late"] * 2
    with rlfast.make_vec("Late-v0", 2, backend="process") as envs:
        assert envs.spec.max_episode_steps == 4


@pytest.mark.parametrize("context", CONTEXTS)
def test_import_in_worker_keeps_registrations(module, capfd, context):
    gym.register("Theirs-v0", "their_module:Theirs", max_episode_steps=9, kwargs={"number": 2})
    assert in_workers("their_module:Theirs-v0", "number", context) == [2, 2]
    assert [spec.max_episode_steps for spec in in_workers("Theirs-v0", "spec", context)] == [9, 9]
    assert "Overriding" not in capfd.readouterr().err


def test_a_function_may_register_what_it_makes(module):
    def make():
        gym.register("Theirs-v0", "their_module:Theirs", kwargs={"number": 3})
        return gym.make("Theirs-v0", disable_env_checker=True)

    with SubprocVectorEnv([make] * 2) as envs:
        assert envs.get_env_attr("number") == [3, 3]


def test_workers_import_the_modules_of_what_they_use(module):
    gym.register("Imported-v0", module.Theirs)

    def make():
        env = Mine()
        env.before = "their_module" in sys.modules
        env.spec_there = gym.spec("Imported-v0")
        env.after = "their_module" in sys.modules
        return env

    with SubprocVectorEnv([make]) as envs:
        assert envs.get_env_attr("before") == [False]
        assert envs.get_env_attr("after") == [True]
        assert envs.get_env_attr("spec_there")[0].entry_point is module.Theirs


def test_a_worker_that_is_started_again_knows_them_too(tmp_path):
    gym.register("CartPole-v1", Mine)
    made = tmp_path / "made"

    class Breaks(Mine):
        def step(self, action):
            if made.exists():
                return super().step(action)
            made.touch()
            os._exit(3)

    gym.register("Breaks-v0", Breaks, disable_env_checker=True)
    fns = [lambda: gym.make("Breaks-v0"), lambda: gym.make("CartPole-v1", disable_env_checker=True)]
    with SubprocVectorEnv(fns, num_workers=1, on_error="restart") as envs:
        envs.reset()
        envs.step([0, 0])
        assert envs.restarts == 2
        assert envs.get_env_attr("length") == [7, 7]


def test_single_worker_knows_registrations():
    gym.register("CartPole-v1", Mine)
    worker = SubprocEnvWorker(lambda: gym.make("CartPole-v1", disable_env_checker=True))
    assert worker.get_env_attr("length") == 7
    worker.close()


def test_auto_keeps_unpicklable_envs_local(monkeypatch):
    monkeypatch.setattr("rlfast.env.process.placement.cores", lambda: 2)
    lock = threading.Lock()
    with ShmemVectorEnv([lambda: Scripted(7 + lock.locked())] * 2) as envs:
        assert envs.placement == "in-process"
    with pytest.raises(TypeError, match='context="fork"'):
        SubprocVectorEnv([lambda: Scripted(7 + lock.locked())] * 2)


def test_a_registry_lets_everything_else_change():
    spec = gym.spec("CartPole-v1")
    registry = Registry({"CartPole-v1": spec})
    registry["Acrobot-v1"] = registry["CartPole-v1"] = other = gym.spec("Acrobot-v1")
    assert registry == {"CartPole-v1": other, "Acrobot-v1": other}


def test_observations_are_those_of_the_new_one():
    gym.register("CartPole-v1", Mine)
    with rlfast.make_vec("CartPole-v1", 2, backend="process", disable_env_checker=True) as envs:
        np.testing.assert_array_equal(envs.reset()[0], [[0, 0]] * 2)


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_module_that_only_this_process_has(context, monkeypatch):
    theirs = types.ModuleType("module_of_this_process")
    theirs.Scripted = Scripted
    monkeypatch.setitem(sys.modules, theirs.__name__, theirs)
    make = [lambda: theirs.Scripted(7)]
    if context == "fork":
        with SubprocVectorEnv(make, context=context) as envs:
            assert envs.reset()[0].shape[0] == 1
        return
    with pytest.raises(TypeError, match="No module named 'module_of_this_process'") as caught:
        SubprocVectorEnv(make, context=context)
    assert isinstance(caught.value, EnvFailure)
    assert 'use context="fork", which copies the parent' in str(caught.value)


class Nested:
    """An object whose pickling pickles another value, as finalizers may do at any time."""

    def __reduce__(self):
        return str, (repr(by_value(1, {"a_script"})),)


def test_pickling_may_come_back_to_itself(monkeypatch):
    monkeypatch.setitem(sys.modules, "a_script", types.ModuleType("a_script"))
    made = []
    thread = threading.Thread(target=lambda: made.append(by_value(Nested(), {"a_script"})), daemon=True)
    thread.start()
    thread.join(30)
    assert made, "the thread waits for itself"
    cloudpickle.register_pickle_by_value(sys.modules["a_script"])
    by_value(1, {"a_script"})
    assert "a_script" in cloudpickle.list_registry_pickle_by_value()  # the user's, which stays
    cloudpickle.unregister_pickle_by_value(sys.modules["a_script"])
