"""EnvPool's environments with rlfast's interface."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from rlfast.env import as_vector_env

envpool = pytest.importorskip("envpool")
pytestmark = pytest.mark.filterwarnings("ignore:.*precision lowered by casting:UserWarning")


def make(id="CartPole-v1", num_envs=4, **options):
    return envpool.make(id, env_type="gymnasium", num_envs=num_envs, num_threads=1, seed=3, **options)


def played(envs, steps, act):
    """Each environment's rows, ``(obs acted on, rew, obs_next, terminated, truncated)``, transitions only."""
    obs, _ = envs.reset_rows()
    latest, rows_of = dict(enumerate(obs)), {i: [] for i in range(envs.num_envs)}
    envs.send(act(envs, np.arange(envs.num_envs)))
    for _ in range(steps):
        rows = envs.recv()
        for k, i in enumerate(rows.env_id.tolist()):
            if rows.valid is None or rows.valid[k]:
                rows_of[i].append((latest[i], rows.rew[k], rows.obs_next[k], rows.terminated[k], rows.truncated[k]))
            latest[i] = rows.obs[k]
        envs.send(act(envs, rows.env_id), rows.env_id)
    while envs.waiting_id:
        envs.recv()
    return rows_of


def ones(envs, ids):
    return np.ones((len(ids), *envs.single_action_space.shape), envs.single_action_space.dtype)


@pytest.mark.pitfall("E1")
@pytest.mark.parametrize("options", [{}, {"batch_size": 2}, {"batch_size": 3}])
def test_transitions_match_gymnasium(options):
    envs = as_vector_env(make(max_episode_steps=7, **options))
    assert envs.is_async == bool(options)
    assert envs.autoreset_mode is AutoresetMode.NEXT_STEP
    model = gym.make("CartPole-v1", max_episode_steps=7)
    ended = 0
    for rows in played(envs, 40, ones).values():
        assert len(rows) > 10
        length = 0
        for k, (obs, rew, obs_next, terminated, truncated) in enumerate(rows):
            model.reset()
            model.unwrapped.state = obs.astype(np.float64)
            want, reward, over, _, _ = model.step(1)
            length += 1
            np.testing.assert_allclose(obs_next, want, atol=1e-5)
            assert (rew, terminated) == (reward, over)
            assert truncated == (length == 7 and not over)
            if terminated or truncated:
                length, ended = 0, ended + 1
            elif k + 1 < len(rows):
                np.testing.assert_array_equal(rows[k + 1][0], obs_next)
    assert ended > 4
    envs.close()
    assert envs.is_closed


@pytest.mark.parametrize(
    ("id", "obs", "dtype"),
    [
        ("Pendulum-v1", (3,), np.float32),
        ("FrozenLake-v1", (), np.int64),
        ("Hopper-v4", (11,), np.float64),
        ("Pong-v5", (4, 84, 84), np.uint8),
    ],
)
def test_kinds_of_environments(id, obs, dtype):
    envs = as_vector_env(make(id, 3))
    first, info = envs.reset()
    assert (first.shape, first.dtype) == ((3, *obs), dtype)
    assert info["elapsed_step"].tolist() == [0, 0, 0]
    assert info["_elapsed_step"].tolist() == [True] * 3
    second, rew, terminated, truncated, info = envs.step(envs.action_space.sample())
    assert (second.shape, second.dtype, rew.dtype) == ((3, *obs), dtype, np.float64)
    assert terminated.dtype == truncated.dtype == np.bool_
    assert "env_id" not in info
    assert (first == envs.reset_rows()[0]).all() or id != "Pong-v5"


def test_what_was_given_is_not_written_again():
    envs = as_vector_env(make())
    obs, _ = envs.reset()
    held = [obs, *(envs.step(np.ones(4, int))[0] for _ in range(5))]
    copies = [one.copy() for one in held]
    for _ in range(50):
        envs.step(np.zeros(4, int))
    np.testing.assert_array_equal(held, copies)


def test_some_of_them_in_the_order_asked():
    envs = as_vector_env(make())
    envs.reset()
    envs.send([1, 0], [3, 1])
    assert sorted(envs.recv().env_id.tolist()) == [1, 3]
    obs, info = envs.reset_rows([2, 0])
    assert obs.shape == (2, 4)
    assert info.columns()["elapsed_step"].tolist() == [0, 0]
    envs.send([0], [3])
    rows = envs.recv()
    assert rows.info.dicts() == [{"elapsed_step": 2}]


@pytest.mark.pitfall("E13")
def test_a_group_is_completed_where_fewer_are_stepping():
    envs = as_vector_env(make(num_envs=5, batch_size=3))
    obs, _ = envs.reset_rows()
    assert obs.shape == (5, 4)
    envs.send([1], [4])
    rows = envs.recv()
    assert rows.env_id.tolist() == [4]
    with pytest.raises(RuntimeError, match=r"environments \[0, 1\] were reset to complete a group of 3"):
        envs.send(np.ones(5, int))
    envs.reset_rows([0, 1, 3])  # a group of its own
    envs.send(np.ones(5, int))
    with pytest.raises(RuntimeError, match="are stepping"):
        envs.reset_rows([0])
    rows = [envs.recv(), envs.recv()]
    assert sorted(np.concatenate([one.env_id for one in rows]).tolist()) == [0, 1, 2, 3, 4]
    elapsed: dict[int, int] = {}
    for one in rows:
        elapsed |= zip(one.env_id.tolist(), one.info.columns()["elapsed_step"].tolist(), strict=True)
    assert elapsed == {0: 1, 1: 1, 2: 1, 3: 1, 4: 2}


@pytest.mark.pitfall("E4")
def test_lives_are_told_of_once():
    with pytest.warns(UserWarning, match="ends an episode at each lost life"):
        envs = as_vector_env(make("Breakout-v5", 2, episodic_life=True, noop_max=1, use_fire_reset=True))
    envs.reset()
    lives, over, valid = [], [], []
    for _ in range(60):
        envs.send(np.full(2, 2))
        rows = envs.recv()
        lives.append(rows.info.columns()["lives"][0])
        over.append(bool(rows.terminated[0]))
        valid.append(rows.valid is None or bool(rows.valid[0]))
    lost = [k for k in range(1, 60) if lives[k] < lives[k - 1]]
    assert lost
    assert [k for k in range(60) if over[k]] == lost
    assert [k for k in range(60) if not valid[k]] == [k + 1 for k in lost if k + 1 < 60]


@pytest.mark.pitfall("E4")
def test_unflagged_end_of_episode_is_noticed():
    """As EnvPool once did where a time limit was reached: what follows must not be joined to what was before."""
    pool = make(max_episode_steps=3)
    envs = as_vector_env(pool)
    receive, names = pool._recv, list(pool._state_keys)

    def mute():
        state = receive()
        for name in ("done", "trunc"):
            state[names.index(name)] = np.zeros(len(state[0]), bool)
        return state

    backend = envs._backend
    backend.env = type("Mute", (), {"__getattr__": lambda _, name: mute if name == "_recv" else getattr(pool, name)})()
    envs.reset()
    for _ in range(3):
        envs.send(np.ones(4, int))
        rows = envs.recv()
        assert rows.valid is None
    envs.send(np.ones(4, int))
    with pytest.warns(UserWarning, match="neither terminated nor truncated"):
        rows = envs.recv()
    assert rows.valid.tolist() == [False] * 4
    assert rows.truncated.tolist() == [True] * 4


def test_seeds_are_given_when_it_is_made():
    envs = as_vector_env(make())
    with pytest.warns(UserWarning, match="no seed when it is reset"):
        envs.reset(seed=1)
    envs.reset(seed=2)  # told once
    same = as_vector_env(make())
    np.testing.assert_array_equal(as_vector_env(make()).reset()[0], same.reset()[0])


def test_other_interfaces_are_refused():
    with pytest.raises(ValueError, match='env_type="gymnasium"'):
        as_vector_env(envpool.make("CartPole-v1", env_type="dm", num_envs=2))
