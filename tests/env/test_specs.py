import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec

from rlfast.env import NativeVectorEnv
from rlfast.env.native import ids
from rlfast.env.specs import find_spec, why_not_native


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
