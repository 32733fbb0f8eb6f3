import sys

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec

from rlfast.env import NativeVectorEnv
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
        assert NativeVectorEnv(id, 1).spec is None


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
    message = f'^{id} needs libraries that are missing; install them: pip install "rlfast\\[{extra}\\]"$'
    for given in (id, gym.spec(id)):
        with pytest.raises(gym.error.DependencyNotInstalled, match=message):
            make_registered(given)


def test_other_errors_of_environments_stay_theirs():
    def broken():
        raise ModuleNotFoundError("No module named 'theirs'", name="theirs")

    with pytest.raises(ModuleNotFoundError, match="No module named 'theirs'"):
        make_registered(EnvSpec("Broken-v0", entry_point=broken))
    assert make_registered("CartPole-v1").spec.id == "CartPole-v1"
