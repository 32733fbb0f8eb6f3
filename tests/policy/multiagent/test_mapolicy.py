"""Several agents with policies of their own, in games of turns."""

import copy
import pickle
from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch.optim.lr_scheduler import ExponentialLR

from rlfast.data import (
    Batch,
    CachedReplayBuffer,
    Collector,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
)
from rlfast.env import DummyVectorEnv, PettingZooEnv, ShmemVectorEnv, SubprocVectorEnv
from rlfast.experiment.checkpoint import load_checkpoint, save_checkpoint
from rlfast.policy import DQNPolicy, MultiAgentPolicyManager, PPOPolicy, RandomPolicy
from rlfast.policy.base import BasePolicy, TrainingStats
from rlfast.policy.multiagent.agent_rows import AgentRows
from rlfast.policy.multiagent.mapolicy import MapTrainingStats
from rlfast.trainer import OffpolicyTrainer, OnpolicyTrainer
from rlfast.utils.net.common import ActorCritic, Net, Recurrent
from rlfast.utils.net.discrete import Actor, Critic
from rlfast.utils.optim import adam

AGENTS = ("a", "b", "c")


class Turns(gym.Env):
    """Three agents act in turn, until 7 actions are over. What an agent sees counts the actions before its own."""

    agents = list(AGENTS)
    agent_idx = {agent: i for i, agent in enumerate(AGENTS)}
    action_space = gym.spaces.Discrete(4)
    observation_space = gym.spaces.Box(0, 10, (2,))
    shows_its_space = False
    masked = False
    limit = 7
    cut = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self.observe(), {}

    def step(self, action):
        self.count += 1
        rew = np.array([1.0, 10.0, 100.0]) * self.count
        over = self.count == self.limit
        return self.observe(), rew, over and not self.cut, over and self.cut, {}

    def observe(self):
        place = self.count % 3
        obs = {"agent_id": AGENTS[place], "obs": np.array([self.count, place], np.float32)}
        return obs | {"mask": np.arange(4) != self.count % 4} if self.masked else obs


class Masked(Turns):
    masked = True


class Cut(Turns):
    cut = True


class Recorder(BasePolicy):
    """Keeps what it is given."""

    def __init__(self, number=0):
        super().__init__(action_space=Turns.action_space)
        self.number = number
        self.given, self.updates = [], []

    def forward(self, batch, state=None, **kwargs):
        self.given.append(batch)
        return Batch(act=np.full(len(batch.obs), self.number))

    def exploration_noise(self, act, batch):
        return act + len(batch.obs) * 10

    def process_fn(self, batch, buffer, indices):
        self.buffer = buffer
        batch.mark = indices
        return batch

    def learn(self, batch, *args, **kwargs):
        self.updates.append((batch, kwargs))
        stats = TrainingStats()
        stats.loss = float(self.number)
        return stats


def recorded(env=Turns, steps=12, environments=1, buffer=None, **options):
    policies = [Recorder(i) for i in range(3)]
    buffer = VectorReplayBuffer(90, environments) if buffer is None else buffer
    manager = MultiAgentPolicyManager(policies=policies, env=Turns(), **options)
    collector = Collector(manager, DummyVectorEnv([env] * environments), buffer)
    collector.collect(n_step=steps)
    return manager, policies, collector


def test_each_acts_in_its_turn():
    _, policies, collector = recorded(steps=12)
    assert collector.buffer.act[:12].tolist() == [0, 1, 2, 0, 1, 2, 0, 0, 1, 2, 0, 1]
    seen = np.concatenate([batch.obs for batch in policies[1].given])
    assert seen.tolist() == [[1, 1], [4, 1], [1, 1], [4, 1]]  # without mask, obs.obs alone
    assert [policy.agent_id for policy in policies] == list(AGENTS)


def test_environments_with_different_turns():
    manager, policies, _ = recorded(steps=3)
    obs = Batch(agent_id=np.array(["c", "a", "c", "b"]), obs=np.arange(8.0).reshape(4, 2))
    result = manager(Batch(obs=obs, info={}))
    assert result.act.tolist() == [2, 0, 2, 1]
    assert policies[2].given[-1].obs.tolist() == [[0, 1], [4, 5]]
    assert set(result.out.keys()) == set(AGENTS)
    act = np.zeros(4, int)
    assert manager.exploration_noise(act, Batch(obs=obs, info={})).tolist() == [20, 10, 20, 10]
    assert act.tolist() == [0] * 4
    with pytest.raises(ValueError, match=r"agent_id \['d'\]: there are policies for \['a', 'b', 'c'\]"):
        manager(Batch(obs=Batch(agent_id=np.array(["d"]), obs=np.zeros((1, 2))), info={}))
    with pytest.raises(AssertionError, match="observations must have agent_id"):
        manager(Batch(obs=np.zeros((1, 2)), info={}))


def test_the_mask_is_seen():
    _, policies, _ = recorded(Masked, steps=2)
    assert policies[1].given[0].obs.mask.tolist() == [[True, False, True, True]]
    assert policies[1].given[0].obs.obs.tolist() == [[1, 1]]


@pytest.mark.pitfall("tianshou-marl-rewards-of-others")
@pytest.mark.pitfall("tianshou-marl-next-observation")
@pytest.mark.pitfall("tianshou-marl-end-of-episode")
@pytest.mark.parametrize("env", [Turns, Cut, Masked])
def test_transitions_go_from_turn_to_turn(env):
    manager, _, collector = recorded(env, steps=12)
    batch, indices = collector.buffer.sample(0)
    rewards = collector.buffer.rew.copy()
    processed = manager.process_fn(batch, collector.buffer, indices)
    a, b, c = (processed[agent] for agent in AGENTS)
    assert a.indices.tolist() == a.mark.tolist() == [0, 3, 6, 7]  # what follows row 10 is not known yet
    assert a.rew.tolist() == [1 + 2 + 3, 4 + 5 + 6, 7, 1 + 2 + 3]
    assert b.indices.tolist() == [1, 4, 8]
    assert b.rew.tolist() == [10 * (2 + 3 + 4), 10 * (5 + 6 + 7), 10 * (2 + 3 + 4)]
    assert c.indices.tolist() == [2, 5, 9]
    assert c.rew.tolist() == [100 * (3 + 4 + 5), 100 * (6 + 7), 100 * (3 + 4 + 5)]
    inner = (lambda obs: obs.obs) if env is Masked else (lambda obs: obs)
    assert inner(a.obs)[:, 0].tolist() == [0, 3, 6, 0]
    assert inner(a.obs_next)[:, 0].tolist() == [3, 6, 7, 3]
    assert inner(b.obs_next)[:, 0].tolist() == [4, 7, 4]
    ends = {"a": [0, 0, 1, 0], "b": [0, 1, 0], "c": [0, 1, 0]}
    for agent, want in ends.items():
        flags = processed[agent].truncated if env is Cut else processed[agent].terminated
        none = processed[agent].terminated if env is Cut else processed[agent].truncated
        assert flags.tolist() == processed[agent].done.tolist() == [bool(one) for one in want]
        assert not none.any()
    np.testing.assert_array_equal(collector.buffer.rew, rewards)


def agent_rows(agent="a", steps=12, env=Turns, **options):
    *_, collector = recorded(env, steps=steps, **options)
    return AgentRows(collector.buffer, agent, AGENTS.index(agent))


def test_the_buffer_as_an_agent_knows_it():
    rows = agent_rows("a", steps=12)
    assert rows.next(np.array([0, 3, 6, 7, 10])).tolist() == [3, 6, 6, 10, 10]
    assert rows.prev(np.array([0, 3, 6, 7, 10])).tolist() == [0, 0, 3, 7, 7]
    assert rows.unfinished_index().tolist() == [7]
    assert rows.rew[:12].tolist() == [6, 0, 0, 15, 0, 0, 7, 6, 0, 0, 9, 0]
    assert np.flatnonzero(rows.done).tolist() == np.flatnonzero(rows.terminated).tolist() == [6]
    assert not rows.truncated.any()
    assert rows[np.array([3])].obs_next.tolist() == rows.get(np.array([3]), "obs_next").tolist() == [[6, 0]]
    assert rows.get(np.array([0, 3]), "rew").tolist() == [6, 15]
    assert rows.get(3, "obs").tolist() == [[3, 0]]
    assert (len(rows), rows.maxsize, rows.stack_num) == (12, 90, 1)
    assert agent_rows("b", steps=12).unfinished_index().tolist() == [8]
    assert agent_rows("b", steps=14).unfinished_index().tolist() == []
    assert agent_rows("c", steps=13).unfinished_index().tolist() == [12 - 3]
    assert agent_rows("c", steps=8).unfinished_index().tolist() == []
    assert len(copy.deepcopy(rows)) == len(pickle.loads(pickle.dumps(rows))) == 12


def test_the_newest_row_without_a_next_observation_is_left_out():
    for steps in (12, 13, 14):
        known, read = (
            agent_rows("b", steps, buffer=VectorReplayBuffer(90, 1, ignore_obs_next=ignored)) for ignored in (0, 1)
        )
        mine = np.flatnonzero(known._acts(np.arange(steps)))
        assert read.turns(mine).known.tolist() == known.turns(mine).known.tolist()
        known._buffer.set_batch(Batch({k: v for k, v in known._buffer._meta.items() if k != "info"}))
        assert known.turns(mine).terminated.tolist() == read.turns(mine).terminated.tolist()


def test_sums_of_rewards_over_turns():
    rows = agent_rows("a", steps=12)
    total, discount, last = rows.nstep(np.array([0, 3, 6, 7]), 2, 0.5)
    assert total.tolist() == [6 + 0.5 * 15, 15 + 0.5 * 7, 7, 6]
    assert discount.tolist() == [0.25, 0, 0, 0.5]
    assert last.tolist() == [3, 6, 6, 7]
    assert rows.get(last, "obs_next")[:, 0].tolist() == [6, 7, 7, 3]
    total, discount, last = rows.nstep(np.array([0]), 9, 0.5)
    assert (total.tolist(), discount.tolist(), last.tolist()) == ([6 + 7.5 + 1.75], [0], [6])
    cut = agent_rows("a", steps=12, env=Cut)
    assert cut.nstep(np.array([3, 6]), 2, 0.5)[1].tolist() == [0.25, 0.5]
    assert np.flatnonzero(cut.done).tolist() == np.flatnonzero(cut.truncated).tolist() == [6]


@pytest.mark.parametrize("environments", [1, 2])
def test_every_row_as_a_program_that_reads_episodes_finds_it(environments):
    class Drawn(Turns):
        """Whose turn it is, the rewards, and when an episode ends are drawn."""

        def reset(self, *, seed=None, options=None):
            self.count, self.place = 0, self.np_random.integers(3)
            return self.observe(), {}

        def step(self, action):
            self.count += 1
            self.place = self.np_random.integers(3)
            end = self.np_random.random() < 0.15
            cut = self.np_random.random() < 0.5
            return self.observe(), self.np_random.normal(size=3), bool(end and not cut), bool(end and cut), {}

        def observe(self):
            return {"agent_id": AGENTS[self.place], "obs": self.np_random.normal(size=2)}

    manager, _, collector = recorded(
        Drawn, steps=200, buffer=VectorReplayBuffer(90, environments), environments=environments
    )
    buffer = collector.buffer
    all_rows, indices = buffer.sample(0)
    processed = manager.process_fn(all_rows, buffer, indices)
    names, found = buffer.get(indices, "obs").agent_id, {agent: {} for agent in AGENTS}
    for start, row in enumerate(indices):
        agent, place = names[start], AGENTS.index(names[start])
        total, now = 0.0, row
        while True:
            total += buffer.rew[now, place]
            after = buffer.get(np.array([now]), "obs_next")
            if buffer.done[now] or after.agent_id[0] == agent or buffer.next(now) == now:
                break
            now = int(buffer.next(now))
        if buffer.done[now] or after.agent_id[0] == agent:
            found[agent][row] = (total, after.obs[0], buffer.terminated[now], buffer.truncated[now])
    for agent in AGENTS:
        own = processed[agent]
        assert own.indices.tolist() == [*found[agent]]
        for i, (total, obs_next, terminated, truncated) in enumerate(found[agent].values()):
            assert own.rew[i] == pytest.approx(total)
            np.testing.assert_array_equal(own.obs_next[i], obs_next)
            assert (own.terminated[i], own.truncated[i]) == (terminated, truncated)
        view, rows = AgentRows(buffer, agent, AGENTS.index(agent)), [*found[agent]]
        later = view.next(np.array(rows))
        for row, after in zip(rows, later, strict=True):
            if after != row:
                assert names[indices.tolist().index(after)] == agent
                assert view.prev(np.array([after]))[0] == row
    assert all(len(found[agent]) > 10 for agent in AGENTS)


def test_statistics_by_agent():
    manager, policies, collector = recorded(steps=12)
    stats = manager.update(0, collector.buffer, batch_size=5)
    assert stats.get_loss_stats_dict() == {"a/loss": 0.0, "b/loss": 1.0, "c/loss": 2.0}
    assert policies[0].updates[0][1] == {"batch_size": 5}
    assert stats.train_time > 0
    given = {agent: TrainingStats(train_time=time) for agent, time in (("a", 1.0), ("b", 5.0))}
    assert MapTrainingStats(given).train_time == 5
    assert MapTrainingStats(given, "min").train_time == 1
    assert MapTrainingStats(given, "mean").train_time == 3
    with pytest.raises(ValueError, match="must be one of"):
        MapTrainingStats(given, "sum")
    assert MapTrainingStats({}).train_time == 0


def test_agents_without_rows_do_not_learn():
    manager, policies, collector = recorded(steps=2)
    stats = manager.update(0, collector.buffer)
    assert [len(policy.updates) for policy in policies] == [0, 0, 0]
    assert stats.get_loss_stats_dict() == {}
    manager, policies, collector = recorded(steps=3)
    manager.update(0, collector.buffer)
    assert [len(policy.updates) for policy in policies] == [1, 0, 0]


def dqn(target_update_freq=3, **options):
    net = Net(2, 4, hidden_sizes=[16])
    return DQNPolicy(
        model=net, optim=adam(1e-2), action_space=Turns.action_space, target_update_freq=target_update_freq, **options
    )


def ppo():
    actor, critic = Actor(Net(2, hidden_sizes=[16]), 4, softmax_output=False), Critic(Net(2, hidden_sizes=[16]))
    return PPOPolicy(
        actor=actor,
        critic=critic,
        optim=torch.optim.Adam(ActorCritic(actor, critic).parameters(), lr=1e-2),
        dist_fn=lambda logits: torch.distributions.Categorical(logits=logits),
        action_space=Turns.action_space,
        action_scaling=False,
    )


def trainer(kind=OffpolicyTrainer, make=dqn, env=Turns, buffer=VectorReplayBuffer, envs=DummyVectorEnv, **options):
    torch.manual_seed(0)
    policies = [make(), make(), RandomPolicy(action_space=Turns.action_space)]
    for policy in policies[:2]:
        if isinstance(policy, DQNPolicy):
            policy.set_eps(0.3)
    manager = MultiAgentPolicyManager(policies=policies, env=Turns())
    manager.seed(0)
    train, test = envs([env] * 2), envs([env] * 2)
    train.seed(0)
    test.seed(9)
    more = {"alpha": 0.6, "beta": 0.4} if buffer is PrioritizedVectorReplayBuffer else {}
    given = {
        "policy": manager,
        "max_epoch": 2,
        "batch_size": 16,
        "train_collector": Collector(manager, train, buffer(120, 2, seed=0, **more), exploration_noise=True),
        "test_collector": Collector(manager, test),
        "step_per_epoch": 60,
        "step_per_collect": 20,
        "episode_per_test": 4,
        "test_in_train": False,
        "verbose": False,
        "show_progress": False,
        "reward_metric": lambda returns: returns[:, 0],
    }
    given |= {"repeat_per_collect": 2} if kind is OnpolicyTrainer else {"update_per_step": 0.25}
    return kind(**given | options)


def weights(policy):
    return [parameter.detach().clone() for parameter in policy.parameters()]


@pytest.mark.parametrize("env", [Turns, Masked])
@pytest.mark.parametrize("make", [dqn, ppo])
def test_all_of_them_learn(make, env):
    run = trainer(OnpolicyTrainer if make is ppo else OffpolicyTrainer, make, env)
    manager = run.policy
    before = [weights(policy) for policy in manager.policies.values()]
    stats = [*run][-1]
    for agent, old in zip("ab", before, strict=False):
        assert not any(
            torch.equal(one, other) for one, other in zip(old, weights(manager.policies[agent]), strict=True)
        )
    losses = stats.training_stat.get_loss_stats_dict()
    assert {name.split("/")[0] for name in losses} == {"a", "b"}
    assert stats.test_collect_stat.returns_stat.mean == 28  # of agent a


def test_kinds_that_differ_learn_together():
    torch.manual_seed(0)
    manager = MultiAgentPolicyManager(
        policies=[ppo(), dqn(), RandomPolicy(action_space=Turns.action_space)], env=Turns()
    )
    collector = Collector(manager, DummyVectorEnv([Turns] * 2), VectorReplayBuffer(100, 2))
    collector.collect(n_step=60)
    losses = manager.update(0, collector.buffer, batch_size=8, repeat=2).get_loss_stats_dict()
    assert {"a/clip_loss", "b/loss"} <= losses.keys() or {"a/loss", "b/loss"} <= losses.keys()


@pytest.mark.pitfall("tianshou-marl-priorities")
def test_priorities_are_those_of_each_agent():
    run = trainer(buffer=PrioritizedVectorReplayBuffer)
    run.run()
    buffer = run.train_collector.buffer
    batch, indices = buffer.sample(0)
    names = batch.obs.agent_id
    priority = buffer.weight[indices]
    assert len(np.unique(priority[names == "a"])) > 3
    assert len(np.unique(priority[names == "c"])) <= 3  # a random policy changes none


@pytest.mark.parametrize("kind", [SubprocVectorEnv, ShmemVectorEnv])
def test_worker_processes_make_no_difference(kind):
    here, there = trainer(), trainer(envs=kind)
    here.run()
    there.run()
    for one, other in zip(weights(here.policy), weights(there.policy), strict=True):
        assert torch.equal(one, other)
    there.train_collector.close()
    there.test_collector.close()


def test_other_buffers():
    for buffer in (ReplayBuffer(50), CachedReplayBuffer(ReplayBuffer(40), 1, 10)):
        manager, _, collector = recorded(steps=30, buffer=buffer)
        batch, indices = collector.buffer.sample(0)
        own = manager.process_fn(batch, collector.buffer, indices).a
        whole = own.obs[:, 0] == 3
        assert set(own.rew[whole]) == {15.0}


@pytest.mark.pitfall("tianshou-marl-parameters-not-registered")
def test_the_state_of_all_agents_is_saved(tmp_path):
    first = trainer(max_epoch=1)
    first.run()
    save_checkpoint(tmp_path / "checkpoint", first, allow_pickle=True)
    whole, resumed = trainer(max_epoch=2), trainer(max_epoch=2)
    whole.run()
    assert load_checkpoint(tmp_path / "checkpoint", resumed, allow_pickle=True) == []  # with the games as they were
    assert all(torch.equal(*pair) for pair in zip(weights(first.policy), weights(resumed.policy), strict=True))
    resumed.run()
    assert len(weights(whole.policy)) == 16  # of the two networks and their targets
    for one, other in zip(weights(whole.policy), weights(resumed.policy), strict=True):
        assert torch.equal(one, other)


def test_weights_of_one_agent_for_another():
    manager = trainer().policy
    a, b = manager.policies["a"], manager.policies["b"]
    b.load_state_dict(a.state_dict())
    assert (a.agent_id, b.agent_id) == ("a", "b")
    assert all(torch.equal(*pair) for pair in zip(weights(a), weights(b), strict=True))


def test_policies_can_be_replaced():
    manager, policies, _ = recorded(steps=3)
    new = Recorder(7)
    manager.replace_policy(new, "b")
    assert manager.policies["b"] is new
    assert new.agent_id == "b"
    assert [*manager.policies] == list(AGENTS)
    assert [*manager.policies.values()] == [policies[0], new, policies[2]]
    with pytest.raises(KeyError, match="none of the agents"):
        manager.replace_policy(Recorder(), "d")
    with pytest.raises(AssertionError, match="got 2 policies for the agents"):
        MultiAgentPolicyManager(policies=policies[:2], env=Turns())
    manager.eval()
    assert not any(policy.training for policy in manager.policies.values())
    assert {id(policy) for policy in copy.deepcopy(manager).policies.values()}.isdisjoint(map(id, policies))


def test_seeds_differ_and_repeat():
    manager = MultiAgentPolicyManager(
        policies=[RandomPolicy(action_space=Turns.action_space) for _ in AGENTS], env=Turns()
    )
    draws = []
    for seed in (1, 1, 2):
        manager.seed(seed)
        draws.append([policy.rng.random() for policy in manager.policies.values()])
    assert draws[0] == draws[1] != draws[2]
    assert len(set(draws[0])) == 3


@pytest.mark.pitfall("tianshou-marl-schedules")
def test_schedules_of_the_agents_step():
    net = Net(2, 4)
    optim = torch.optim.SGD(net.parameters(), lr=1.0)
    learner = DQNPolicy(model=net, optim=optim, action_space=Turns.action_space, lr_scheduler=ExponentialLR(optim, 0.5))
    manager = MultiAgentPolicyManager(policies=[learner, Recorder(), Recorder()], env=Turns())
    collector = Collector(manager, DummyVectorEnv([Turns]), VectorReplayBuffer(30, 1))
    collector.collect(n_step=14)
    for _ in range(3):
        manager.update(0, collector.buffer)
    assert optim.param_groups[0]["lr"] == 0.125


def test_each_has_a_hidden_state_of_its_own():
    torch.manual_seed(0)

    def recurrent():
        net = Recurrent(1, 2, 4, hidden_layer_size=8)
        return DQNPolicy(model=net, optim=adam(1e-2), action_space=Turns.action_space)

    manager = MultiAgentPolicyManager(policies=[recurrent(), Recorder(), recurrent()], env=Turns())
    collector = Collector(manager, DummyVectorEnv([Turns] * 2), VectorReplayBuffer(60, 2))
    collector.collect(n_step=26)
    buffer, net = collector.buffer, manager.policies["c"].model
    state = None
    for row in (2, 5):  # its turns in the first episode
        stored = buffer.get(np.array([row]), "policy").hidden_state.c.hidden
        want = np.zeros_like(stored) if state is None else state["hidden"].detach().numpy()
        np.testing.assert_allclose(stored, want, atol=1e-6)
        _, state = net(buffer.get(np.array([row]), "obs").obs, state)
    assert manager.update(0, buffer).get_loss_stats_dict().keys() == {"a/loss", "b/loss", "c/loss"}
    single = Collector(manager, DummyVectorEnv([Turns] * 3), VectorReplayBuffer(60, 3))
    single.collect(n_episode=2)  # the state of an agent appears when only some environments take part


def test_stacks_are_refused():
    manager, _, collector = recorded(steps=14, buffer=VectorReplayBuffer(30, 1, stack_num=2))
    with pytest.raises(ValueError, match="would join rows of several agents"):
        manager.update(0, collector.buffer)


def test_tic_tac_toe_against_a_random_player():
    pytest.importorskip("pygame", reason="PettingZoo's board games draw with pygame")
    tictactoe = pytest.importorskip("pettingzoo.classic.tictactoe_v3")
    env = PettingZooEnv(tictactoe.env())
    net = Net(18, 9, hidden_sizes=[16])
    learner = DQNPolicy(model=net, optim=adam(1e-3), action_space=env.action_space, estimation_step=2)
    manager = MultiAgentPolicyManager(policies=[learner, RandomPolicy(action_space=env.action_space)], env=env)
    envs = DummyVectorEnv([lambda: PettingZooEnv(tictactoe.env())] * 3)
    collector = Collector(manager, envs, VectorReplayBuffer(300, 3), exploration_noise=True)
    result = collector.collect(n_episode=9)
    assert result.returns.shape == (9, 2)
    assert set(np.unique(result.returns)) <= {-1.0, 0.0, 1.0}
    processed = manager.process_fn(*collector.buffer.sample(0)[:1], collector.buffer, collector.buffer.sample(0)[1])
    assert processed.player_1.rew.sum() == result.returns[:, 0].sum()  # lost games, too
    assert processed.player_1.done.sum() == processed.player_2.done.sum() == 9
    assert manager.update(32, collector.buffer).get_loss_stats_dict().keys() == {"player_1/loss"}
    assert all(one <= other for one, other in pairwise([0, manager.policies["player_1"]._iter]))
