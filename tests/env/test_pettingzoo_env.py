import warnings

import numpy as np
import pytest

from env.beside import assert_same
from rlfast.data import Batch, VectorReplayBuffer
from rlfast.env import DummyVectorEnv, PettingZooEnv, ShmemVectorEnv, SubprocVectorEnv

pytest.importorskip("pygame", reason="PettingZoo's board games draw with pygame")
classic = pytest.importorskip("pettingzoo.classic.tictactoe_v3")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_a_game_of_noughts_and_crosses():
    env = PettingZooEnv(classic.env())
    assert env.agents == ["player_1", "player_2"]
    assert env.action_space.n == 9
    assert env.observation_space["observation"].shape == (3, 3, 2)
    obs, info = env.reset(seed=0)
    assert info == {}
    assert (obs["agent_id"], obs["obs"].shape, obs["mask"].tolist()) == ("player_1", (3, 3, 2), [True] * 9)
    turns = []
    for action in (0, 3, 1, 4):
        obs, rew, terminated, truncated, _ = env.step(action)
        turns.append(obs["agent_id"])
        assert (rew.tolist(), terminated, truncated) == ([0, 0], False, False)
    assert turns == ["player_2", "player_1"] * 2
    assert np.flatnonzero(~obs["mask"]).tolist() == [0, 1, 3, 4]
    obs, rew, terminated, _, _ = env.step(2)  # three in a row for the one who began
    assert terminated
    assert rew.tolist() == [1, -1]
    obs, _ = env.reset()
    assert obs["mask"].all()
    env.close()


def test_several_games_at_once():
    envs = DummyVectorEnv([lambda: PettingZooEnv(classic.env())] * 2)
    obs, _ = envs.reset()
    assert [one["agent_id"] for one in obs] == ["player_1", "player_1"]
    obs, rew, *_, infos = envs.step([4, 0])
    assert rew.shape == (2, 2)
    assert [one["agent_id"] for one in obs] == ["player_2", "player_2"]
    assert [np.flatnonzero(~one["mask"]).tolist() for one in obs] == [[4], [0]]
    assert [info["env_id"] for info in infos] == [0, 1]
    obs, _ = envs.reset([1])
    assert obs[0]["mask"].all()


def test_an_illegal_move_loses():
    env = PettingZooEnv(classic.env())
    env.reset()
    env.step(4)
    _, rew, terminated, truncated, _ = env.step(4)
    assert terminated or truncated
    assert rew.tolist() == [0, -1]


def test_rewards_of_all_agents_are_stored():
    envs = DummyVectorEnv([lambda: PettingZooEnv(classic.env())])
    buffer = VectorReplayBuffer(20, 1)
    obs, _ = envs.reset()
    for action in (0, 3, 1, 4, 2):
        rows = dict(Batch(list(obs)))
        obs, rew, terminated, truncated, _ = envs.step([action])
        buffer.add(
            Batch(
                obs=rows,
                act=np.array([action]),
                rew=rew,
                terminated=terminated,
                truncated=truncated,
                obs_next=dict(Batch(list(obs))),
                info={},
            ),
            buffer_ids=[0],
        )
    assert buffer.rew[:5].tolist() == [[0, 0]] * 4 + [[1, -1]]
    assert buffer.obs.agent_id[:5].tolist() == ["player_1", "player_2"] * 2 + ["player_1"]


class Uneven:
    """Two agents who see different things."""

    possible_agents = ("a", "b")
    metadata: dict = {}

    def observation_space(self, agent):
        from gymnasium.spaces import Discrete

        return Discrete(2 if agent == "a" else 3)

    action_space = observation_space


def test_agents_of_different_kinds_are_refused():
    with pytest.raises(AssertionError, match=r"that of a is Discrete\(2\) and that of b is Discrete\(3\)"):
        PettingZooEnv(Uneven())


@pytest.mark.parametrize("kind", [SubprocVectorEnv, ShmemVectorEnv])
def test_games_in_worker_processes_say_the_same(kind):
    def play(envs):
        answers = [envs.reset(seed=3)]
        answers += [envs.step(actions) for actions in ([4, 0], [0, 4], [1, 1], [7, 2])]
        answers.append(envs.reset([1]))
        envs.close()
        return answers

    fns = [lambda: PettingZooEnv(classic.env())] * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # nothing is odd about it
        got = play(kind(fns))
    for ours, want in zip(got, play(DummyVectorEnv(fns)), strict=True):
        assert_same(
            [[*row.items()] if isinstance(row, dict) else row for row in ours[0]], [[*row.items()] for row in want[0]]
        )
        assert_same(list(ours[1:]), list(want[1:]))
