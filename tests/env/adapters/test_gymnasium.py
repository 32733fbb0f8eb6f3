"""Gymnasium's vector environments, and others with their interface, with rlfast's interface."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from env.beside import MODES, SPACES, Telling, run_beside
from rlfast.env import BaseVectorEnv, DummyVectorEnv, as_vector_env
from scripted import Scripted

ale_py = pytest.importorskip("ale_py")


def sync(*envs, mode="NextStep", **options):
    return as_vector_env(SyncVectorEnv([lambda env=env: env for env in envs], autoreset_mode=mode, **options))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("space", SPACES)
def test_what_gymnasium_says_is_said_again(space, mode):
    def make():
        return Telling(SPACES[space], spaces.Discrete(3))

    theirs = SyncVectorEnv([make] * 3, autoreset_mode=mode)
    ours = as_vector_env(SyncVectorEnv([make] * 3, autoreset_mode=mode))
    assert isinstance(ours, BaseVectorEnv)
    assert ours.autoreset_mode is ours.metadata["autoreset_mode"] is mode
    assert ours.observation_space == theirs.observation_space
    ours.action_space.seed(1)
    assert run_beside(ours, theirs, 25) > 5


def test_processes_of_gymnasium():
    envs = as_vector_env(AsyncVectorEnv([lambda: gym.make("CartPole-v1")] * 2, context="fork"))
    obs, _ = envs.reset(seed=3)
    np.testing.assert_array_equal(obs[1], gym.make("CartPole-v1").reset(seed=4)[0])
    envs.send(np.ones(2, int))
    assert envs.waiting_id == [0, 1]
    assert envs.recv().rew.tolist() == [1, 1]
    assert envs.get_env_attr("gravity", [1]) == [9.8]
    envs.set_env_attr("gravity", 5.0)
    assert envs.get_attr("gravity") == (5.0, 5.0)
    with pytest.raises(NotImplementedError, match="cannot set gravity"):
        envs.set_env_attr("gravity", 5.0, [0])
    envs.close()
    assert envs.is_closed


def test_step_some_reset_others():
    envs = sync(*(Scripted(9, actions=8) for _ in range(3)), mode="Disabled")
    envs.reset()
    envs.send([5, 6], [2, 0])
    rows = envs.recv()
    assert rows.env_id.tolist() == [2, 0]
    assert rows.obs.tolist() == [[0, 1], [0, 1]]
    assert [actions[0] for actions in envs.get_env_attr("actions")] == [6, 5, 5]  # 1 went along
    with pytest.raises(RuntimeError, match=r"environments \[1\] were stepped along with others"):
        envs.send([0, 0, 0])
    assert envs.reset_rows([1])[0].tolist() == [[1, 0]]
    assert envs.step([0, 0, 0])[0].tolist() == [[0, 2], [1, 1], [0, 2]]
    envs.send([0], [1])
    with pytest.raises(RuntimeError, match="steps all its environments together"):
        envs.send([0], [0])
    assert envs.recv().env_id.tolist() == [1]


def test_an_environment_that_can_only_reset_all():
    envs = as_vector_env(gym.make_vec("CartPole-v1", 3, vectorization_mode="vector_entry_point"))
    assert repr(envs) == "AdaptedVectorEnv(CartPole-v1, num_envs=3, gymnasium.CartPoleVectorEnv, NEXT_STEP)"
    envs.reset(seed=0)
    first, _ = envs.reset_rows([1])
    assert first.shape == (1, 4)
    with pytest.raises(RuntimeError, match=r"environments \[0, 2\] were stepped along"):
        envs.step(np.zeros(3, int))
    envs.reset_rows()
    held, *_ = envs.step(np.zeros(3, int))
    kept = held.copy()
    envs.step(np.zeros(3, int))
    np.testing.assert_array_equal(held, kept)  # nobody writes into what was given


class Odd(gym.vector.VectorEnv):
    """Truncates environment 0 and terminates environment 1 in every second step; says so in its own way."""

    def __init__(self, final=None, info=None, mode="same") -> None:
        self.num_envs, self.final, self.info = 3, final, info
        self.metadata = {} if mode is None else {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = spaces.Box(-99, 99, (1,), np.float32)
        self.single_action_space = spaces.Discrete(2)
        self.buffer = np.zeros((3, 1), np.float32)
        self.count = 0

    def reset(self, *, seed=None, options=None):
        self.count = 0
        self.buffer[:] = 0
        return self.buffer, {}

    def step(self, actions):
        self.count += 1
        over = self.count % 2 == 0
        self.buffer[:] = self.count
        infos = {}
        if over:
            infos = {
                key: value for key, value in (("final_obs", self.final), ("final_info", self.info)) if value is not None
            }
            self.buffer[:2] = 0
        ends, cuts = np.array([False, over, False]), np.array([over, False, False])
        return self.buffer, np.ones(3, np.float32), ends, cuts, infos


DENSE = np.array([[2], [2], [77]], np.float32)
SPARSE = np.array([np.array([2], np.float32), np.array([2], np.float32), None], dtype=object)


COLUMNS = {"a": np.array([1, 1, 0]), "_a": np.array([True, True, False])}
DICTS = np.array([{"a": 1}, {"a": 1}, None], dtype=object)


@pytest.mark.pitfall("E4")
@pytest.mark.parametrize("final", [DENSE, SPARSE], ids=["of all rows", "of those that ended"])
@pytest.mark.parametrize("info", [COLUMNS, DICTS], ids=["columns", "dicts"])
def test_final_observations_in_either_layout(final, info):
    envs = as_vector_env(Odd(final, info))
    envs.reset()
    envs.step([0, 0, 0])
    envs.send([0, 0, 0])
    rows = envs.recv()
    assert rows.obs_next.tolist() == [[2], [2], [2]]
    assert rows.obs.tolist() == [[0], [0], [2]]
    assert rows.final_info.dicts() == [{"a": 1}, {"a": 1}, {}]
    assert not rows.info
    assert rows.valid is None


@pytest.mark.pitfall("E4")
def test_missing_final_obs_warns_once():
    envs = as_vector_env(Odd())
    envs.reset()
    envs.step([0, 0, 0])
    envs.send([0, 0, 0])
    with pytest.warns(UserWarning, match=r"does not give the final observations of episodes \(infos\['final_obs'\]\)"):
        rows = envs.recv()
    assert rows.valid.tolist() == [False, True, True]  # what came after a terminated one does not matter
    assert rows.truncated.tolist() == [True, False, False]
    envs.step([0, 0, 0])
    envs.step([0, 0, 0])  # no second warning, which would be an error


@pytest.mark.pitfall("E4")
def test_unknown_autoreset_mode_warns_and_is_next_step():
    with pytest.warns(UserWarning, match="does not declare its autoreset mode"):
        envs = as_vector_env(Odd(mode=None))
    assert envs.autoreset_mode is AutoresetMode.NEXT_STEP


@pytest.mark.pitfall("E4")
@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_atari_of_ale(mode):
    def make(mode):
        return ale_py.AtariVectorEnv("pong", 2, autoreset_mode=mode, max_num_frames_per_episode=20, noop_max=0)

    envs = as_vector_env(make(mode))
    make(AutoresetMode.NEXT_STEP if mode is AutoresetMode.SAME_STEP else AutoresetMode.SAME_STEP)  # shares its metadata
    assert envs.autoreset_mode is mode
    first, _ = envs.reset_rows(seed=1)
    again, _ = envs.reset_rows([1], seed=1)
    assert first.shape == (2, 4, 84, 84)
    np.testing.assert_array_equal(again[0], first[1])
    seen = []
    for _ in range(8):
        envs.send(np.array([2, 3]))
        seen.append(envs.recv())
    over = next(k for k, rows in enumerate(seen) if rows.truncated.any())
    rows = seen[over]
    assert rows.truncated.tolist() == [True, True]
    assert rows.rew.dtype == np.float64
    assert not np.array_equal(rows.obs_next[0], first[0])
    np.testing.assert_array_equal(rows.obs_next[:, 0], seen[over - 1].obs[:, 1])  # the stack moved on by one frame
    if mode is AutoresetMode.SAME_STEP:
        np.testing.assert_array_equal(rows.obs[0], first[0])
    else:
        assert rows.obs is rows.obs_next
        assert seen[over + 1].valid.tolist() == [False, False]
    assert envs.reset()[1]["lives"].tolist() == [0, 0]


def test_what_cannot_be_driven():
    with pytest.raises(ValueError, match="answers in groups of 1 of 2 environments"):
        as_vector_env(ale_py.AtariVectorEnv("pong", 2, batch_size=1))
    with pytest.raises(TypeError, match="put single environments into a DummyVectorEnv"):
        as_vector_env(gym.make("CartPole-v1"))
    own = DummyVectorEnv([Scripted])
    assert as_vector_env(own) is own
