import pickle

import gymnasium as gym

from rlfast.env import PettingZooEnv, utils
from rlfast.env.venvs import GYM_RESERVED_KEYS, DummyVectorEnv
from scripted import Scripted


def test_types_of_environments_exist_at_run_time():
    assert isinstance(Scripted(), utils.ENV_TYPE)
    assert issubclass(PettingZooEnv, utils.ENV_TYPE)
    assert not isinstance(gym.spaces.Discrete(2), utils.ENV_TYPE)
    assert len(utils.gym_new_venv_step_type.__args__) == 5


def test_functions_go_through_pickle():
    length = 7
    make = pickle.loads(pickle.dumps(utils.CloudpickleWrapper(lambda: Scripted(length)))).data
    assert make().length == 7


def test_reserved_names_are_lists():
    envs = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 2)
    for name in set(GYM_RESERVED_KEYS) - {"reward_range"}:  # Gymnasium has it no more
        assert len(getattr(envs, name)) == 2
