import sys
from contextlib import closing

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec

import rlfast
from rlfast._core import native_envs
from rlfast.env import DummyVectorEnv, NativeVectorEnv, VectorEnvNormObs, VectorEnvNormReward, as_vector_env
from rlfast.env.native import ids
from rlfast.env.specs import find_spec, make_registered, why_not_native


@pytest.mark.parametrize("id", ids())
def test_every_native_id_is_gymnasiums_own(id, monkeypatch):
    own = gym.registry.get(id)
    if own is not None:  # newer releases lack some
        assert why_not_native(own) == ""
        assert NativeVectorEnv(id, 1).spec == own
        mine = EnvSpec(id, entry_point="mine:Env", max_episode_steps=3)
        assert why_not_native(mine) == f"{id} is registered as mine:Env"
        monkeypatch.setitem(gym.registry, id, mine)
        spec = NativeVectorEnv(id, 1).spec
        assert (spec.entry_point, spec.max_episode_steps, spec.kwargs) == (
            own.entry_point,
            own.max_episode_steps,
            own.kwargs,
        )
    else:
        spec = NativeVectorEnv(id, 1).spec
        assert spec.id == id
        assert spec.max_episode_steps == dict(native_envs())[id]


def test_native_thresholds_are_gymnasiums(monkeypatch):
    known = {id: own.reward_threshold for id, own in gym.registry.items() if id in ids()}
    monkeypatch.setitem(gym.registry, "CartPole-v1", EnvSpec("CartPole-v1", entry_point="mine:Env"))
    for id in ids():  # registered by others, or by none
        monkeypatch.delitem(gym.registry, id, raising=False)
    found = {id: NativeVectorEnv(id, 1).spec.reward_threshold for id in ids()}
    assert {id: found[id] for id in known} == known
    assert found["Taxi-v3"] == 8


def specs_of(envs):
    """What scripts read from one environment, or from the first of a vector environment."""
    with closing(envs):
        spec = envs.spec
    spec = spec[0] if isinstance(spec, list) else spec
    return spec.id, spec.reward_threshold


CARTPOLE = [lambda: gym.make("CartPole-v1")] * 2


@pytest.mark.parametrize("mode", [None, "next-step"])
@pytest.mark.parametrize("wrap", [lambda envs: envs, VectorEnvNormObs, VectorEnvNormReward])
@pytest.mark.parametrize("backend", ["native", "in-process", "process"])
def test_vector_environments_have_the_threshold(backend, wrap, mode):
    envs = rlfast.make_vec("CartPole-v1", 2, backend=backend, autoreset_mode=mode)
    assert specs_of(wrap(envs)) == ("CartPole-v1", 475)


@pytest.mark.parametrize(
    "make",
    [
        lambda: gym.vector.SyncVectorEnv(CARTPOLE),
        lambda: gym.vector.AsyncVectorEnv(CARTPOLE),
        lambda: gym.make_vec("CartPole-v1", 2),
        lambda: gym.make_vec("CartPole-v1", 2, vectorization_mode="vector_entry_point"),
    ],
)
def test_adapted_environments_have_the_threshold(make):
    assert specs_of(as_vector_env(make())) == ("CartPole-v1", 475)


def test_envpool_has_the_threshold():
    envpool = pytest.importorskip("envpool")
    envs = as_vector_env(envpool.make("CartPole-v1", env_type="gymnasium", num_envs=2))
    assert envs.get_attr("spec") == (envs.spec,) * 2
    assert specs_of(envs) == ("CartPole", 475)


def test_wrappers_take_an_assigned_spec():
    inner = DummyVectorEnv(CARTPOLE, autoreset_mode="next-step")
    inner.spec = gym.spec("Acrobot-v1")
    envs = VectorEnvNormReward(inner)
    assert envs.spec.id == "Acrobot-v1"
    envs.spec = gym.spec("MountainCar-v0")
    assert specs_of(envs) == ("MountainCar-v0", -110)


def test_a_spec_of_something_else_is_refused():
    with pytest.raises(ValueError, match="CartPole-v1 cannot be native: CartPole-v1 is registered as mine:Env"):
        NativeVectorEnv(EnvSpec("CartPole-v1", entry_point="mine:Env"), 2)
    with pytest.raises(ValueError, match="Ant-v5 cannot be native: there is no Ant-v5 in Rust"):
        NativeVectorEnv(gym.spec("Ant-v5"), 2)


def test_ids_without_a_version_are_left_to_gymnasium():
    assert find_spec("CartPole") == "CartPole"
    assert find_spec("NoSuchThing-v0") == "NoSuchThing-v0"
    spec = gym.spec("CartPole-v1")
    assert find_spec(spec) is find_spec("CartPole-v1") is find_spec("gymnasium:CartPole-v1") is spec


@pytest.mark.parametrize(
    ("library", "id", "extra"), [("mujoco", "HalfCheetah-v5", "mujoco"), ("Box2D", "LunarLander-v3", "box2d")]
)
def test_missing_simulators_are_named_by_our_own_extra(library, id, extra, monkeypatch):
    for name in [one for one in sys.modules if one.startswith(("gymnasium.envs.mujoco", "gymnasium.envs.box2d"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    message = rf"^{id} needs libraries that are missing; install them: pip install '\.\[{extra}\]' in the "
    for given in (id, gym.spec(id)):
        with pytest.raises(gym.error.DependencyNotInstalled, match=message):
            make_registered(given)


def test_other_errors_of_environments_stay_theirs():
    def broken():
        raise ModuleNotFoundError("No module named 'theirs'", name="theirs")

    with pytest.raises(ModuleNotFoundError, match="No module named 'theirs'"):
        make_registered(EnvSpec("Broken-v0", entry_point=broken))
    assert make_registered("CartPole-v1").spec.id == "CartPole-v1"


@pytest.mark.parametrize(
    ("id", "message"),
    [
        ("nosuch_module:A-v0", "no module 'nosuch_module'; it was looked for .* and in the current folder, .*project"),
        ("json.nosuch:A-v0", "no module 'json.nosuch'"),
        ("nosuch_module.py:A-v0", r"no module 'nosuch_module'; leave out \.py: nosuch_module:A-v0"),
        ("beside.py:A-v0", r"no module 'beside.py'; leave out \.py: beside:A-v0"),
    ],
)
def test_unknown_module_error_names_search_path(id, message, tmp_path, monkeypatch):
    here = tmp_path / "project"
    here.mkdir()
    (here / "beside.py").touch()
    monkeypatch.chdir(here)
    monkeypatch.syspath_prepend(here)
    with pytest.raises(ModuleNotFoundError, match=f"^{id}: the part before the colon is a module, .* {message}"):
        find_spec(id)
    sys.modules.pop("beside", None)


def test_a_library_that_a_module_lacks_keeps_its_error(tmp_path, monkeypatch):
    (tmp_path / "needs_another.py").write_text("import nosuch_library")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'nosuch_library'$"):
        find_spec("needs_another:A-v0")


def test_an_unknown_id_may_lack_its_module():
    with pytest.raises(gym.error.NameNotFound, match="MODULE:ID, such as my_module:NoSuchEnv-v0"):
        make_registered("NoSuchEnv-v0")
    with pytest.raises(gym.error.NamespaceNotFound, match="MODULE:ID, such as my_module:nosuch/Env-v0"):
        make_registered("nosuch/Env-v0")
