import warnings

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

from env.beside import assert_same
from rlfast.data import Batch, Collector, VectorReplayBuffer
from rlfast.env import DummyVectorEnv, PettingZooEnv, ShmemVectorEnv, SubprocVectorEnv
from rlfast.policy import MultiAgentPolicyManager, RandomPolicy

pytest.importorskip("pygame", reason="PettingZoo's board games draw with pygame")
classic = pytest.importorskip("pettingzoo.classic.tictactoe_v3")
from pettingzoo import AECEnv, ParallelEnv  # noqa: E402 (after the check that it is installed)
from pettingzoo.utils import parallel_to_aec  # noqa: E402

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
        return Discrete(2 if agent == "a" else 3)

    action_space = observation_space


def test_agents_of_different_kinds_are_refused():
    with pytest.raises(AssertionError, match=r"that of a is Discrete\(2\) and that of b is Discrete\(3\)"):
        PettingZooEnv(Uneven())
    Uneven.action_space = Uneven.observation_space = lambda *_: Discrete(2)
    with pytest.raises(ValueError, match="agents of a Uneven act at once: use pettingzoo"):
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


class Lives(ParallelEnv):
    """Agents a, b, c that play ``lives`` rounds each, with rewards t, 10 t and 100 t; those in ``cut`` are cut off."""

    metadata: dict = {"name": "lives", "is_parallelizable": True}
    possible_agents = ["a", "b", "c"]
    render_mode = None

    def __init__(self, lives, cut="", masked=False):
        self.lives, self.cut, self.masked = dict(zip("abc", lives, strict=True)), cut, masked

    def observation_space(self, agent):
        box = Box(0, 99, (2,), np.float32)
        return Dict({"observation": box, "action_mask": Box(0, 1, (3,), np.int8)}) if self.masked else box

    def action_space(self, agent):
        return Discrete(3)

    def observe_all(self, agents):
        seen = {agent: np.array([self.t, "abc".index(agent)], np.float32) for agent in agents}
        if self.masked:
            mask = {agent: np.arange(3) != "abc".index(agent) for agent in agents}
            seen = {agent: {"observation": seen[agent], "action_mask": mask[agent].astype(np.int8)} for agent in agents}
        return seen

    def reset(self, seed=None, options=None):
        self.t, self.agents = 0, [*"abc"]
        return self.observe_all(self.agents), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.t += 1
        live = self.agents
        over = {agent: self.t >= self.lives[agent] for agent in live}
        self.agents = [agent for agent in live if not over[agent]]
        ends = ({agent: over[agent] and (agent in self.cut) is kind for agent in live} for kind in (False, True))
        rewards = {agent: self.t * 10.0 ** "abc".index(agent) for agent in live}
        return self.observe_all(live), rewards, *ends, {agent: {} for agent in live}


class Knockout(AECEnv):
    """Agents a, b, c act one by one; a is knocked out by b's second turn, b by its own third. c plays four turns."""

    metadata: dict = {"name": "knockout"}
    possible_agents = ["a", "b", "c"]
    render_mode = None

    def observation_space(self, agent):
        return Box(0, 99, (2,), np.float32)

    def action_space(self, agent):
        return Discrete(3)

    def observe(self, agent):
        return np.array([self.turns[agent], "abc".index(agent)], np.float32)

    def reset(self, seed=None, options=None):
        self.agents = [*"abc"]
        self.turns = dict.fromkeys(self.agents, 0)
        for name, value in (("rewards", 0.0), ("terminations", False), ("truncations", False)):
            setattr(self, name, dict.fromkeys(self.agents, value))
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = "a"

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        self.turns[agent] += 1
        self._clear_rewards()
        self.rewards[agent] = 1.0
        if agent == "b" and self.turns["b"] == 2:
            self.terminations["a"] = True
            self.rewards["a"] -= 5.0
        if (agent == "b" and self.turns["b"] == 3) or (agent == "c" and self.turns["c"] == 4):
            self.terminations[agent] = True
        order = self.agents
        self.agent_selection = order[(order.index(agent) + 1) % len(order)]
        self._deads_step_first()


def played(env):
    """The agents in the order of their turns, the summed rewards, and the last step."""
    obs, _ = env.reset()
    turns, total = [], 0.0
    for _ in range(99):
        turns.append(obs["agent_id"])
        obs, rew, terminated, truncated, info = last = env.step(0)
        total = total + rew
        if terminated or truncated:
            return "".join(turns), total.tolist(), last
        assert info["terminations"].shape == (3,)
        assert env.env.agent_selection == obs["agent_id"]
        assert not info["terminations"]["abc".index(obs["agent_id"])]
    raise AssertionError("the game does not end")


@pytest.mark.parametrize(
    ("lives", "turns"),
    [
        ((2, 3, 4), "abcabcbcc"),
        ((4, 3, 2), "abcabcaba"),
        ((1, 3, 1), "abcbb"),
        ((3, 1, 3), "abcacac"),
        ((2, 2, 2), "abcabc"),
        ((1, 1, 5), "abccccc"),
    ],
)
@pytest.mark.parametrize("masked", [False, True])
def test_survivors_play_on(lives, turns, masked):
    env = PettingZooEnv(parallel_to_aec(Lives(lives, masked=masked)))
    for _ in range(2):  # a second game is as the first
        seen, total, (_, _, terminated, truncated, info) = played(env)
        assert seen == turns
        assert total == [10**k * n * (n + 1) / 2 for k, n in enumerate(lives)]
        assert (terminated, truncated) == (True, False)
        assert info["terminations"].tolist() == [True] * 3
        assert not info["truncations"].any()


def test_agents_are_knocked_out_in_any_turn():
    env = PettingZooEnv(Knockout())
    turns, total, (_, _, terminated, truncated, info) = played(env)
    assert turns == "abcabcbcc"
    assert total == [2 - 5, 3, 4]
    assert (terminated, truncated, info["terminations"].tolist()) == (True, False, [True] * 3)


@pytest.mark.parametrize(("cut", "truncated"), [("c", True), ("bc", True), ("a", False), ("ab", False), ("", False)])
def test_a_game_is_truncated_if_its_last_agents_are(cut, truncated):
    _, _, (*_, terminated, was_cut, info) = played(PettingZooEnv(parallel_to_aec(Lives((2, 3, 4), cut))))
    assert (terminated, was_cut) == (not truncated, truncated)
    assert info["truncations"].tolist() == [agent in cut for agent in "abc"]


def test_masks_are_those_of_the_agent_that_acts():
    env = PettingZooEnv(parallel_to_aec(Lives((1, 2, 3), masked=True)))
    obs, _ = env.reset()
    for agent in "abcbcc":
        assert obs["agent_id"] == agent
        assert np.flatnonzero(~obs["mask"]).tolist() == ["abc".index(agent)]
        assert obs["obs"][1] == "abc".index(agent)
        obs = env.step(int(np.flatnonzero(obs["mask"])[0]))[0]


class Stays(Knockout):
    """An agent that has terminated is never removed."""

    def step(self, action):
        self.terminations["a"] = True
        self.agent_selection = "a"


def test_an_agent_that_acts_after_its_end_is_refused():
    env = PettingZooEnv(Stays())
    with pytest.raises(ValueError, match=r"a has a turn again after its end, while \['b', 'c'\] are playing"):
        env.step(0)


@pytest.mark.parametrize("kind", [DummyVectorEnv, SubprocVectorEnv])
def test_collectors_see_whole_games(kind):
    def make():
        return PettingZooEnv(parallel_to_aec(Lives((2, 3, 4))))

    policy = MultiAgentPolicyManager(policies=[RandomPolicy(action_space=Discrete(3)) for _ in "abc"], env=make())
    buffer = VectorReplayBuffer(80, 2)
    envs = kind([make] * 2)
    result = Collector(policy, envs, buffer).collect(n_episode=2)
    envs.close()
    assert (result.returns.tolist(), result.lens.tolist()) == ([[3, 60, 1000]] * 2, [9, 9])
    rows, _ = buffer.sample(0)
    assert "".join(rows.obs.agent_id.tolist()) == "abcabcbcc" * 2
    assert np.flatnonzero(rows.terminated).tolist() == [8, 17]


def test_agents_learn_that_their_own_game_is_over():
    def processed(cut):
        env = PettingZooEnv(parallel_to_aec(Lives((2, 3, 4), cut)))
        policy = MultiAgentPolicyManager(policies=[RandomPolicy(action_space=Discrete(3)) for _ in "abc"], env=env)
        buffer = VectorReplayBuffer(40, 1)
        Collector(policy, DummyVectorEnv([lambda: env]), buffer).collect(n_episode=1)
        own = policy.process_fn(*buffer.sample(0)[:1], buffer, buffer.sample_indices(0))
        return {agent: own[agent] for agent in "abc"}

    own = processed("")
    assert [own[agent].rew.tolist() for agent in "abc"] == [[1, 2], [10, 20, 30], [100, 200, 300, 400]]
    assert [own[agent].terminated.tolist() for agent in "abc"] == [[n == k for n in range(1, k + 1)] for k in (2, 3, 4)]
    assert not any(own[agent].truncated.any() for agent in "abc")
    cut = processed("ac")  # a is cut off in a game that goes on: what it would see next is not known
    assert (cut["a"].rew.tolist(), cut["a"].done.tolist()) == ([1], [False])
    assert cut["b"].terminated.tolist() == [False, False, True]
    assert (cut["c"].truncated.tolist(), cut["c"].terminated.any()) == ([False] * 3 + [True], False)
